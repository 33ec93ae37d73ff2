"""Data that lies beside the repository: what other implementations decided and answered, and a trace of real jobs.

Too large, and others', to be part of it. A test that needs some is skipped where the data is not there, and the end of
the run counts what was skipped for that (`conftest.py`), so that silence is not taken for agreement.
"""

from __future__ import annotations

from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parents[2] / "shared"
REASON = "data beside the repository is not here"


def needs(data: Path) -> pytest.MarkDecorator:
    """A mark for tests that cannot run without a folder."""
    return pytest.mark.skipif(not data.is_dir(), reason=f"{REASON}: {data.relative_to(BESIDE)}")
