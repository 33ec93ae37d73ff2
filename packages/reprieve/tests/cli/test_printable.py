"""No control character of an object reaches a terminal (interfaces.md 1.13)."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kube_rules.printable import printable, printable_line
from reprieve.cli import terminal
from reprieve.cli.documents import Format, document
from reprieve.cli.outcome import CommandError, log_to_stderr, note, show
from reprieve.cli.sections import Row, Section, plain
from reprieve.cli.terminal import drawn
from reprieve.client.plain_yaml import yaml_texts
from reprieve.observability.logs import Log
from tests.cli.conftest import Run

HOSTILE = "a\x1b]0;owned\x07\x1b[2J\x9b31m\r\t\x7f\u202egnp\u2066\u200b\ufeff\u2028\x85\U000e0041z [bold]b[/bold]"
OURS = re.compile(r"\x1b\[[0-9;]*m")
"""Colours: the only sequences that we write ourselves."""
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def harmless(text: str) -> bool:
    return all(map(str.isprintable, text.split("\n")))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, ünïcode, 日本, 🚀\n", "plain text, ünïcode, 日本, 🚀\n"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x9b2J", "\\x9b2J"),
        ("a\rb", "a\\rb"),
        ("\u202egnp", "\\u202egnp"),
        ("\u2028", "\\u2028"),
        ("\U000e0041", "\\U000e0041"),
        ("\udcff", "\\udcff"),
        ("", ""),
    ],
)
def test_characters_that_do_not_print_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(texts)
def test_line_stays_one(text: str) -> None:
    assert printable_line(text).isprintable()
    assert harmless(printable(text))
    assert printable(text).count("\n") == text.count("\n")


def test_every_way_out_of_a_command_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    show(HOSTILE)
    note(HOSTILE, f"error: {CommandError(HOSTILE)}", "one\nerror: two")
    shown, noted = capsys.readouterr()
    assert harmless(shown)
    assert harmless(noted)
    assert noted.count("\n") == 3


SECTION = Section(HOSTILE, (HOSTILE,), (Row((HOSTILE,), (HOSTILE,)),), (HOSTILE,))


@pytest.mark.parametrize("form", [plain, lambda sections: OURS.sub("", drawn(sections, width=400))])
def test_tables_are_harmless_and_have_no_tabs_and_no_markup(form: Callable[[list[Section]], str]) -> None:
    """An object in a cell makes no line of its own, and rich's markup in it is text."""
    shown = form([SECTION])
    assert harmless(shown)
    assert shown.count("[bold]b[/bold]") == 5
    assert len([line for line in shown.splitlines() if line.strip("─ ")]) == 5


def test_terminal_gets_our_own_sequences_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(terminal, "show_drawn", written.append)
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal.show_sections([SECTION], Terminal())
    assert "\x1b" in written[0]
    assert harmless(OURS.sub("", written[0]))


@given(texts, texts)
def test_documents_are_harmless_and_mean_what_they_meant(key: str, value: str) -> None:
    """As JSON and as YAML, and as the YAML of snapshots."""
    content = {key: [value, {"x": value}], "hostile": HOSTILE}
    as_json, as_yaml = document(content, Format.JSON), document(content, Format.YAML)
    snapshot = "".join(yaml_texts([content]))
    assert all(map(harmless, (as_json, as_yaml, snapshot)))
    assert json.loads(as_json) == content
    assert yaml.safe_load(as_yaml) == content
    assert yaml.safe_load(snapshot) == content


def test_log_lines_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the scheduler in both forms, and of the server."""
    out = io.StringIO()
    for form in ("text", "json"):
        Log(form=form, stream=out).info(HOSTILE, pod=HOSTILE)
    assert harmless(out.getvalue())
    assert out.getvalue().count("\n") == 2
    root = logging.getLogger()
    before = root.handlers[:]
    root.handlers.clear()
    try:
        log_to_stderr(True)
        root.handlers[0].emit(logging.LogRecord("x", logging.ERROR, "", 0, f"one\ntwo {HOSTILE}", (), None))
    finally:
        root.handlers[:] = before
    shown = capsys.readouterr().err
    assert harmless(shown)
    assert shown.count("\n") == 1


POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {reprieve.dev/preemption-cost: "%s"}}
spec: {containers: [{name: c, resources: {requests: {"x.io/%s": 1}}}], schedulerName: "%s"}
"""


@pytest.mark.parametrize("form", ["text", "json", "yaml"])
@pytest.mark.parametrize("command", ["plan", "queue", "capacity", "explain --all-waiting"])
def test_commands_on_hostile_manifests(run: Run, tmp_path: Path, command: str, form: str) -> None:
    """Whether they answer or refuse."""
    hostile = "\\e[2J\\u202e\\r\\u009b"
    file = tmp_path / "pod.yaml"
    file.write_text(POD % (hostile, "y", hostile))
    for found in (file, "-"):
        ended = run(*command.split(), "-f", found, "-o", form, stdin=POD % (hostile, hostile, hostile))
        assert harmless(ended.out)
        assert harmless(ended.err)
        assert ended.out or ended.err


@pytest.mark.parametrize(
    "arguments", [("plan", "--no\x1b[2Jsuch"), ("\x1b[2J",), ("plan", "-f", "/\x1b[2J\u202e"), ("explain", "\x9b/x")]
)
def test_bad_usage_quotes_harmlessly(run: Run, arguments: tuple[str, ...]) -> None:
    ended = run(*arguments)
    assert ended.code == 2
    assert harmless(ended.err)
