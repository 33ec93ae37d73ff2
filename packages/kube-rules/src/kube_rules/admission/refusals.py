"""The wording of admission refusals, and the names of resources in them."""

from __future__ import annotations


def forbidden_message(resource: str, name: str, why: str) -> str:
    """Return ``pods "p" is forbidden: why``; ``resource`` is a plural with its group."""
    subject = f'{resource} "{name}"' if name else resource
    return f"{subject} is forbidden: {why}"


def plural_of(kind: str) -> str:
    """Return the plural of a kind in URLs, as apimachinery guesses it: ``Job`` -> ``jobs``."""
    word = kind.lower()
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return word if word == "endpoints" else word + ("es" if word.endswith("s") else "s")


def resource_of(api_version: str, kind: str) -> str:
    """Return the plural of a kind with its API group: ``jobs.batch``, ``pods``."""
    group = api_version.rpartition("/")[0]
    return f"{plural_of(kind)}.{group}" if group else plural_of(kind)
