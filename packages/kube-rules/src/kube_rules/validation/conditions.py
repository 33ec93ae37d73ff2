"""Rules of `metav1.Condition` lists, for kinds that require them complete (transcripts 480, 481)."""

from __future__ import annotations

import re

from kube_rules import field_errors as fe
from kube_rules.validation import names
from kube_rules.validation import rows as r

_STATES = ("False", "True", "Unknown")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", re.ASCII)
_REASON_MESSAGE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)


conditions = r.listed(
    "conditions",
    r.Unique("type"),
    r.formed("type", names.qualified, "always"),
    r.enum("status", _STATES),
    r.at_least(0, "observedGeneration", detail="must be greater than or equal to zero"),
    lambda condition, path: () if "lastTransitionTime" in condition else (fe.required(f"{path}.lastTransitionTime"),),
    r.wanted("reason", lambda text: () if _REASON.fullmatch(text) else (_REASON_MESSAGE,)),
    r.at_most(1024, "reason"),
    r.at_most(32 * 1024, "message"),
)
"""Check type, status, time and reason of each condition; every type occurs once."""
