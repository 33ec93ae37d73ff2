"""The syntax of names, labels and label keys, by apimachinery's validation.

Every check returns the messages of an API server (an empty tuple for a valid text), so that validation can add a field
path. Results are cached: a cluster repeats its labels many times.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from kube_rules.caching import remembered

Messages = tuple[str, ...]

_LABEL_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_1035_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_DNS_SUBDOMAIN: Final = re.compile(SUBDOMAIN)

_NAME_MESSAGE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_MESSAGE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_DNS_LABEL_MESSAGE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_DNS_1035_LABEL_MESSAGE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_DNS_SUBDOMAIN_MESSAGE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def _matcher(pattern: re.Pattern[str], limit: int, message: str) -> Callable[[str], Messages]:
    too_long = f"must be no more than {limit} bytes"

    @remembered(8192)
    def check(text: str) -> Messages:
        if len(text) > 4 * limit:  # such a text is worth neither a match nor memory in the cache
            return (too_long,)
        messages: Messages = ()
        if len(text.encode(errors="replace")) > limit:
            messages += (too_long,)
        if pattern.fullmatch(text) is None:
            messages += (message,)
        return messages

    return check


dns_label_errors: Final = _matcher(_DNS_LABEL, 63, _DNS_LABEL_MESSAGE)
"""Return messages for a DNS-1123 label (names of namespaces, templates, containers)."""

dns_1035_label_errors: Final = _matcher(_DNS_1035_LABEL, 63, _DNS_1035_LABEL_MESSAGE)
"""Return messages for a DNS-1035 label (names of Services)."""

dns_subdomain_errors: Final = _matcher(_DNS_SUBDOMAIN, 253, _DNS_SUBDOMAIN_MESSAGE)
"""Return messages for a DNS-1123 subdomain (names of most objects)."""

label_value_errors: Final = _matcher(_LABEL_VALUE, 63, _VALUE_MESSAGE)
"""Return messages for a label value."""

_name_part_errors: Final = _matcher(_LABEL_NAME, 63, _NAME_MESSAGE)


@remembered(8192)
def qualified_name_errors(text: str) -> Messages:
    """Return messages for a label key, resource name or gate name: `name` or `prefix.example.com/name`."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return (
            "a qualified name "
            + _NAME_MESSAGE.removeprefix("name part ")
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    messages: Messages = ()
    if slash:
        if not prefix:
            messages += ("prefix part must be non-empty",)
        else:
            messages += tuple("prefix part " + message for message in dns_subdomain_errors(prefix))
    if not name:
        messages += ("name part must be non-empty",)
    if len(name) > 63:
        messages += ("name part must be no more than 63 bytes",)
    return messages + tuple(m for m in _name_part_errors(name) if m is _NAME_MESSAGE)
