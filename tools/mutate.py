"""How many small faults the tests notice: `python tools/mutate.py [AREA ...] [--count N] [--seed N]`.

A *mutant* is the product with one small change: a comparison turned or moved by one, `and` for `or`, a condition
negated, a number off by one, a call left out.  Each is made in a copy of the sources, the tests of its area run against
it with the first failure ending the run, and it is *killed* if they fail; one that *survives* is shown with its place:
either a test is missing, or the line does not matter.  Which mutants are made depends on the seed and the sources
alone, so that a figure can be repeated, and compared with that after a change.

`--only PATH:LINE` makes all mutants of one line, to see whether a new test kills them.  The checkout is not touched.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "reprieve"

AREAS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "preemption": (("preemption",), ("tests/preemption", "tests/properties", "tests/scheduling")),
    "scheduling": (("scheduling",), ("tests/scheduling", "tests/properties", "tests/queueing")),
    "queueing": (("queueing",), ("tests/queueing", "tests/scheduling", "tests/properties")),
    "cluster": (("cluster",), ("tests/cluster", "tests/plugins", "tests/properties")),
    "plugins": (("plugins",), ("tests/plugins", "tests/properties")),
    "framework": (("framework",), ("tests/framework", "tests/scheduling", "tests/plugins")),
    "live": (("live",), ("tests/live",)),
    "admission": (
        ("controlplane/admission", "controlplane/rules"),
        ("tests/controlplane/admission", "tests/controlplane/rules", "tests/controlplane"),
    ),
    "patching": (("controlplane/patching",), ("tests/controlplane/patching", "tests/controlplane")),
    "storage": (("controlplane/storage",), ("tests/controlplane/storage", "tests/controlplane")),
}
"""Area -> (sources below src/reprieve, tests that are to notice, those most likely to first)."""

LIMIT_SECONDS = 600
"""A mutant whose tests run longer than this hangs, which counts as noticed."""


@dataclass(frozen=True)
class Mutant:
    """One change: `text` is the whole file with it, `what` says it in a line."""

    path: Path
    line: int
    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.what}"


_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


def changes(node: ast.AST) -> Iterator[Callable[[], None]]:
    """Everything that can be done to a node, each as a call that does it in place."""
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            other = _COMPARISONS.get(type(operator))
            if other is not None:
                yield lambda i=index, o=other: node.ops.__setitem__(i, o())  # type: ignore[misc]
    elif isinstance(node, ast.BoolOp):
        flipped = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield lambda: setattr(node, "op", flipped)
    elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, (ast.BinOp, ast.AugAssign)):
        swapped = _ARITHMETIC.get(type(node.op))
        text = isinstance(node, ast.BinOp) and any(_is_text(side) for side in (node.left, node.right))
        if swapped is not None and not text:
            yield lambda: setattr(node, "op", swapped())
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            turned = not node.value
            yield lambda: setattr(node, "value", turned)
        elif isinstance(node.value, (int, float)):
            more = node.value + 1
            yield lambda: setattr(node, "value", more)
    elif isinstance(node, ast.Expr) and isinstance(node.value, (ast.Call, ast.Await)):
        yield lambda: setattr(node, "value", ast.Constant(value=None))
    elif isinstance(node, ast.Continue):
        yield lambda: setattr(node, "__class__", ast.Break)
    elif isinstance(node, ast.Break):
        yield lambda: setattr(node, "__class__", ast.Continue)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _never_run(tree: ast.Module) -> set[int]:
    """Nodes (by id) that are for type checkers or readers alone: annotations, TYPE_CHECKING, decorators."""
    out: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parts += [node.returns, *node.decorator_list]
            arguments = node.args
            every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
            parts += [argument.annotation for argument in every if argument is not None]
        elif isinstance(node, ast.ClassDef):
            parts += node.decorator_list
        elif isinstance(node, ast.AnnAssign):
            parts.append(node.annotation)
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            parts.append(node)
        for part in parts:
            if part is not None:
                out.update(id(inner) for inner in ast.walk(part))
    return out


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutant of a file, in the order of its lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = _never_run(tree)
    number = -1
    for position, node in enumerate(ast.walk(tree)):
        if id(node) in skipped or not hasattr(node, "lineno"):
            continue
        for turn, _ in enumerate(changes(node)):
            number += 1
            changed = copy.deepcopy(tree)
            target = next(other for at, other in enumerate(ast.walk(changed)) if at == position)
            before = ast.unparse(target)
            list(changes(target))[turn]()
            after = ast.unparse(target)
            what = f"{_short(before)}  ->  {_short(after)}"
            yield Mutant(path, int(node.lineno), what, ast.unparse(ast.fix_missing_locations(changed)))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 70 else f"{line[:67]}..."


def count(path: Path) -> int:
    """How many mutants a file has, without making them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = _never_run(tree)
    return sum(
        sum(1 for _ in changes(node)) for node in ast.walk(tree) if id(node) not in skipped and hasattr(node, "lineno")
    )


def chosen(files: list[Path], wanted: int, seed: int) -> list[Mutant]:
    """A draw of mutants over all files, the same for the same sources and seed."""
    sizes = [(path, count(path)) for path in files]
    places = [(path, index) for path, size in sizes for index in range(size)]
    drawn = random.Random(seed).sample(places, min(wanted, len(places)))
    by_file: dict[Path, set[int]] = {}
    for path, index in drawn:
        by_file.setdefault(path, set()).add(index)
    return [
        mutant for path, indices in sorted(by_file.items()) for i, mutant in enumerate(mutants(path)) if i in indices
    ]


def killed(mutant: Mutant, tests: tuple[str, ...]) -> bool:
    """Whether the tests notice. They run in a process of their own, on a copy of the sources."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as scratch:
        copied = Path(scratch) / "src" / "reprieve"
        shutil.copytree(SOURCES, copied, ignore=shutil.ignore_patterns("__pycache__"))
        (copied / mutant.path.relative_to(SOURCES)).write_text(mutant.text, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(copied.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        existing = [test for test in tests if (ROOT / test).exists()]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *existing]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, timeout=LIMIT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return True
        if done.returncode not in (0, 1, 2, 3, 4):
            raise SystemExit(f"pytest ended with {done.returncode}: {done.stdout.decode(errors='replace')[-2000:]}")
        return done.returncode != 0


def main() -> None:
    """Make mutants, run tests, print who survived and the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"of {', '.join(AREAS)}; all by default")
    parser.add_argument("--count", type=int, default=20, help="mutants in each area (default 20)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default 1)")
    parser.add_argument("--only", metavar="PATH:LINE", help="all mutants of one line, with the tests of its area")
    parser.add_argument("--list", action="store_true", help="name the mutants and run nothing")
    options = parser.parse_args()
    unknown = [area for area in options.areas if area not in AREAS]
    if unknown:
        parser.error(f"unknown area {unknown[0]!r}; known: {', '.join(AREAS)}")
    rates = []
    for area in options.areas or AREAS:
        places, tests = AREAS[area]
        files = sorted(path for place in places for path in (SOURCES / place).rglob("*.py"))
        if options.only:
            where, _, line = options.only.rpartition(":")
            picked = [m for m in mutants((ROOT / where).resolve()) if m.line == int(line)] if line.isdigit() else []
            if (ROOT / where).resolve() not in files:
                continue
        else:
            picked = chosen(files, options.count, options.seed)
        noticed = 0
        for mutant in picked:
            if options.list:
                print(mutant)
                continue
            found = killed(mutant, tests)
            noticed += found
            print(f"{'killed  ' if found else 'SURVIVED'} {mutant}", flush=True)
        rates.append((area, noticed, len(picked)))
    if not options.list:
        for area, noticed, made in rates:
            print(f"{area:12} {noticed} of {made} killed ({100 * noticed / max(1, made):.0f} %)")


if __name__ == "__main__":
    main()
