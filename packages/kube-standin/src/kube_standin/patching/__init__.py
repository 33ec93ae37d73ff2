"""Patches: JSON patch, merge patch, strategic merge patch, server-side apply and field ownership.

Pure functions over JSON objects; none changes its input. Invalid patches raise `PatchError` (with the HTTP code, reason
and message of the API server) or `ApplyConflict`.
"""

from __future__ import annotations

from kube_standin.patching.errors import ApplyConflict, Conflict, FailedTestError, PatchError
from kube_standin.patching.jsonpatch import json_patch, merge_patch
from kube_standin.patching.ownership import apply, merged_configuration, track_update, with_times_kept
from kube_standin.patching.strategic import strategic_merge

__all__ = [
    "ApplyConflict",
    "Conflict",
    "FailedTestError",
    "PatchError",
    "apply",
    "json_patch",
    "merge_patch",
    "merged_configuration",
    "strategic_merge",
    "track_update",
    "with_times_kept",
]
