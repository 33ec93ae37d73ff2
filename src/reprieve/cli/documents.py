"""What commands write to stdout: text for people, or one document as JSON or YAML (interfaces.md 1)."""

from enum import StrEnum


class Format(StrEnum):
    """What to write to stdout."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


def document(content: object, output: Format) -> str:
    """A document (a Struct, or plain data) as JSON or YAML."""
    import msgspec

    if output is Format.JSON:
        return msgspec.json.format(msgspec.json.encode(content), indent=2).decode() + "\n"
    import yaml

    text: str = yaml.safe_dump(msgspec.to_builtins(content), sort_keys=False, allow_unicode=True, width=110)
    return text
