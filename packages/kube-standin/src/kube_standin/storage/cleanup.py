"""Clear a data directory: its state, or everything a server has put there.

Only files that a server makes are removed, by name, and only while no server runs on them; whatever else is in the
directory stays, and so does the directory then.
"""

import contextlib
import shutil
from pathlib import Path

from kube_standin.storage.log import locked

_STATE = ("state.db*", "decisions.db*", "loaded.json")
_REST = ("kubeconfig", "scheduler.kubeconfig", "tokens.json", "pki")


def clear(directory: Path, *, everything: bool) -> bool:
    """Remove the state, or (`everything`) also keys, certificates and kubeconfigs; whether there was any.

    Damaged files that were put aside count as state. Raises StorageError if a server is running there, and OSError
    where something cannot be removed.
    """
    if not (directory / "state.db").exists() and not (directory / "state.db-lock").exists():
        return False
    with locked(directory / "state.db"):
        for pattern in (*_STATE, *(_REST if everything else ())):
            for path in sorted(directory.glob(pattern)):
                if path.name == "state.db-lock":
                    continue
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        if everything:
            (directory / "state.db-lock").unlink()
    if everything:
        with contextlib.suppress(OSError):  # something of the user's is in it
            directory.rmdir()
    return True
