"""How a command ends: exit codes, one line for an error, and lines that are never longer than a person reads."""

from __future__ import annotations

import pytest

from reprieve.cli.outcome import LONGEST_LINE, CommandError, Exit, note, reason_of, refuse, show


def test_exit_codes_are_those_that_scripts_count_on() -> None:
    """interfaces.md 1; 130, 141 and 143 are what a shell makes of SIGINT, SIGPIPE and SIGTERM."""
    assert {code.name: int(code) for code in Exit} == {
        "DONE": 0,
        "NOT_SO": 1,
        "BAD_INPUT": 2,
        "UNREACHABLE": 3,
        "INTERRUPTED": 130,
        "BROKEN_PIPE": 141,
        "TERMINATED": 143,
    }


def test_error_is_one_line_and_bad_input_unless_it_says_otherwise() -> None:
    with pytest.raises(CommandError, match=r"^two lines of text$") as refused:
        refuse("two lines\n  of text ")
    assert refused.value.code is Exit.BAD_INPUT
    assert CommandError("away", Exit.UNREACHABLE).code is Exit.UNREACHABLE


@pytest.mark.parametrize("length", [LONGEST_LINE - 1, LONGEST_LINE, LONGEST_LINE + 1, 3 * LONGEST_LINE])
def test_line_on_stderr_is_bounded_and_a_short_one_is_whole(length: int, capsys: pytest.CaptureFixture[str]) -> None:
    line = "x" * length
    note(line, "short")
    first, second = capsys.readouterr().err.splitlines()
    assert second == "short"
    assert (first == line) is (length <= 2000)
    assert len(first) <= 2000
    assert len(str(CommandError(line))) <= 2000


def test_pages_go_to_stdout_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    show("a\nb")
    assert capsys.readouterr() == ("a\nb", "")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FileNotFoundError(2, "No such file or directory", "x.yaml"), "x.yaml: No such file or directory"),
        (FileExistsError(17, "File exists", "out"), "out: is a file, not a directory"),
        (OSError("broken"), "broken"),
        (OSError(28, "No space left on device"), "No space left on device"),
    ],
)
def test_why_a_file_cannot_be_used(error: OSError, text: str) -> None:
    assert reason_of(error) == text
