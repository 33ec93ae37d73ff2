"""The one type of a JSON object that is read or written as it is: a manifest, a body, a part of one."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
"""Names of fields -> values as JSON has them."""
