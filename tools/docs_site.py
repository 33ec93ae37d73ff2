"""What the documentation site has beyond docs/: the pages at the top of the repository, and sources that pages link to.

A hook of mkdocs (`mkdocs.yml`). In the repository a link from `docs/glossary.md` to a file under `../src` leads to the
file; on the site it leads to a page that shows it. A link out of `docs/` to what is not there is left as it is, so that
mkdocs says it is broken.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
TOP = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
_LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".sh": "bash"}


def _targets(text: str, where: str) -> Iterator[tuple[str, str]]:
    """Links of a page that lies in `where` (a directory of the repository): as written, and the path they lead to."""
    for found in _LINK.finditer(_FENCE.sub("", text)):
        if "://" not in found[1]:
            yield found[1], posixpath.normpath(posixpath.join(where, found[1]))


def _place(path: str) -> str | None:
    """Where something of the repository is on the site; None if it is not there."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path in TOP:
        return path
    return f"source/{path}.md" if (ROOT / path).is_file() else None


def _rewritten(text: str, where: str, page: str) -> str:
    """The page's text with its links as they are on the site."""
    changed = dict(_targets(text, where))

    def instead(found: re.Match[str]) -> str:
        place = _place(changed[found[1]]) if found[1] in changed else None
        if place is None:
            return found[0]
        return f"]({posixpath.relpath(place, posixpath.dirname(page))}{found[2] or ''})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _LINK.sub(instead, part) for part in parts)


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the pages at the top, and a page for every source that some page links to."""
    pages = {path: ROOT / path for path in TOP}
    pages |= {f"docs/{file.src_uri}": Path(file.abs_src_path or "") for file in files.documentation_pages()}
    for path in TOP:
        files.append(File.generated(config, path, content=(ROOT / path).read_text()))
    linked = {
        target
        for path, page in pages.items()
        for _, target in _targets(page.read_text(), posixpath.dirname(path))
        if not target.startswith("docs/") and target not in TOP and (ROOT / target).is_file()
    }
    for path in sorted(linked):
        language = _LANGUAGES.get(os.path.splitext(path)[1], "text")
        content = f"# {path}\n\n````{language}\n{(ROOT / path).read_text()}````\n"
        made = File.generated(config, f"source/{path}.md", content=content)
        made.inclusion = made.inclusion.NOT_IN_NAV
        files.append(made)
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links as they are on the site."""
    uri = page.file.src_uri
    if uri.startswith("source/"):
        return markdown
    return _rewritten(markdown, "" if uri in TOP else posixpath.dirname(f"docs/{uri}"), uri)
