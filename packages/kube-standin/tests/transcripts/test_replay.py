"""All 622 recorded requests to a kube-apiserver 1.36, sent again in order: the answers are the same but for a list.

``differences.yaml`` beside this file names every place where an answer differs, with the reason.
"""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.outside import needs
from tests.transcripts.comparing import places
from tests.transcripts.transcripts import DIRECTORY, Result, load, replay_all

TRANSCRIPTS = [transcript.name for transcript in load()]
needs_recordings = needs(DIRECTORY)


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    """Replay once for all tests of this module."""
    return {result.transcript.name: result for result in asyncio.run(replay_all())}


@cache
def allowed() -> dict[str, list[str]]:
    """Return the argued differences: transcript -> places."""
    out: dict[str, list[str]] = {}
    for entry in yaml.safe_load((Path(__file__).parent / "differences.yaml").read_text()):
        assert len(entry["why"]) > 20, entry
        for name, where in entry["places"].items():
            out.setdefault(name, []).extend(where)
    return out


def covers(listed: str, place: str) -> bool:
    """Whether a listed place is ``place`` or above it."""
    return place == listed or (place.startswith(listed) and place[len(listed)] in ".[")


@needs_recordings
@pytest.mark.parametrize("name", TRANSCRIPTS or ["none"])
def test_answer_is_the_recorded_one(name: str, results: dict[str, Result]) -> None:
    """interfaces.md 4.2."""
    result = results[name]
    listed = allowed().get(name, [])
    unexplained = [
        line for line, place in zip(result.found, places(result.found), strict=True)
        if not any(covers(entry, place) for entry in listed)
    ]  # fmt: skip
    request = result.transcript.request
    assert not unexplained, "\n".join([f"{request['method']} {request['path']}", *unexplained[:10]])


@needs_recordings
def test_no_listed_difference_is_stale(results: dict[str, Result]) -> None:
    stale = [
        f"{name}: {entry}"
        for name, listed in allowed().items()
        for entry in listed
        if name not in results or not any(covers(entry, place) for place in places(results[name].found))
    ]
    assert stale == []


@needs_recordings
def test_differences_are_few_and_codes_are_the_same() -> None:
    """An unknown method, what 1.37 refuses and 1.36 did not, and a mistake of the client that was answered with 500."""
    assert len(TRANSCRIPTS) == 622
    assert len(allowed()) < 40
    codes = {name for name, where in allowed().items() if "status" in where}
    assert codes == {"057-method-unknown", "502-pod-in-deleting-group", "599-watch-rv-bad"}
