"""`reprieve down`: remove what `reprieve up` keeps."""

from pathlib import Path

from kube_standin.command import DataDir, default_data_dir
from reprieve.cli.outcome import note, reason_of, refuse


def command(data_dir: DataDir = None) -> None:
    """Remove everything that `reprieve up` has put into its data directory. A cluster that runs is not touched."""
    directory = Path(data_dir) if data_dir is not None else default_data_dir("reprieve/up")
    if str(directory) == ":memory:":
        refuse("--data-dir :memory: keeps nothing that could be removed")
    from kube_standin.storage.clearing import clear
    from kube_standin.storage.log import StorageError

    try:
        removed = clear(directory, everything=True)
    except StorageError as error:
        refuse(f"{error}; stop it first")
    except OSError as error:
        refuse(reason_of(error))
    note(f"removed the state in {directory}" if removed else f"nothing to remove in {directory}")
