"""The check of words, class names and sizes (tools/check_words.py)."""

import subprocess
from pathlib import Path

import pytest

from tests.docs.test_site import tool

check = tool("check_words")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with nothing in it."""
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """What it finds, a line each; the exit code says whether that is anything."""
    code = check.main(arguments)
    lines = capsys.readouterr().out.splitlines()
    assert code == bool(lines)
    return [": ".join(line.split(": ")[:2]) if '"' in line else line for line in lines]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Pods which wait.\n", []),
        ("a\nPods whose node is gone.\n", ['docs/page.md:2: "whose"']),
        ("It was tried in\nvain, and nobody saw.\n", ['docs/page.md:1: "in vain"', 'docs/page.md:2: "nobody"']),
        ("```text\nRoom is made\n```\n", ['docs/page.md:2: "Room is made"']),
        ("`auth whoami` and `who` are names.\n", []),
        ("Who may set it\n", []),
        ("Users who plan, and pods who wait.\n", ['docs/page.md:1: "who"']),
        ("a" * 121 + "\n", ["docs/page.md:1: 121 characters; at most 120"]),
        ("| " + "a" * 121 + " |\n```text\n" + "a" * 121 + "\n```\n", []),
        ("It fits. What is left of it is\nlost.\n", ['docs/page.md:1: "What is left of it is"']),
        ("1. Tried is every pod.\n", ['docs/page.md:1: "Tried is"']),
    ],
)
def test_words_in_pages(repository: Path, capsys: pytest.CaptureFixture[str], text: str, expected: list[str]) -> None:
    write(repository, "docs/page.md", text)
    assert printed(capsys) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('def f() -> None:\n    """Say who."""\n', ['m.py:2: "who"']),
        ("# tried in\n# vain\n", ['m.py:1: "in vain"']),
        ('TEXT = (\n    "tried in "\n    f"vain {TEXT}"\n)\n', ['m.py:2: "in vain"']),
        ('FIELD = "who"\nTEXT = f"{nobody} runs"\n', []),
        ("nobody.runs()\n", []),
    ],
)
def test_words_in_sources(repository: Path, capsys: pytest.CaptureFixture[str], text: str, expected: list[str]) -> None:
    write(repository, "packages/p/src/p/m.py", text)
    assert printed(capsys) == [f"packages/p/src/p/{line}" for line in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("class HeldRoom:\n    in_vain: bool\n", ["HeldRoom"]),
        ("def put_off(who: int) -> None:\n    nobody = who\n", ["put_off", "who", "nobody"]),
        ("whole = input_office = 1\n", []),
    ],
)
def test_words_in_names(repository: Path, capsys: pytest.CaptureFixture[str], text: str, expected: list[str]) -> None:
    """Fields of classes are names in JSON: they stay."""
    write(repository, "packages/p/src/p/m.py", text)
    assert sorted(line.split("`")[1] for line in printed(capsys)) == sorted(expected)


def test_tests_have_rules_for_words_alone(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        repository,
        "packages/p/tests/test_deleting.py",
        'def test_who() -> None:\n    "Nobody runs."\n' + "pass\n" * 600,
    )
    write(repository, "tests/cases/a.yaml", "title: Nobody\n")
    assert [line.split(": ")[0] for line in printed(capsys)] == [
        "packages/p/tests/test_deleting.py:1",
        "packages/p/tests/test_deleting.py:2",
        "tests/cases/a.yaml:1",
    ]


def test_names_of_variables_say_what_they_hold(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of fields stay, and so do those of tests."""
    source = (
        "class A:\n    found: int\n\n\ndef f(one: int) -> int:\n    found_pods = other = one\n    return found_pods\n"
    )
    write(repository, "packages/a/src/a/m.py", source)
    write(repository, "packages/a/tests/test_m.py", source)
    assert printed(capsys) == [
        f"packages/a/src/a/m.py:{line}: the name `{name}`: a noun for what it holds"
        for line, name in ((5, "one"), (6, "other"))
    ]


def test_words_in_the_name_of_a_module(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(repository, "packages/p/src/p/in_vain.py", "")
    assert len(printed(capsys)) == 1


def test_method_inherits_its_docstring(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = 'class Base:\n    def run(self) -> None:\n        """Run."""\n\n    def bare(self) -> None: ...\n'
    write(repository, "packages/kube-rules/src/kube_rules/base.py", base)
    methods = "    def run(self) -> None: ...\n    def bare(self) -> None: ...\n    def _own(self) -> None: ...\n"
    derived = f"class Derived(base.Base[int]):\n{methods}class _Private:\n{methods}"
    write(repository, "packages/reprieve/src/reprieve/derived.py", derived)
    assert printed(capsys) == [
        "packages/kube-rules/src/kube_rules/base.py:5: `Base.bare` has no docstring",
        "packages/reprieve/src/reprieve/derived.py:3: `Derived.bare` has no docstring",
    ]


def test_class_name_stays_with_the_lower_layer(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(repository, "packages/reprieve/src/reprieve/cli/a.py", "class Answer: ...\n")
    write(repository, "packages/kube-rules/src/kube_rules/z.py", "class Answer: ...\nclass Step: ...\n")
    expected = "`Answer` is also a class of packages/kube-rules/src/kube_rules/z.py:1"
    assert printed(capsys) == [f"packages/reprieve/src/reprieve/cli/a.py:1: {expected}"]


@pytest.mark.parametrize(("lines", "reason", "count"), [(60, "", 0), (61, "", 1), (61, "  # long: a table", 0)])
def test_length_of_functions(
    repository: Path, capsys: pytest.CaptureFixture[str], lines: int, reason: str, count: int
) -> None:
    text = f"def f() -> None:{reason}\n" + "    pass\n" * (lines - 1)
    write(repository, "packages/p/src/p/m.py", text)
    assert len(printed(capsys)) == count


@pytest.mark.parametrize(("lines", "reason", "count"), [(600, "", 0), (601, "", 1), (600, "# long: a table\n", 0)])
def test_length_of_files(
    repository: Path, capsys: pytest.CaptureFixture[str], lines: int, reason: str, count: int
) -> None:
    write(repository, "packages/p/src/p/m.py", reason + "pass\n" * lines)
    assert len(printed(capsys)) == count


def test_released_part_of_the_changelog_is_not_checked(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(repository, "CHANGELOG.md", "Nobody.\n<!-- releases, newest first; -->\nNobody.\n")
    assert printed(capsys) == ['CHANGELOG.md:1: "Nobody"']


def test_paths_limit_what_is_printed(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(repository, "docs/a.md", "nobody\n")
    write(repository, "tests/a.md", "nobody\n")
    assert printed(capsys) == ['docs/a.md:1: "nobody"', 'tests/a.md:1: "nobody"']
    assert printed(capsys, "docs") == ['docs/a.md:1: "nobody"']
    assert printed(capsys, "tests/a.md") == ['tests/a.md:1: "nobody"']
    assert printed(capsys, "deploy") == []


@pytest.mark.parametrize(("module", "findings"), [("deleting", 1), ("decoding", 0), ("volume_matching", 0)])
def test_modules_are_named_by_nouns(
    repository: Path, capsys: pytest.CaptureFixture[str], module: str, findings: int
) -> None:
    path = f"packages/reprieve/src/reprieve/{module}.py"
    write(repository, path, "")
    assert printed(capsys) == [f"{path}:1: the module `{module}`: a noun for what it holds"] * findings
