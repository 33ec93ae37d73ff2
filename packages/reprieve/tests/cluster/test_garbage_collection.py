"""When a process that reads a cluster once looks for garbage in cycles."""

import gc
from collections.abc import Iterator

import pytest

from reprieve.cluster.garbage_collection import collecting_once_loaded


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_nothing_is_looked_for_until_all_is_loaded() -> None:
    """After that what was loaded is left out; at the end all is as it was."""
    with collecting_once_loaded() as loaded:
        assert not gc.isenabled()
        loaded("engine", 0.0)
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_input_that_is_refused_leaves_all_as_it_was() -> None:
    with pytest.raises(ValueError, match="refused"), collecting_once_loaded():
        raise ValueError("refused")
    assert gc.isenabled()


def test_collection_that_was_off_stays_off() -> None:
    gc.disable()
    with collecting_once_loaded() as loaded:
        loaded()
        assert not gc.isenabled()
    assert not gc.isenabled()
