"""`reprieve shadow report` and the options of `scheduler --shadow` (shadow.md 4)."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from reprieve.decisions.shadow import ShadowReport, decode_report, encode_report
from tests.cli.conftest import Run

EXAMPLE = Path(__file__).parents[4] / "examples" / "shadow" / "report.json"


def example() -> ShadowReport:
    return decode_report(EXAMPLE.read_bytes())


def test_report_as_text_json_and_yaml(run: Run) -> None:
    """shadow.md 4.1: one document, three renderings; exit code 1 only where it is asked for."""
    text = run("shadow", "report", "--from", EXAMPLE)
    assert (text.code, text.err) == (0, "")
    assert text.out.startswith("2 differences, 1 pod or gang compared, ")
    assert "podgroup default/train" in text.out
    document = run("shadow", "report", "--from", EXAMPLE, "-o", "json")
    assert decode_report(document.out.encode()) == example()
    assert json.loads(document.out)["counts"] == {"HalfPlaced": 1, "Starved": 0, "MoreEvicted": 1, "FewerEvicted": 0}
    assert "kind: ShadowReport" in run("shadow", "report", "--from", EXAMPLE, "-o", "yaml").out
    assert run("shadow", "report", "--from", EXAMPLE, "--fail-on-difference").code == 1


def test_empty_report_says_so(run: Run, tmp_path: Path) -> None:
    """A report that has compared nothing is not one without differences."""
    none = replace(example(), differences=(), counts=dict.fromkeys(example().counts, 0))
    file = tmp_path / "report.json"
    file.write_bytes(encode_report(none))
    assert run("shadow", "report", "--from", file, "--fail-on-difference").out.startswith("No differences: 1 pod or")
    file.write_bytes(encode_report(replace(none, compared=0)))
    assert run("shadow", "report", "--from", file).out.startswith("Nothing could be compared yet, ")


def test_page_is_one_file_in_which_names_are_text(run: Run, tmp_path: Path) -> None:
    """shadow.md 4.1, page.md 6.1: nothing of it runs or is fetched, whatever an object is called."""
    evil = "<script>alert(1)</script>&\"'"
    found = replace(example().differences[0], name=evil, message=evil)
    file = tmp_path / "report.json"
    file.write_bytes(encode_report(replace(example(), differences=(found,), schedulers=(evil,), left_out=1)))
    shown = run("shadow", "report", "--from", file, "-o", "html")
    assert shown.code == 0
    assert "<script>alert" not in shown.out
    assert "\\u003cscript>alert(1)\\u003c/script>&" in shown.out
    assert "default-src 'none'" in shown.out
    assert "unsafe-inline" not in shown.out
    assert shown.err == "1 older differences are counted, and not listed\n"


@pytest.mark.parametrize(
    ("arguments", "content", "code", "message"),
    [
        (["--from", "FILE"], None, 2, "No such file or directory: start a shadow with --shadow-report FILE"),
        (["--from", "FILE"], b"{}", 2, "not a shadow report: Object missing required field `schedulers`"),
        (["--from", "ftp://here"], None, 2, "expected http://HOST:PORT, https://HOST:PORT or a file"),
        (["--from", "http://127.0.0.1:1"], None, 3, "cannot connect: Connection refused: is a scheduler with --shadow"),
        (["--from", "http://example.com", "--token-file", "FILE"], b"x" * 16, 2, "only sent over https"),
        (["--token-file", "FILE"], b"short", 2, "expected one token of at least 16 printing characters"),
    ],
)
def test_bad_input_is_one_error(
    run: Run, tmp_path: Path, arguments: list[str], content: bytes | None, code: int, message: str
) -> None:
    """interfaces.md 1.9: one line that says what to do, nothing on stdout."""
    file = tmp_path / "file"
    if content is not None:
        file.write_bytes(content)
    ended = run("shadow", "report", *[str(file) if part == "FILE" else part for part in arguments])
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--shadow", "--leader-elect"],
            "--leader-elect cannot be combined with --shadow: a shadow writes nothing, not even a lease",
        ),
        (["--shadow", "--shadow-hold=0s"], "--shadow-hold 0s: expected a duration from 1s to 24h"),
        (["--shadow", "--shadow-hold=soon"], "--shadow-hold 'soon': expected a duration like 15s or 1m30s"),
        (["--shadow-report=x"], "--shadow-report requires --shadow"),
        (["--endpoint-token-file=nowhere"], "--endpoint-token-file nowhere: No such file or directory"),
    ],
)
def test_options_of_a_shadow_that_mean_nothing_are_refused(run: Run, arguments: list[str], message: str) -> None:
    """shadow.md 1, 2.3."""
    ended = run("scheduler", *arguments)
    assert (ended.code, ended.out, ended.err) == (2, "", f"error: {message}\n")


def test_document_reads_what_it_writes() -> None:
    """Every field is always written."""
    plain = msgspec.json.decode(encode_report(example()))
    assert set(plain) == {field.encode_name for field in msgspec.structs.fields(ShadowReport)}
