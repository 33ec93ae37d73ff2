"""How sections look: rich in a terminal, plain elsewhere; nothing is cut off, NO_COLOR is honoured."""

import io
import re
from dataclasses import replace

import pytest

from reprieve.cli import terminal
from reprieve.cli.sections import Row, Section, Tone, plain
from reprieve.cli.terminal import drawn, show_sections

LONG = "if it stayed, " + ", ".join(f"default/member-{i}" for i in range(12)) + " would not fit"
LONG_NAME = "pod with-a-rather-long-name-" + "x" * 60
SECTIONS = [
    Section("All placed.", notes=("No pods are evicted.",), tone=Tone.GOOD),
    Section("Evicted", ("workload", "size", "on"), (Row(("pod a", "1 pod", "n1"), below=(LONG,)),), tone=Tone.BAD),
    Section("Spared", ("workload", "size", "on"), (Row((LONG_NAME, "1 pod", "n1")),)),
]
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7][0-9;]*m")
CONTROL = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_text_aligns_columns_and_keeps_long_lines_whole() -> None:
    text = plain(SECTIONS)
    assert f"      {LONG}\n" in text
    first = ["All placed.", "  No pods are evicted.", "", "Evicted", "  workload  size   on", "  pod a     1 pod  n1"]
    assert text.splitlines()[: len(first)] == first
    assert "\x1b" not in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_terminal_folds_long_text_and_loses_nothing(width: int) -> None:
    shown = CONTROL.sub("", drawn(SECTIONS, width=width))
    assert max(map(len, shown.splitlines())) <= width
    letters = re.sub(r"[\s─]", "", shown)
    assert all(word in letters for word in ("No pods are evicted. " + LONG).split())
    assert letters.count("x") == 60
    assert "…" not in shown


def test_terminal_gets_colours_unless_no_color_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(terminal, "show_drawn", written.append)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    show_sections(SECTIONS, Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    show_sections(SECTIONS, Terminal())
    coloured, colourless = written
    assert COLOUR.search(coloured)
    assert not COLOUR.search(colourless)


@pytest.mark.parametrize(("out", "term"), [(io.StringIO(), "xterm"), (Terminal(), "dumb")])
def test_pipes_and_dumb_terminals_get_plain_text(out: io.StringIO, term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(terminal, "show", written.append)
    monkeypatch.setenv("TERM", term)
    show_sections(SECTIONS, out)
    assert written == [plain(SECTIONS)]


WIDE = Section(
    "Queue",
    ("#", "workload", "pods", "priority", "since", "why", "would evict"),
    tuple(
        Row((str(i), f"podgroup default/pretrain-{i}", "24", "100", "2026-01-01T00:10:23Z", "Preempting", evicts))
        for i, evicts in enumerate(("", "default/train-0-x9k2d, default/train-1-b7c3f"))
    ),
)


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_table_of_many_columns_loses_no_character_and_breaks_no_name(width: int) -> None:
    """What has no room beside the others goes below its row, behind its column's name."""
    shown = CONTROL.sub("", drawn([WIDE], width=width))
    assert max(map(len, shown.splitlines())) <= width
    words = {word.strip(",") for row in WIDE.rows for cell in row.cells for word in cell.split()}
    assert words <= {word.strip(",") for word in shown.split()}
    assert all(column in " ".join(shown.split()) for column in WIDE.columns)


def test_details_of_a_row_stand_below_it_in_the_table() -> None:
    """Victims are a table in a terminal too, with the reason of each eviction."""
    victims = Section(
        "Evicted",
        ("workload", "size", "on"),
        (
            Row(("pod default/a", "1 pod", "n1"), below=("why: it is large",)),
            Row(("pod default/b-longer", "1 pod", "n2")),
        ),
    )
    assert CONTROL.sub("", drawn([victims], width=80)).splitlines() == [
        "Evicted",
        "  workload              size   on",
        "  " + "─" * 31,
        "  pod default/a         1 pod  n1",
        "      why: it is large",
        "  pod default/b-longer  1 pod  n2",
    ]


def lines(section: Section, width: int) -> list[str]:
    return [line.rstrip() for line in CONTROL.sub("", drawn([section], width=width)).splitlines()]


FOLDED = Section("T", ("pod", "why"), (Row(("pod a", "it is too large"), below=("more",)), Row(("b", ""))))


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (
            24,
            [
                "T",
                "  pod    why",
                "  " + "─" * 22,
                "  pod a  it is too large",
                "      more",
                "  b",
            ],
        ),
        (
            23,
            [
                "T",
                "  pod    why",
                "  " + "─" * 21,
                "  pod a  it is too",
                "         large",
                "      more",
                "  b",
            ],
        ),
        (
            12,
            [
                "T",
                "  pod  why",
                "  " + "─" * 10,
                "  pod  it is",
                "  a    too",
                "       large",
                "      more",
                "  b",
            ],
        ),
        (
            11,
            [
                "T",
                "  pod",
                "  " + "─" * 5,
                "  pod a",
                "      why",
                "      it is",
                "      too",
                "      large",
                "      more",
                "  b",
            ],
        ),
    ],
)
def test_columns_shrink_to_their_longest_words_and_then_move_below(width: int, shown: list[str]) -> None:
    """The last column first, behind its name; a row of which nothing has room is folded as it is."""
    assert lines(FOLDED, width) == shown


@pytest.mark.parametrize("width", range(1, 12))
def test_terminal_of_a_few_columns_loses_nothing_either(width: int) -> None:
    """The margin of what stands below a row is given up before the text is."""
    section = replace(FOLDED, notes=("and so on",))
    shown = lines(section, width)
    assert max(map(len, shown)) <= width
    row = FOLDED.rows[0]
    for text in (*row.cells, *row.below, *section.notes):
        assert text.replace(" ", "") in "".join(shown).replace(" ", "")


def test_sections_are_apart_by_one_empty_line_and_what_has_no_columns_has_no_line_below_them() -> None:
    first = Section("One", ("", ""), (Row(("a", "b")),), notes=("note",))
    assert CONTROL.sub("", drawn([first, Section("Two")], width=40)).splitlines() == [
        "One",
        "  a  b",
        "  note",
        "",
        "Two",
    ]
    assert plain([first, Section("Two")]).splitlines() == ["One", "  a  b", "  note", "", "Two"]


def test_title_and_its_rows_have_the_colours_of_their_tones() -> None:
    """What stands below a row is quiet; without colours the same text."""
    section = Section("T", ("pod",), (Row(("a",), ("below",), Tone.BAD),), tone=Tone.GOOD)
    shown = drawn([section], width=40)
    assert "\x1b[1;32mT\x1b[0m" in shown
    assert "\x1b[1mpod\x1b[0m" in shown.replace("  pod", "pod").replace("\x1b[1m  ", "\x1b[1m")
    assert re.search(r"\x1b\[31m *a", shown)
    assert re.search(r"\x1b\[2mbelow", shown)
    assert not COLOUR.search(drawn([section], colour=False, width=40))
