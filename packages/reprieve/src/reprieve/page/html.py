"""The page as a single file, and its parts as a site (page.md 5, 6).

The client consists of ES modules that import each other by name. In the single file they are merged into one script,
each after its imports; their names are unique.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from reprieve.page.documents import PageDocument

FIRST: Final = "app.js"
_IMPORT: Final = re.compile(r'^import \{[^}]*\} from "\./([a-z_]+\.js)";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:function|class|const) )", re.MULTILINE)
_SITE: Final = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:"
_LOCKED: Final = "base-uri 'none'; form-action 'none'"
SITE_POLICY: Final = f"{_SITE}; {_LOCKED}; frame-ancestors 'none'"
"""Content-Security-Policy of the served site."""


@cache
def client_files() -> dict[str, str]:
    """Return the text of each client file by name."""
    paths = sorted(files("reprieve.page").joinpath("client").iterdir(), key=lambda file: file.name)
    return {file.name: file.read_text(encoding="utf-8") for file in paths if file.is_file()}


def as_file(document: PageDocument) -> str:
    """Return the page with its document as a self-contained file. The result is deterministic."""
    style, script = client_files()["page.css"], script_of(FIRST)
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; {_LOCKED}"
    # `<` cannot close the element, and no reader treats U+2028 as a line end.
    encoded = msgspec.json.encode(document).decode()
    data = encoded.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    parts = {
        '<meta charset="utf-8">': '<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<link rel="stylesheet" href="page.css">': f"<style>{style}</style>",
        f'<script type="module" src="{FIRST}"></script>\n': "",
        "</body>": f'<script type="application/json" id="page-document">{data}</script>\n'
        f'<script type="module">{script}</script>\n</body>',
    }
    page = client_files()["index.html"]
    for mark, text in parts.items():
        page = page.replace(mark, text)
    return page


@cache
def script_of(first: str) -> str:
    """Return a module with its imports as one script."""
    done: list[str] = []

    def add(name: str) -> None:
        if name in done:
            return
        for imported in _IMPORT.findall(client_files()[name]):
            add(imported)
        done.append(name)

    add(first)
    return "".join(_EXPORT.sub("", _IMPORT.sub("", client_files()[name])) for name in done)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
