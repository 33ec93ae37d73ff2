"""Data that lies beside the repository: what other implementations decided and answered, and a trace of real jobs.

Too large, and others', to be part of it. A test that needs some is skipped where the data is not there, and the end of
the run counts what was skipped for that (`conftest.py`), so that silence is not taken for agreement.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parents[2] / "shared"
REASON = "data beside the repository is not here"


def needs(data: Path) -> pytest.MarkDecorator:
    """A mark for tests that cannot run without a folder."""
    return pytest.mark.skipif(not data.is_dir(), reason=f"{REASON}: {data.relative_to(BESIDE)}")


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NO_BROWSER = "no Chromium here"
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER)
"""A mark for tests of the page in Debian's Chromium."""
