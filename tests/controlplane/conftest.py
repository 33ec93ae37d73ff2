"""Lets the tests of one room run alone: `tests.controlplane...` is importable whatever pytest was given."""

import sys
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[2])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)
