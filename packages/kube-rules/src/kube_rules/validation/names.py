"""Syntax of names: one function per form, each returning the API server's messages (none for a valid text).

The common forms (labels, qualified names, subdomains) come from `kube_rules.labels`.
"""

from __future__ import annotations

import re

from kube_rules.caching import remembered
from kube_rules.labels import (
    SUBDOMAIN,
    Messages,
    dns_1035_label_errors,
    dns_label_errors,
    dns_subdomain_errors,
    label_value_errors,
    qualified_name_errors,
)

subdomain = dns_subdomain_errors
qualified = qualified_name_errors
label_value = label_value_errors
dns1035_label = dns_1035_label_errors

_PERCENT = re.compile(r"[0-9]+%", re.ASCII)
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_PERCENT_MESSAGE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used "
    "for validation is '[0-9]+%')"
)
_CONFIG_KEY_MESSAGE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME', "
    " or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


@remembered(8192)
def dns_label(text: str) -> Messages:
    """Check a DNS-1123 label; a text that is a subdomain gets messages only for its dots (transcript 020)."""
    result = dns_label_errors(text)
    if result and "." in text and not dns_subdomain_errors(text):
        return (*(message for message in result if "must be no more" in message), "must not contain dots")
    return result


_SEARCH = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*"
_SEARCH_FORM = re.compile(_SEARCH, re.ASCII)


@remembered(1024)
def search(text: str) -> Messages:
    """Check a search domain: a subdomain that may have underscores."""
    return _formed(
        text,
        _SEARCH_FORM,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
        f"start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SEARCH}')",
    )


def _formed(text: str, form: re.Pattern[str], message: str) -> Messages:
    long = ("must be no more than 253 bytes",) if len(text) > 253 else ()
    return long if form.fullmatch(text) else (*long, message)


@remembered(1024)
def port_name(text: str) -> Messages:
    """Check the name of a port (IANA service name)."""
    result: list[str] = []
    if len(text) > 15:
        result.append("must be no more than 15 bytes")
    if not re.fullmatch(r"[-a-z0-9]+", text):
        result.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", text):
        result.append("must contain at least one letter (a-z)")
    if "--" in text:
        result.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        result.append("must not begin or end with a hyphen")
    return tuple(result)


_WILDCARD = re.compile(rf"\*\.{SUBDOMAIN}", re.ASCII)
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_HTTP_PATH_FORM = re.compile(_HTTP_PATH, re.ASCII)


@remembered(1024)
def wildcard(text: str) -> Messages:
    """Check a wildcard host such as *.example.com."""
    return _formed(
        text,
        _WILDCARD,
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
        "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
        rf"regex used for validation is '\*\.{SUBDOMAIN}')",
    )


def http_path(text: str) -> Messages:
    """Check the part of a domain-prefixed path after its first slash."""
    valid = _HTTP_PATH_FORM.fullmatch(text)
    return () if valid else (f"Invalid path (regex used for validation is '{_HTTP_PATH}')",)


def percent(text: str) -> Messages:
    """Check a percentage such as 30%."""
    return () if _PERCENT.fullmatch(text) else (_PERCENT_MESSAGE,)


@remembered(4096)
def config_key(text: str) -> Messages:
    """Check a key of a ConfigMap or Secret."""
    result: list[str] = []
    if len(text) > 253:
        result.append("must be no more than 253 bytes")
    if not _CONFIG_KEY.fullmatch(text):
        result.append(_CONFIG_KEY_MESSAGE)
    if text in (".", ".."):
        result.append(f"must not be '{text}'")
    elif text.startswith(".."):
        result.append("must not start with '..'")
    return tuple(result)


@remembered(4096)
def env_name(text: str) -> Messages:
    """Check the name of an environment variable."""
    if not text:
        return ("environment variable name must be non-empty",)
    if any(not " " <= letter <= "~" or letter == "=" for letter in text):
        return ("a valid environment variable name must consist only of printable ASCII characters other than '='",)
    return ()


def path_segment(text: str) -> Messages:
    """Check a name that only has to fit into a URL (roles, role bindings)."""
    if text in (".", ".."):
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{sign}'" for sign in "/%" if sign in text)
