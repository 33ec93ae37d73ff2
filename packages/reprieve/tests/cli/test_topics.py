"""`reprieve help`: pages that come with the program, options of commands."""

from pathlib import Path

import pytest

from reprieve.cli.topics import TOPICS
from tests.cli.conftest import Run

ROOT = Path(__file__).parents[4]


def test_topic_is_its_page(run: Run) -> None:
    ended = run("help", "Plan")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith((ROOT / "docs" / "plan.md").read_text())
    assert ended.out.endswith(f"\nFiles of examples/ are in {ROOT / 'examples'}\n")
    assert run("help", "glossary").out == (ROOT / "docs" / "glossary.md").read_text()


def test_without_a_topic_all_are_listed_with_their_titles(run: Run) -> None:
    ended = run("help")
    assert ended.code == 0
    for topic in TOPICS:
        title = (ROOT / "docs" / f"{topic}.md").read_text().partition("# ")[2].partition("\n")[0]
        assert f"  {topic} " in ended.out
        assert title in ended.out
    assert max(map(len, ended.out.splitlines())) <= 80


def test_command_without_a_page_shows_its_options(run: Run) -> None:
    assert run("help", "queue").out == run("queue", "--help").out
    assert "--priorities" in run("help", "import").out


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("plam", 'error: unknown topic or command "plam", did you mean "plan"?\n'),
        ("drain-pan", 'error: unknown topic or command "drain-pan", did you mean "drain-plan"?\n'),
        ("xyzzy", 'error: unknown topic or command "xyzzy"; reprieve help lists all topics\n'),
        ("../README", 'error: unknown topic or command "../README"; reprieve help lists all topics\n'),
    ],
)
def test_misspelt_topic_names_the_nearest(run: Run, topic: str, message: str) -> None:
    ended = run("help", topic)
    assert (ended.code, ended.out, ended.err) == (2, "", message)


def test_pages_are_put_into_the_wheel() -> None:
    """`cli/pages` is docs/, `cli/examples` is examples/; the build follows the links (tools/check_release.py)."""
    pages = ROOT / "packages" / "reprieve" / "src" / "reprieve" / "cli" / "pages"
    assert pages.resolve() == ROOT / "docs"
    assert (pages.parent / "examples").resolve() == ROOT / "examples"
    assert all((pages / f"{topic}.md").is_file() for topic in TOPICS)
