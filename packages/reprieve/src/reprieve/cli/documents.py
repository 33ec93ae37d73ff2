"""Output of commands on stdout: text for people, or one document as JSON or YAML (interfaces.md 1)."""

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kube_rules.printable import printable

if TYPE_CHECKING:
    import yaml


class Format(StrEnum):
    """The output formats of a command."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


class PlanFormat(StrEnum):
    """The output formats of `plan`. `html`: the page as one file; `page`: its document as JSON (page.md 6)."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    HTML = "html"
    PAGE = "page"


def document(content: object, output: Format) -> str:
    """Return a document (a Struct, or plain data) as JSON or YAML.

    Characters that do not print are written as escapes of the format: a parser restores the original text, and a
    terminal receives no control sequences (interfaces.md 1.13).
    """
    import msgspec

    if output is Format.JSON:
        try:
            encoded = msgspec.json.encode(content)
        except UnicodeEncodeError:  # for names of files that are not UTF-8
            encoded = msgspec.json.encode(_encodable(msgspec.to_builtins(content)))
        return json_text(msgspec.json.format(encoded, indent=2).decode()) + "\n"
    import yaml

    class Dumper(yaml.SafeDumper):
        """Text with characters that do not print stands in double quotes, which have escapes."""

    Dumper.add_representer(str, _text)
    text: str = yaml.dump(msgspec.to_builtins(content), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110)
    return printable(text)


def _text(dumper: "yaml.SafeDumper", text: str) -> "yaml.ScalarNode":
    text = _encodable(text)
    quoted = '"' if printable(text) != text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=quoted)


def _encodable(content: Any) -> Any:
    """Return plain data with the bytes of texts that are not UTF-8 (lone surrogates) as escapes."""
    if isinstance(content, str):
        return content.encode(errors="backslashreplace").decode()
    if isinstance(content, list | tuple):
        return [_encodable(item) for item in content]
    if isinstance(content, dict):
        return {_encodable(key): _encodable(value) for key, value in content.items()}
    return content


def json_text(text: str) -> str:
    """Return a JSON document with its characters that do not print as JSON's escapes."""
    import json

    if printable(text) == text:
        return text
    return "".join(item if item.isprintable() or item == "\n" else json.dumps(item)[1:-1] for item in text)
