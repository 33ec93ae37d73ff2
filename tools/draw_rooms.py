"""The house as a picture, drawn from the code: docs/rooms.svg.

    python tools/draw_rooms.py [--check]

A box is `kube_rules`, `kube_standin` or a package of `reprieve`, with what its docstring says it is; an arrow means
"imports". The layers are those of the import-linter contract in pyproject.toml, so that every arrow goes down. An arrow
that follows from others is left out: what imports scheduling may import what scheduling imports, too. `--check` writes
nothing and ends with exit code 1 where the figure is not what the code says. Needs grimp, a part of import-linter.
"""

from __future__ import annotations

import ast
import sys
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

import grimp

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "rooms.svg"
PACKAGES = {"kube_rules": "kube-rules", "kube_standin": "kube-standin", "reprieve": "reprieve"}
"""What is imported -> its folder below packages/; the rooms of the last are drawn, the others whole."""

COLUMNS: Final[Mapping[str, tuple[float, float]]] = {
    "cli": (0, 4),
    "python": (0, 4),
    "questions": (0, 2),
    "replay": (2, 4),
    "live": (0, 4),
    "client": (0, 1),
    "observability": (1, 1.66),
    "page": (1.66, 2.34),
    "simulation": (2.34, 3),
    "kube_standin": (3, 4),
    "decisions": (1, 3),
    "scheduling": (1, 3),
    "queueing": (1, 1.66),
    "preemption": (1.66, 2.34),
    "plugins": (2.34, 3),
    "framework": (1, 3),
    "cluster": (1, 3),
    "inputs": (1, 3),
    "kube_rules": (0, 4),
}
"""From which column to which a room reaches; a room that is not here has no place in the figure yet."""
COLUMN, LAYER, BOX, MARGIN = 216, 116, 80, 36
GAP = 10


@dataclass(frozen=True)
class Box:
    """A room: its name, what it is for, and where it stands."""

    name: str
    purpose: str
    left: float
    top: float
    width: float

    @property
    def right(self) -> float:
        """The x of its right edge."""
        return self.left + self.width


def layers() -> list[list[str]]:
    """The rooms from the top layer down, as the contract has them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    found = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    names = [[part.strip(" ()").removeprefix("reprieve.") for part in layer.split("|")] for layer in found]
    return [sorted(layer, key=lambda name: COLUMNS[name]) for layer in names]


def imports() -> dict[str, set[str]]:
    """Room -> the rooms it imports from, when the program runs."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    rooms = {name: name if name in PACKAGES else f"reprieve.{name}" for layer in layers() for name in layer}
    return {
        one: {
            other
            for other, imported in rooms.items()
            if other != one and graph.direct_import_exists(importer=importer, imported=imported, as_packages=True)
        }
        for one, importer in rooms.items()
    }


def drawn(edges: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """The edges that do not follow from others (the transitive reduction of a graph without circles)."""

    def reach(start: str) -> set[str]:
        return edges[start].union(*(reach(nearer) for nearer in edges[start]))

    below = {room: reach(room) for room in edges}
    return [
        (one, other)
        for one in edges
        for other in sorted(edges[one])
        if not any(other in below[between] for between in edges[one] - {other})
    ]


def folder_of(room: str) -> Path:
    """Return the folder of a room's code."""
    if room in PACKAGES:
        return ROOT / "packages" / PACKAGES[room] / "src" / room
    return ROOT / "packages" / "reprieve" / "src" / "reprieve" / room


def purpose(room: str) -> str:
    """The beginning of a room's docstring, to the first colon or full stop."""
    text = ast.get_docstring(ast.parse((folder_of(room) / "__init__.py").read_text())) or ""
    first = text.split("\n\n")[0].replace("\n", " ").split(": ")[0].split(" (")[0]
    return first.removesuffix(".")


def boxes() -> dict[str, Box]:
    """Every room with its place."""
    found = {}
    for depth, layer in enumerate(layers()):
        for name in layer:
            start, end = COLUMNS[name]
            left = MARGIN + start * COLUMN + GAP
            found[name] = Box(name, purpose(name), left, 16 + depth * LAYER, (end - start) * COLUMN - 2 * GAP)
    return found


def way(one: Box, other: Box, every: Sequence[Box], right: float) -> str:
    """The path of an arrow: straight down where nothing is in between, else along the margin."""
    start, end = one.top + BOX, other.top - 2
    low, high = max(one.left, other.left), min(one.right, other.right)
    between = [box for box in every if one.top < box.top < other.top]
    if low < high:
        x = (low + high) / 2
        if not any(box.left <= x <= box.right for box in between):
            return f"M{x:g} {start:g}V{end:g}"
    x, target = one.right - 2 * GAP, (other.left + other.right) / 2 + 2 * GAP
    turn, back = start + (LAYER - BOX) / 3, other.top - (LAYER - BOX) / 2
    return f"M{x:g} {start:g}V{turn:g}H{right:g}V{back:g}H{target:g}V{end:g}"


def picture() -> str:
    """The SVG text."""
    places = boxes()
    every = list(places.values())
    width = 2 * MARGIN + 4 * COLUMN
    height = max(box.top for box in every) + BOX + 16
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" width="{width}" height="{height:g}"'
        ' role="img" aria-label="The rooms of the house and which way they import" font-family="sans-serif">',
        "<!-- Drawn by tools/draw_rooms.py from the import graph; do not edit. -->",
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L10 5L0 10z" fill="#5b6770"/></marker></defs>',
        f'<rect width="{width}" height="{height:g}" fill="#ffffff"/>',
    ]
    for one, other in drawn(imports()):
        path = way(places[one], places[other], every, width - MARGIN / 2)
        title = f"<title>{one} imports {other}</title>"
        lines.append(
            f'<path d="{path}" fill="none" stroke="#5b6770" stroke-width="1.6" marker-end="url(#head)">{title}</path>'
        )
    for box in every:
        middle = box.left + box.width / 2
        lines.append(
            f'<rect x="{box.left:g}" y="{box.top:g}" width="{box.width:g}" height="{BOX}" rx="8" fill="#eef3f8"'
            ' stroke="#3d5a80"/>'
        )
        said = textwrap.wrap(box.purpose, max(12, int(box.width / 7.2)))[:3]
        y = box.top + BOX / 2 - 7.5 * len(said) + 5
        lines.append(
            f'<text x="{middle:g}" y="{y:g}" text-anchor="middle" font-size="16" font-weight="bold"'
            f' fill="#1d3557">{box.name}</text>'
        )
        for text in said:
            y += 16
            lines.append(
                f'<text x="{middle:g}" y="{y:g}" text-anchor="middle" font-size="12"'
                f' fill="#22303c">{escape(text)}</text>'
            )
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> int:
    """Write the figure, or compare it."""
    if sys.argv[1:] not in ([], ["--check"]):
        print(f"usage: {sys.argv[0]} [--check]", file=sys.stderr)
        return 2
    now = picture()
    if sys.argv[1:] == ["--check"]:
        if not PICTURE.exists() or PICTURE.read_text() != now:
            print("docs/rooms.svg is not what the code says: run python tools/draw_rooms.py", file=sys.stderr)
            return 1
        return 0
    PICTURE.write_text(now)
    return 0


if __name__ == "__main__":
    sys.exit(main())
