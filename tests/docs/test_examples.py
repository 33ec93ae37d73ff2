"""Every example of README.md and docs/ is run, and prints what the page says.

REPRIEVE_UPDATE_DOCS=1 writes the output again where it differs.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest

from conftest import LEFT_OUT
from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.docs.markdown import Block, Command, alike, blocks, commands
from tests.outside import BESIDE

ROOT = Path(__file__).parents[2]
TRACE = BESIDE / "data"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHERS = [ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*/*.md"))]
"""Pages without examples of commands (the walks of CONTRIBUTING.md: test_walks.py)."""
PROGRAM = f"{sys.executable} -m reprieve"
LANGUAGES = {"yaml", "console", "sh", "python", "text"}
MARK = "--- end of a command ---"
STATUS = "echo $?"
ANSWERING = r"reprieve (plan|explain|queue|capacity|drain-plan) "


def ids(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A directory to run a page in: the examples, the trace if there is one, and `reprieve` on the path."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "reprieve"
    program.write_text(f'#!/bin/sh\nexec {PROGRAM} "$@"\n')
    program.chmod(0o755)
    for name in ("examples", "packages"):
        (tmp_path / name).symlink_to(ROOT / name)
    for file in TRACE.glob("openb_*.csv"):
        (tmp_path / file.name).symlink_to(file)
    return tmp_path


def shell(script: str, desk: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{desk / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": ""}
    environment.pop("COLUMNS", None)
    return subprocess.run(
        ["bash", "-c", script],
        cwd=desk,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=1800,
    )


def run_here(typed: list[str], desk: Path, run: Run) -> list[tuple[int, str]]:
    """As `run_console`, in this process: each start of another one takes longer than most commands."""
    found = [(0, "")]
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(desk)
        patched.delenv("COLUMNS", raising=False)
        for line in typed:
            if line == STATUS:
                found.append((0, f"{found[-1][0]}\n"))
            else:
                ended = run(*shlex.split(line)[1:])
                found.append((ended.code, ended.err + ended.out))
    return found[1:]


def needs_no_shell(line: str) -> bool:
    """Whether a line is a command alone that only reads files and prints."""
    return bool(line == STATUS or (re.match(ANSWERING, line) and not re.search(r"[|&;<>$*?~`]|--plugin", line)))


def run_console(typed: list[str], desk: Path) -> list[tuple[int, str]]:
    """Exit code and output of each command, run one after the other in one shell."""
    script = "".join(f"{substitute(line)}\nstatus=$?; echo; echo '{MARK}' $status; (exit $status)\n" for line in typed)
    parts = re.split(rf"^\n?{MARK} (\d+)\n", shell(script, desk).stdout.replace(f"\n\n{MARK}", f"\n{MARK}"), flags=re.M)
    return [(int(code), out) for out, code in zip(parts[::2], parts[1::2], strict=False)]


def substitute(line: str) -> str:
    """`make demo` shows what the command shows; that the target runs it is tested beside."""
    return "reprieve demo" if line == "make demo" else line


def skipped(block: Block) -> bool:
    return "needs=trace" in block.flags and not TRACE.is_dir()


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_examples_print_what_the_page_says(
    page: Path, desk: Path, run: Run, record_property: Callable[[str, object], None]
) -> None:
    told: list[str] = []
    for file in (ROOT / "examples" / page.stem).glob("*"):
        (desk / file.name).symlink_to(file)
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{page}:{block.line}"
        if block.file is not None:
            (desk / block.file).write_text(block.text)
        if skipped(block):
            record_property(LEFT_OUT, TRACE.name)
            continue
        if block.language == "console":
            told += check_console(page, block, desk, run)
        elif block.language == "sh":
            script = "\n".join(line.replace("make ", f"make -n -C {ROOT} ", 1) for line in block.text.splitlines())
            ended = shell(f"set -e\n{script}", desk)
            assert ended.returncode == 0, f"{page}:{block.line}\n{ended.stdout}"
        elif block.language == "python":
            program = subprocess.run(
                [sys.executable, "-W", "error", "-c", block.text], cwd=desk, capture_output=True, text=True, check=False
            )
            assert program.returncode == 0, f"{page}:{block.line}\n{program.stderr}"
    assert not told, "\n".join(told)


def check_console(page: Path, block: Block, desk: Path, run: Run) -> list[str]:
    wanted = list(commands(block))
    typed = [command.typed for command in wanted]
    # Of the first page every command is run as a user runs it.
    here = page != PAGES[0] and all(map(needs_no_shell, typed))
    ended = run_here(typed, desk, run) if here else run_console(typed, desk)
    assert len(ended) == len(wanted), f"{page}:{block.line}: a command ended the shell"
    told = []
    for index, (command, (code, printed)) in enumerate(zip(wanted, ended, strict=True)):
        asked = index + 1 < len(wanted) and wanted[index + 1].typed == STATUS
        if code and not asked:
            told.append(f"{page}:{block.line}: {command.typed}: exit code {code}\n{printed}")
        elif not alike(printed, command.printed):
            if os.environ.get("REPRIEVE_UPDATE_DOCS"):
                update(page, command, printed)
            else:
                told.append(f"{page}:{block.line}: {command.typed} printed:\n{printed}")
    return told


def update(page: Path, command: Command, printed: str) -> None:
    before = f"$ {command.typed}\n{command.printed}"
    text = page.read_text()
    assert text.count(before) == 1, f"{page}: {command.typed} is there more than once"
    page.write_text(text.replace(before, f"$ {command.typed}\n{printed}"))


def test_make_demo_runs_the_command_and_make_test_everything() -> None:
    targets = (ROOT / "Makefile").read_text()
    assert "\ndemo: $(READY)\n\t@$(BIN)/reprieve demo\n" in targets
    rules = dict(re.findall(r"^(test|beside-wheels):.*\n((?:\t.*\n)+)", targets, re.MULTILINE))
    assert rules["test"].startswith("\t$(MAKE) --jobs=2 --output-sync=line beside-wheels test-wheels")
    assert "for target in $(NEEDED) $(BESIDE); do $(MAKE) $$target || exit 1; done" in rules["beside-wheels"]
    assert "\nBESIDE = lint\n" in targets
    assert "make test BESIDE='lint docs'" in (ROOT / ".ci/run").read_text()
    runs = re.findall(r"^\t\$\(PYTEST\).* -m (\".*?\"|\S+) (.*)$", rules["test"], re.MULTILINE)
    assert runs == [('"not timed"', "packages/reprieve/tests tests"), ("timed", "$(TIMED)")], "nothing is left out"
    assert "\nWHEELS = kube-rules kube-standin\n" in targets
    lint = targets.split("\nlint: $(READY)\n")[1].split("\n\n")[0]
    assert all(tool in lint for tool in ("ruff check", "ruff format --check", "mypy", "lint-imports", "check_words.py"))


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=ids)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page}: {target}"


@pytest.mark.parametrize("page", PAGES[2:], ids=ids)
def test_counts_stand_in_blocks_that_are_run(page: Path) -> None:
    """A count of the trace in prose is right until the engine changes: only blocks are compared."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"\b[\d,]+ (?:tasks?|of them)\b|\b[\d,]+ (?:are|is) left out\b", " ".join(prose.split()))


@pytest.mark.parametrize("package", ["kube-rules", "kube-standin", "reprieve"])
def test_every_runtime_and_development_dependency_has_its_reason(package: str) -> None:
    import tomllib

    project = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "dependencies.md").read_text()
    for requirement in chain(project["dependencies"], *project.get("optional-dependencies", {}).values()):
        if requirement.startswith("kube-"):
            continue  # a package of this repository
        name = re.split(r"[><=~ ]", requirement)[0]
        assert re.search(rf"^\|[^|]*\b{re.escape(name)}(?![\w-])", page, re.MULTILINE), name


def test_alike_takes_three_dots_for_any_lines() -> None:
    assert alike("a\nb\nc\n", "a\n...\nc\n")
    assert alike("a\nc\n", "a\n...\nc\n")
    assert not alike("a\nb\n", "a\n...\nc\n")
    assert not alike("a.\n", "ab\n")
