"""Clear a data directory: its state, or all files of a server.

Only files that a server creates are removed, by name, and only while no server runs on them; other files in the
directory are kept, and then the directory as well.
"""

import contextlib
import shutil
from pathlib import Path

from kube_standin.storage.log import locked

_STATE = ("state.db*", "decisions.db*", "loaded.json")
_REST = ("kubeconfig", "scheduler.kubeconfig", "tokens.json", "pki")


def clear(directory: Path, *, everything: bool) -> bool:
    """Remove the state, or (`everything`) also keys, certificates and kubeconfigs; return whether there was any.

    Damaged files that were set aside count as state. Raises StorageError if a server is running there, and OSError if a
    file cannot be removed.
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
        with contextlib.suppress(OSError):  # it contains files of the user
            directory.rmdir()
    return True
