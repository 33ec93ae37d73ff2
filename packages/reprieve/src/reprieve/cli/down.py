"""`reprieve down`: remove what `reprieve up` keeps."""

from pathlib import Path

from kube_standin.command import DataDir, default_data_dir
from reprieve.cli.outcome import note, reason_of, refuse


def command(data_dir: DataDir = None) -> None:
    """Delete the data of `reprieve up`.

    Removes only files that `reprieve up` created in its data directory. Fails while the cluster is running.
    """
    directory = Path(data_dir) if data_dir is not None else default_data_dir("reprieve/up")
    if str(directory) == ":memory:":
        refuse("--data-dir :memory: has no data to delete")
    from kube_standin.storage.cleanup import clear
    from kube_standin.storage.log import StorageError

    try:
        removed = clear(directory, everything=True)
    except StorageError as error:
        refuse(f"{error}; stop it first")
    except OSError as error:
        refuse(reason_of(error))
    note(f"removed the state in {directory}" if removed else f"nothing to remove in {directory}")
