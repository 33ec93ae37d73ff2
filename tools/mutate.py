"""How many small faults the tests notice: `python tools/mutate.py [AREA or PATH ...] [--count N] [--seed N]`.

A *mutant* is the product with one small change: a comparison turned or moved by one, `and` for `or`, a condition
negated, a number off by one, a call left out.  The tests of an area run once to learn which of them run which line
(`reached_lines.py`); each mutant is then made in a copy of the sources and judged by those that run its line, the
quickest first, until one fails, which it must not do without the mutant: it is *killed*.  One that *survives* is shown
with its place: either a test is missing, or the line does not matter.  Which mutants are made depends on the seed and
the sources alone, so that a figure can be repeated, and compared with that after a change.

The judges are imported once, and each mutant is a fork of that process (`forked_judge.py`), unless it changes what is
run by an import.  `--most SECONDS` asks no more judges of a mutant than take so much processor time together; what the
others would notice counts as not noticed.  `--reached FILE` keeps what was learnt of lines and tests: with the sources
of the area as they were, only tests in folders that have changed run again.

A PATH (a file or a folder below `packages`) instead of an area draws from that alone, and is judged as the area is that
holds it.  `--only PATH:LINE` makes all mutants of one line, to see whether a new test kills them; with `--tests
PATH ...` those tests judge, all of them, and nothing is learnt first unless `--reached` says where to keep it.  The
checkout is not touched.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import itertools
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from forked_judge import ANSWERS, ASKED, LIMIT, Answer, Question

if TYPE_CHECKING:
    from reached_lines import Reached

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "packages"
RULES, STANDIN, OURS = "kube-rules/src/kube_rules", "kube-standin/src/kube_standin", "reprieve/src/reprieve"
ROOTS = tuple(str(Path(place).parent) for place in (RULES, STANDIN, OURS))


def _of(package: str, *names: str) -> tuple[str, ...]:
    return tuple(f"packages/{package}/tests/{name}" for name in names)


def _ours(*names: str) -> tuple[str, ...]:
    return _of("reprieve", *names)


def _standin(*names: str) -> tuple[str, ...]:
    return _of("kube-standin", *names)


_DECISIONS = ("tests/cases", *_ours("preemption", "scheduling", "queueing", "properties"))
_SERVED = _standin("server")
_VERBS = (
    *("verbs", "kinds", "metadata", "refusals", "served_kinds", "initial_objects", "security", "packed_schemas"),
    *("authorization", "impersonation", "registry", "initial_owners", "decoding", "parts_of_writes"),
)

AREAS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "preemption": ((f"{OURS}/preemption",), _DECISIONS),
    "scheduling": ((f"{OURS}/scheduling",), _DECISIONS),
    "queueing": ((f"{OURS}/queueing",), _DECISIONS),
    "cluster": ((f"{OURS}/cluster",), (*_ours("cluster", "plugins"), *_DECISIONS)),
    "plugins": ((f"{OURS}/plugins",), (*_ours("plugins"), *_DECISIONS)),
    "framework": ((f"{OURS}/framework",), (*_ours("framework", "plugins"), *_DECISIONS)),
    "api": (
        (RULES, f"{OURS}/inputs"),
        ("packages/kube-rules/tests", *_ours("inputs", "cli"), "tests/cases", *_standin("schema")),
    ),
    "live": (
        (f"{OURS}/live",),
        _ours("live", "plugins/test_extender.py", "plugins/test_extender_live.py", "scheduling"),
    ),
    "admission": ((f"{STANDIN}/admission", f"{RULES}/validation"), (*_standin("admission", "rules"), *_SERVED)),
    "patching": ((f"{STANDIN}/patching",), (*_standin("patching"), *_SERVED)),
    "storage": ((f"{STANDIN}/storage",), (*_standin("storage"), *_SERVED)),
    "server": ((f"{STANDIN}/server",), _SERVED),
    "controllers": ((f"{STANDIN}/controllers", f"{STANDIN}/kubelet"), _standin("controllers", "kubelet")),
    "openapi": ((f"{STANDIN}/openapi",), (*_standin("openapi"), *_SERVED)),
    "schema": (
        (f"{STANDIN}/schema", f"{STANDIN}/defaulting", f"{STANDIN}/protobuf", f"{STANDIN}/tables"),
        (*_standin("schema", "protobuf", "tables"), *_SERVED),
    ),
    "verbs": (
        tuple(f"{STANDIN}/{path.name}" for path in sorted((SOURCES / STANDIN).glob("*.py"))),
        (
            *_standin(*(f"test_{name}.py" for name in _VERBS), "rules/test_advice.py", "admission"),
            *(*_ours("inputs/test_unknown_fields.py"), *_SERVED),
        ),
    ),
    "client": ((f"{OURS}/client",), _ours("client")),
    "simulation": ((f"{OURS}/simulation",), _ours("simulation", "questions", "cli", "python")),
    "decisions": ((f"{OURS}/decisions",), _ours("decisions", "observability", "cli")),
    "observability": ((f"{OURS}/observability",), _ours("observability", "scheduling", "live")),
    "python": ((f"{OURS}/python",), _ours("python")),
    "replay": ((f"{OURS}/replay",), _ours("replay", "cli")),
    "questions": ((f"{OURS}/questions",), _ours("questions", "simulation", "cli")),
    "cli": ((f"{OURS}/cli",), _ours("cli")),
}
"""Area -> (sources below packages/, tests that are to notice)."""

OF_IMPORTS = "packages/reprieve/tests/test_frozen.py"
"""Looks at what imports have made, in every area, and runs no line of it."""

LEAST_PROCESSOR_SECONDS, LEAST_SECONDS, LIMIT_FACTOR = 20, 300, 5
"""A mutant with tests that run longer than this, and than so many times what they took before, hangs: noticed."""


@dataclass(frozen=True)
class Mutant:
    """One change: `text` is the whole file with it, `what` says it in a line."""

    path: Path
    line: int
    what: str
    text: str
    lines: range
    """Lines that run where this one does: those of the statement, or of its head if it has a body."""
    at_import: bool
    """It is no part of a function: what it does is seen wherever its module is used."""

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


_DECLARED = ("frozen", "kw_only", "slots", "gc", "weakref")
"""Keywords of a class, or of its decorator, that forbid what the type checker forbids as well, or save memory."""


def _never_run(tree: ast.Module) -> set[int]:
    """Nodes (by id) that are for type checkers or readers alone, or assert.

    Annotations, TYPE_CHECKING, decorators, what a class forbids, that both sides of a `zip` are as long.
    """
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
            parts += [keyword.value for keyword in node.keywords if keyword.arg in _DECLARED]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip":
            parts += [keyword.value for keyword in node.keywords]
        elif isinstance(node, ast.AnnAssign):
            parts.append(node.annotation)
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            parts.append(node)
        for part in parts:
            if part is not None:
                out.update(id(inner) for inner in ast.walk(part))
    return out


def _places(tree: ast.Module) -> Iterator[tuple[int, int, ast.AST, range, bool]]:
    """All there is to change: number of the node, number of the change; the node, its lines, whether import runs it."""
    skipped = _never_run(tree)
    found: dict[int, tuple[range, bool]] = {}

    def walk(node: ast.AST, lines: range, inside: bool) -> None:
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else (node.end_lineno or node.lineno)
            lines = range(node.lineno, max(last, node.lineno) + 1)
        found[id(node)] = (lines, not inside)
        for child in ast.iter_child_nodes(node):
            of_body = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and child in node.body
            walk(child, lines, inside or of_body or isinstance(node, ast.Lambda))

    walk(tree, range(0), False)
    for position, node in enumerate(ast.walk(tree)):
        if id(node) not in skipped and hasattr(node, "lineno"):
            for turn, _ in enumerate(changes(node)):
                yield position, turn, node, *found[id(node)]


def mutants(path: Path, wanted: set[int] | None = None) -> Iterator[Mutant]:
    """Every mutant of a file, or those with these numbers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for number, (position, turn, node, lines, at_import) in enumerate(_places(tree)):
        if wanted is not None and number not in wanted:
            continue
        changed = copy.deepcopy(tree)
        target = next(other for at, other in enumerate(ast.walk(changed)) if at == position)
        before = ast.unparse(target)
        list(changes(target))[turn]()
        what = f"{_short(before)}  ->  {_short(ast.unparse(target))}"
        text = ast.unparse(ast.fix_missing_locations(changed))
        yield Mutant(path, int(node.lineno), what, text, lines, at_import)  # type: ignore[attr-defined]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 70 else f"{line[:67]}..."


def count(path: Path) -> int:
    """How many mutants a file has, without making them."""
    return sum(1 for _ in _places(ast.parse(path.read_text(encoding="utf-8"))))


def chosen(files: list[Path], wanted: int, seed: int) -> list[Mutant]:
    """A draw of mutants over all files, the same for the same sources and seed."""
    places = [(path, index) for path in files for index in range(count(path))]
    drawn = random.Random(seed).sample(places, min(wanted, len(places)))
    by_file: dict[Path, set[int]] = {}
    for path, index in drawn:
        by_file.setdefault(path, set()).add(index)
    return [mutant for path, indices in sorted(by_file.items()) for mutant in mutants(path, indices)]


def judges(
    mutant: Mutant, reached: Reached, among: tuple[str, ...], most: float = math.inf
) -> tuple[list[str], float, int]:
    """The tests among these that can notice, the quickest files and tests first, what they take, how many are left out.

    They are those that run a line of the mutant's, and for what import runs, a line of any module beside it.  Tests
    that start processes are asked only where no other runs the line: it is not seen which lines those processes run,
    and the clock they are held to may fail them for other reasons.  The quickest that take no more than `most` seconds
    together are asked.
    """
    numbers: set[int] = set()
    for name, lines in reached["lines"].items():
        file = Path(name)
        if file == mutant.path and not mutant.at_import:
            numbers.update(*(tests for line, tests in lines.items() if line in mutant.lines))
        elif file.parent == mutant.path.parent and mutant.at_import:
            numbers.update(*lines.values())
    names, seconds = reached["tests"], reached["seconds"]
    if mutant.at_import:
        numbers.update(number for number, name in enumerate(names) if name.startswith(f"{OF_IMPORTS}::"))
    folders = tuple(f"{place}{after}" for place in (*among, OF_IMPORTS) for after in ("/", "::"))
    of_area = {number for number in numbers if names[number].startswith(folders)}
    able = sorted(of_area.difference(reached["starts_processes"]) or of_area, key=lambda n: (seconds[n], names[n]))
    together = itertools.accumulate(seconds[number] for number in able)
    asked = [number for number, sum_of in zip(able, together, strict=True) if sum_of <= most] or able[:1]
    of_file: dict[str, float] = {}
    for number in asked:
        file_name = names[number].partition("::")[0]
        of_file[file_name] = of_file.get(file_name, 0.0) + seconds[number]
    asked.sort(key=lambda n: (of_file[names[n].partition("::")[0]], names[n].partition("::")[0], seconds[n]))
    return [names[number] for number in asked], sum(seconds[number] for number in asked), len(able) - len(asked)


class Copy:
    """A copy of the product's sources in which one file at a time is changed, and the tests of the checkout."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sources = folder / "packages"
        shutil.copytree(SOURCES, self.sources, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "docs").symlink_to(ROOT / "docs")
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((*(str(self.sources / place) for place in ROOTS), str(ROOT / "tools"))),
            "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
            "PYTHONHASHSEED": "0",
            "OPENBLAS_NUM_THREADS": "1",
        }
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        # Tests that hold a server to the clock fail for other reasons than the mutant.
        options = ("-q", "-p", "no:cacheprovider", "--no-header", "-m", "not timed")
        self.command = [sys.executable, "-m", "pytest", *options]

    def pytest(self, *options: str, limit: float | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        """One run."""
        command, environment = [*self.command, *options], {**self.environment, **more}
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, timeout=limit, check=False, text=True
        )

    def reach(self, places: tuple[str, ...], tests: list[str]) -> Reached:
        """Run the tests once on what is there, and see which of them run which line of the places.

        Of a file its whole folder counts.
        """
        out = self.folder / "reached.json"
        found = [self.sources / place for place in places]
        folders = os.pathsep.join(str(place.parent if place.is_file() else place) for place in found)
        done = self.pytest("-p", "reached_lines", *tests, REACHED_SOURCES=folders, REACHED_LINES=str(out))
        if done.returncode not in (0, 1, 5):
            raise SystemExit(f"the tests do not run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        if done.returncode:
            print(f"left out, as they fail without a mutant:\n{done.stdout[-2000:]}", flush=True)
        raw = json.loads(out.read_text(encoding="utf-8"))
        raw["lines"] = {
            str(SOURCES / Path(file).relative_to(self.sources)): {int(line): of for line, of in lines.items()}
            for file, lines in raw["lines"].items()
        }
        return raw  # type: ignore[no-any-return]

    def fresh_killer(self, mutant: Mutant, tests: list[str], seconds: float, without: list[str]) -> str:
        """The first test that notices, "" if none does, of a process that imports the mutant."""
        listed = self.folder / "tests.txt"
        lines = (*(f"--deselect={test}" for test in without), *tests)
        listed.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        limit = max(LEAST_SECONDS, LIMIT_FACTOR * seconds)
        try:
            done = self.pytest("-x", f"@{listed}", limit=limit, PYTHONDONTWRITEBYTECODE="1")
        except subprocess.TimeoutExpired:
            return LIMIT
        if done.returncode not in (0, 1, 2, 3, 4):
            raise SystemExit(f"pytest ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        failed = (line.split(" ", 1)[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR ")))
        return next(failed, "the import").partition(" - ")[0] if done.returncode else ""


class Judge:
    """A process that has imported the product and collected tests, of which each mutant is a fork."""

    def __init__(self, copied: Copy, tests: list[str]) -> None:
        self.copied = copied
        asked, self._asked = os.pipe()
        self._answers, answers = os.pipe()
        environment = {**copied.environment, ASKED: str(asked), ANSWERS: str(answers), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [*copied.command, "-s", "-p", "forked_judge", "--basetemp", str(copied.folder / "temporary"), *tests]
        self._output = copied.folder / "judge.txt"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, pass_fds=(asked, answers), stdout=output, stderr=subprocess.STDOUT
            )
        os.close(asked)
        os.close(answers)
        self._out = os.fdopen(self._asked, "w", encoding="utf-8")
        self._in = os.fdopen(self._answers, encoding="utf-8")
        if not int(self._line()):
            raise SystemExit(
                f"error: nothing to judge by: of {', '.join(tests)} no test is left without those marked timed"
            )

    def close(self) -> None:
        """No more questions: it ends."""
        self._out.close()
        self.process.wait()
        self._in.close()

    def killer(self, mutant: Mutant, tests: list[str], seconds: float) -> str:
        """The first test that notices, "" if none does; it must pass without the mutant."""
        place = self.copied.sources / mutant.path.relative_to(SOURCES)
        before = place.read_text(encoding="utf-8")
        without: list[str] = []
        while True:
            place.write_text(mutant.text, encoding="utf-8")
            try:
                answer = None if mutant.at_import else self._ask(place, before, mutant.text, tests, seconds, without)
                if answer is None or not answer["able"]:
                    killer = self.copied.fresh_killer(mutant, tests, seconds, without)
                else:
                    killer = answer["killer"]
            finally:
                place.write_text(before, encoding="utf-8")
            if "::" not in killer or not self._ask(place, before, before, [killer], seconds, [])["killer"]:
                return killer
            print(f"left out, as it fails without a mutant now: {killer}", flush=True)
            without.append(killer)

    def _ask(
        self, place: Path, before: str, after: str, tests: list[str], seconds: float, without: list[str]
    ) -> Answer:
        question = Question(
            file=str(place),
            before=before,
            after=after,
            tests=tests,
            without=without,
            processor_seconds=max(LEAST_PROCESSOR_SECONDS, LIMIT_FACTOR * seconds),
            seconds=max(LEAST_SECONDS, LIMIT_FACTOR * seconds),
        )
        self._out.write(f"{json.dumps(question)}\n")
        self._out.flush()
        return json.loads(self._line())  # type: ignore[no-any-return]

    def _line(self) -> str:
        line = self._in.readline()
        if not line:
            status = self.process.wait()
            output = self._output.read_text(encoding="utf-8", errors="replace")
            raise SystemExit(f"the process that judges ended with {status}: {output[-2000:]}")
        return line


def of_area(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sources and tests of an area, or of a path with the tests of the area that holds it; KeyError if none does."""
    if name in AREAS:
        return AREAS[name]
    path = (ROOT / name).resolve()
    for places, tests in AREAS.values():
        if path.exists() and any(path.is_relative_to(SOURCES / place) for place in places):
            return (str(path.relative_to(SOURCES)),), tests
    raise KeyError(name)


def python_files(place: Path) -> list[Path]:
    """A file itself, or all of a folder."""
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


def picked_of(area: str, options: argparse.Namespace) -> list[Mutant]:
    """The mutants that are asked for in an area or below a path."""
    files = sorted({path for place in of_area(area)[0] for path in python_files(SOURCES / place)})
    if not options.only:
        return chosen(files, options.count, options.seed)
    where, _, line = options.only.rpartition(":")
    path = (ROOT / where).resolve()
    return [m for m in mutants(path) if m.line == int(line)] if path in files and line.isdigit() else []


def judge_area(
    mutants_of: list[Mutant], judge: Judge, reached: Reached | None, tests: tuple[str, ...], most: float
) -> int:
    """Say of each mutant what happened to it; how many were killed."""
    noticed = 0
    for mutant in mutants_of:
        able, seconds, left_out = judges(mutant, reached, tests, most) if reached else (list(tests), 0.0, 0)
        killer = judge.killer(mutant, able, seconds) if able else ""
        noticed += bool(killer)
        if killer:
            print(f"killed   {mutant}  by {killer}", flush=True)
        else:
            unasked = f"  ({left_out} slower tests not asked)" if left_out else ""
            print(f"{'SURVIVED' if able else 'NOT RUN '} {mutant}{unasked}", flush=True)
    return noticed


def learnt(copied: Copy, places: tuple[str, ...], tests: list[str], kept: Path | None) -> Reached:
    """Which test runs which line; of folders of tests that are as they were, what the file that keeps it says."""
    sources = "".join(_digest(copied.sources / place) for place in places)
    now = {test: _digest(ROOT / test) for test in tests}
    before = json.loads(kept.read_text(encoding="utf-8")) if kept and kept.exists() else None
    if before is None or before["sources"] != sources or before["places"] != list(places):
        before = {"sources": sources, "places": list(places), "of": {}}
    stale = [test for test, digest in now.items() if before["of"].get(test, {}).get("digest") != digest]
    for test in stale:
        before["of"][test] = {"digest": now[test], "reached": copied.reach(places, [test])}
        if kept:
            kept.write_text(json.dumps(before), encoding="utf-8")
    return together([before["of"][test]["reached"] for test in tests])


def _digest(place: Path) -> str:
    """Of a file, or of all files in a folder that are not compiled from others."""
    files = [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.is_file())
    digest = hashlib.sha256()
    for file in files:
        if "__pycache__" not in file.parts:
            digest.update(f"{file.relative_to(place)}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def together(parts: list[Reached]) -> Reached:
    """What several runs came to, as if they had been one."""
    whole: Reached = {"tests": [], "seconds": [], "starts_processes": [], "lines": {}}
    for part in parts:
        first = len(whole["tests"])
        whole["tests"] += part["tests"]
        whole["seconds"] += part["seconds"]
        whole["starts_processes"] += [first + number for number in part["starts_processes"]]
        for file, lines in part["lines"].items():
            of_file = whole["lines"].setdefault(file, {})
            for line, numbers in lines.items():
                of_file.setdefault(int(line), []).extend(first + number for number in numbers)
    return whole


def main() -> None:
    """Make mutants, run tests, print the survivors and the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "areas",
        nargs="*",
        metavar="AREA or PATH",
        help=f"of {', '.join(AREAS)}; all by default; or some of the sources",
    )
    parser.add_argument("--count", type=int, default=40, help="mutants in each area (default 40)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default 1)")
    parser.add_argument("--only", metavar="PATH:LINE", help="all mutants of one line")
    parser.add_argument("--tests", nargs="+", metavar="PATH", default=[], help="tests that are to judge, all of them")
    parser.add_argument(
        "--most", type=float, default=math.inf, metavar="SECONDS", help="processor time of the judges (default all)"
    )
    parser.add_argument("--reached", type=Path, metavar="FILE", help="where what was learnt of lines is kept")
    parser.add_argument("--list", action="store_true", help="name the mutants and run nothing")
    options = parser.parse_args()
    for area in options.areas:
        try:
            of_area(area)
        except KeyError:
            parser.error(f"unknown area {area!r}, and no path of packages/ in one; known: {', '.join(AREAS)}")
    picked = {area: found for area in options.areas or AREAS if (found := picked_of(area, options))}
    if not picked:
        parser.error(f"nothing to change at {options.only or ', '.join(options.areas)}")
    if options.list:
        print(*(mutant for found in picked.values() for mutant in found), sep="\n")
        return
    rates = {}
    with tempfile.TemporaryDirectory(prefix="mutate-") as scratch:
        copied = Copy(Path(scratch))
        every = [*(test for area in picked for test in of_area(area)[1]), OF_IMPORTS]
        tests = options.tests or _apart([test for test in every if (ROOT / test).exists()])
        reached = None
        if not options.tests or options.reached:
            places = {place: None for area in picked for place in of_area(area)[0]}
            reached = learnt(copied, tuple(places), tests, options.reached)
        judge = Judge(copied, tests)
        for area, found in picked.items():
            among = tuple(options.tests) or of_area(area)[1]
            rates[area] = judge_area(found, judge, reached, among, options.most)
        judge.close()
    for area, noticed in rates.items():
        made = len(picked[area])
        print(f"{area:13} {noticed} of {made} killed ({100 * noticed / made:.0f} %)")


def _apart(places: list[str]) -> list[str]:
    """Each once, and none that another holds: a test is to run once."""
    return [place for place in dict.fromkeys(places) if not any(place.startswith(f"{other}/") for other in places)]


if __name__ == "__main__":
    main()
