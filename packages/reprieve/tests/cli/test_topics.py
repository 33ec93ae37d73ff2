"""`reprieve help`: pages that come with the program, options of commands."""

from pathlib import Path

import pytest

from reprieve.cli.topics import TOPICS
from tests.cli.conftest import Run

ROOT = Path(__file__).parents[4]


def test_a_topic_is_its_page(run: Run) -> None:
    ended = run("help", "Plan")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (ROOT / "docs" / "plan.md").read_text()


def test_without_a_topic_all_are_listed_with_their_titles(run: Run) -> None:
    ended = run("help")
    assert ended.code == 0
    for topic in TOPICS:
        title = (ROOT / "docs" / f"{topic}.md").read_text().partition("# ")[2].partition("\n")[0]
        assert f"  {topic} " in ended.out
        assert title in ended.out
    assert max(map(len, ended.out.splitlines())) <= 80


def test_a_command_without_a_page_shows_its_options(run: Run) -> None:
    assert run("help", "queue").out == run("queue", "--help").out


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("plam", 'error: no topic "plam", did you mean "plan"?\n'),
        ("drain-pan", 'error: no topic "drain-pan", did you mean "drain-plan"?\n'),
        ("xyzzy", 'error: no topic "xyzzy": reprieve help lists them\n'),
        ("../README", 'error: no topic "../README": reprieve help lists them\n'),
    ],
)
def test_a_misspelt_topic_names_the_nearest(run: Run, topic: str, message: str) -> None:
    ended = run("help", topic)
    assert (ended.code, ended.out, ended.err) == (2, "", message)


def test_the_pages_are_put_into_the_wheel() -> None:
    """`cli/pages` is docs/: the build follows the link (tools/check_release.py looks into the wheel)."""
    pages = ROOT / "packages" / "reprieve" / "src" / "reprieve" / "cli" / "pages"
    assert pages.resolve() == ROOT / "docs"
    assert all((pages / f"{topic}.md").is_file() for topic in TOPICS)
