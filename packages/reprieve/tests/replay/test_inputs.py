"""What a replay is given beside jobs: outages of nodes, which jobs and when, classes by rule, and values of traces.

Rules: replay.md 1.3, 1.4, 2.7, 2.8, 3.7.
"""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest

from reprieve.replay.failures import Failures, read_failures
from reprieve.replay.job_list import JobList, JobListError
from reprieve.replay.selection import JobSelection, chosen, long_duration, time_of
from reprieve.replay.traces import importer
from reprieve.replay.traces.priorities import read_priorities
from reprieve.replay.traces.registry import UnknownFormatError, importer_of
from tests.replay.building import job

# -- outages -------------------------------------------------------------------------------------------------------


def outages(folder: Path, *rows: str, begin: float = 0, dated: bool = False, **options: float) -> dict[str, Any]:
    """Node -> (down, up) in seconds."""
    file = folder / "failures.csv"
    file.write_text("".join(f"{row}\n" for row in ("node,down,up", *rows)))
    found = read_failures(file, begin=round(begin * 1000), dated=dated, **options).listed
    return {
        node: [(down / 1000, None if up is None else up / 1000) for down, up in each] for node, each in found.items()
    }


@pytest.mark.parametrize(
    ("rows", "options", "found"),
    [
        (["n,10,20"], {}, [(10, 20)]),
        (["n,10,"], {}, [(10, None)]),
        (["n,10,20", "n,30,40"], {}, [(10, 20), (30, 40)]),
        (["n,10,20", "n,20,40"], {}, [(10, 40)]),
        (["n,10,20"], {"begin": 5}, [(5, 15)]),
        (["n,10,20"], {"begin": 15}, [(0, 5)]),  # it was down already
        (["n,10,20"], {"begin": 19.999}, [(0, 0.001)]),
        (["n,10,20"], {"begin": 20}, []),  # it was back
        (["n,10,"], {"begin": 50}, [(0, None)]),
        (["n,10,20", "n,30,40"], {"begin": 25}, [(5, 15)]),
        (["n,10,20"], {"faster": 2.0}, [(5, 15)]),  # sooner, and down as long
        (["n,10,20", "n,22,24"], {"faster": 2.0}, [(5, 15)]),  # 5-15 and 11-13
        (["n,10,20", "n,29,40"], {"faster": 2.0}, [(5, 25.5)]),  # 5-15 and 14.5-25.5
        (["n,10,20", "n,30,40"], {"faster": 2.0}, [(5, 25)]),  # the second begins as the first ends
        (["n,10,20", "n,31,40"], {"faster": 2.0}, [(5, 15), (15.5, 24.5)]),
        (["n,10,20", "n,22,"], {"faster": 2.0}, [(5, None)]),
    ],
)
def test_when_listed_nodes_are_down(tmp_path: Path, rows: list[str], options: dict[str, Any], found: list[Any]) -> None:
    assert outages(tmp_path, *rows, **options) == {"n": found}


def test_dates_are_those_of_the_job_list(tmp_path: Path) -> None:
    found = outages(
        tmp_path, "n,1970-01-01T00:01:00Z,1970-01-01T00:02:00Z", "m,1970-01-01T00:03:00Z,", begin=30, dated=True
    )
    assert found == {"n": [(30, 90)], "m": [(150, None)]}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["n,10,10"], "line 2, column up: expected a time after down"),
        (["n,10,9"], "line 2, column up: expected a time after down"),
        (["n,x,"], "line 2, column down: expected seconds"),
        (["n,10,x"], "line 2, column up: expected seconds"),
        (["n,,20"], "line 2, column down: "),
        (["n,10"], "line 2: 2 fields, the first line has 3"),
        (["n,10,20,30"], "line 2: 4 fields, the first line has 3"),
        (["n,10,20", "n,19,30"], 'line 3, column down: "n" is down already then: expected them in order of time'),
        (["n,10,", "n,20,30"], 'line 3, column down: "n" is down already then'),
        (["n,1970-01-01T00:01:00Z,"], "line 2, column down: expected seconds as in the rows before"),
    ],
)
def test_outages_that_make_no_sense(tmp_path: Path, rows: list[str], message: str) -> None:
    with pytest.raises(JobListError) as refused:
        outages(tmp_path, *rows)
    assert message in str(refused.value)


@pytest.mark.parametrize("text", ["", "node,down\n", "node,up,down\nn,1,2\n"])
def test_list_of_outages_has_its_three_columns(tmp_path: Path, text: str) -> None:
    file = tmp_path / "failures.csv"
    file.write_text(text)
    with pytest.raises(JobListError, match="expected the columns node,down,up"):
        read_failures(file, begin=0, dated=False)


def test_drawn_outages_depend_on_seed_and_name_alone_and_have_their_mean() -> None:
    drawn = Failures(mean_between=3_600_000, mean_repair=60_000)
    first = list(itertools.islice(drawn.of("n1", 1), 3000))
    assert first == list(itertools.islice(drawn.of("n1", 1), 3000))
    assert first[:3] != list(itertools.islice(drawn.of("n2", 1), 3))
    assert first[:3] != list(itertools.islice(drawn.of("n1", 2), 3))
    ups, last = [], 0
    for down, up in first:
        assert up is not None
        assert down - last >= 1000
        assert up - down >= 1000
        ups.append((down - last, up - down))
        last = up
    between, repair = (sum(each) / len(each) for each in zip(*ups, strict=True))
    assert between == pytest.approx(3_600_000, rel=0.1)
    assert repair == pytest.approx(60_000, rel=0.1)
    assert list(Failures().of("n1", 1)) == []
    assert Failures() == Failures(mean_between=0, mean_repair=0, listed={})
    assert list(Failures(mean_between=0, mean_repair=5).of("n1", 1)) == []
    assert list(Failures(listed={"n1": [(1, 2)]}).of("n1", 1)) == [(1, 2)]


# -- which jobs, and when ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0s", 0),
        ("90s", 90_000),
        ("12h", 43_200_000),
        ("30d", 2_592_000_000),
        ("1d12h", 129_600_000),
        ("1.5d", 129_600_000),
        ("36600d", 36_600 * 86_400_000),
        ("36599d24h", 36_600 * 86_400_000),
        ("0" * 62 + "5s", 5000),
        ("0" * 60 + "1d5s", 86_405_000),
    ],
)
def test_durations_with_days(text: str, milliseconds: int) -> None:
    assert long_duration(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    ["", "5", "d", "-1h", "1d-2h", "36601d", "36600d1s", "0" * 63 + "5s", "36599d24h1s", "1h1d", "x", "1" * 70 + "s"],
)
def test_text_that_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        long_duration(text)


JOBS = JobList([job(f"j{second}", 100 + second, 50) for second in (0, 10, 20, 30)])


@pytest.mark.parametrize(
    ("selection", "submits", "until", "begin"),
    [
        (JobSelection(), {"j0": 0, "j10": 10, "j20": 20, "j30": 30}, None, 100),
        (JobSelection(begin=10_000), {"j10": 0, "j20": 10, "j30": 20}, None, 110),
        (JobSelection(begin=10_001), {"j20": 9.999, "j30": 19.999}, None, 110.001),
        (JobSelection(until=20_000), {"j0": 0, "j10": 10}, 20, 100),
        (JobSelection(until=20_001), {"j0": 0, "j10": 10, "j20": 20}, 20.001, 100),
        (JobSelection(begin=15_000, until=25_000), {"j20": 5}, 10, 115),
        (JobSelection(begin=20_000, until=10_000), {}, 0, 120),
        (JobSelection(load=2.0), {"j0": 0, "j10": 5, "j20": 10, "j30": 15}, None, 100),
        (JobSelection(load=0.5, until=20_000), {"j0": 0, "j10": 20}, 40, 100),
        (JobSelection(sample=4), {"j0": 0, "j10": 10, "j20": 20, "j30": 30}, None, 100),
        (JobSelection(sample=0), {}, None, 100),
    ],
)
def test_which_jobs_are_replayed_and_when(
    selection: JobSelection, submits: dict[str, float], until: float | None, begin: float
) -> None:
    found = chosen(JOBS, selection)
    assert {one.name: one.submit / 1000 for one in found.jobs} == submits
    assert {one.work for one in found.jobs} <= {50_000}, "what they do takes as long as ever"
    assert found.until == (None if until is None else until * 1000)
    assert (found.begin, found.origin) == (begin * 1000, None)


def test_sample_is_in_order_and_the_seed_s() -> None:
    many = JobList([job(f"j{second}", second, 1) for second in range(100)], dated=True)
    samples = [[one.name for one in chosen(many, JobSelection(sample=10, seed=seed)).jobs] for seed in (1, 1, 2)]
    assert samples[0] == samples[1] != samples[2]
    assert all(sorted(found, key=lambda name: int(name[1:])) == found and len(set(found)) == 10 for found in samples)
    first = chosen(many, JobSelection(sample=10, seed=1))
    assert first.jobs[0].submit == 0, "a sample begins with its first job"
    assert first.origin == first.begin


def test_time_of_the_trace_is_a_date_or_since_its_first_job() -> None:
    dated = JobList([job("a", 86_400, 1)], dated=True)
    assert time_of("1970-01-02T00:00:05Z", dated) == 5000
    assert time_of("12h", dated) == time_of("12h", JOBS) == 43_200_000
    with pytest.raises(ValueError, match="the job list has no dates"):
        time_of("1970-01-02T00:00:05Z", JOBS)


# -- classes by rule -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "holds", "not_so"),
    [
        ("gpus>=8", {"gpu": 8}, {"gpu": 7}),
        ("gpus>8", {"gpu": 9}, {"gpu": 8}),
        ("gpus<=8", {"gpu": 8}, {"gpu": 9}),
        ("gpus<8", {"gpu": 7}, {"gpu": 8}),
        ("gpus=8", {"gpu": 8}, {"gpu": 7}),
        ("gpus >= 8", {"gpu": 4, "workers": 2}, {"gpu": 4}),
        ("gpus<0.6", {"gpu": 0.5}, {"gpu": 0.6}),
        ("workers>=2", {"workers": 2}, {"workers": 1}),
        ("duration<60", {"work": 59}, {"work": 60}),
        ("duration>1e9", {"work": None}, {"work": 1}),
        ("tenant=a", {"tenant": "a"}, {"tenant": "ab"}),
    ],
)
def test_which_jobs_a_rule_holds_for(rule: str, holds: dict[str, Any], not_so: dict[str, Any]) -> None:
    rules = read_priorities(f"{rule}:high")
    for options, given in ((holds, ("high", 100)), (not_so, ("", None))):
        shape = rules.given(job("j", 0, **{"work": 1, **options})).shape
        assert (shape.priority_class, shape.priority) == given


def test_first_rule_that_holds_counts_and_later_classes_are_lower() -> None:
    rules = read_priorities("job=j:top, gpus>=8:high,workers>1:top,else:low")
    assert rules.classes == {"top": 300, "high": 200, "low": 100}
    found = [rules.given(one).shape.priority_class for one in (job("j", 0, 1), job("k", 0, 1, gpu=8), job("k", 0, 1))]
    assert found == ["top", "high", "low"]
    values = read_priorities("gpus>=8:high=5000,gpus>=4:middle,else:low=-7").classes
    assert values == {"high": 5000, "middle": 200, "low": -7}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected CONDITION:CLASS, such as gpus>=8:high or else:low=100"),
        ("high", "expected CONDITION:CLASS"),
        ("else:High", "expected CONDITION:CLASS"),
        ("else:", "expected CONDITION:CLASS"),
        ("gpu>=8:high", "expected else, or one of gpus, workers, duration, tenant, job compared by >=, <=, >, <, ="),
        ("gpus:high", "expected else, or one of"),
        ("gpus>=many:high", "expected a number after >="),
        ("gpus>=nan:high", "expected a number after >="),
        ("tenant>a:high", "tenant is compared by = only"),
        ("else:high=1000000001", "a priority is from -2147483648 to 1000000000"),
        ("else:high=-2147483649", "a priority is from -2147483648 to 1000000000"),
        (",".join(["else:low"] * 101), "expected at most 100 rules"),
    ],
)
def test_rules_that_make_no_sense(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"expected|compared|priority") as refused:
        read_priorities(text)
    assert message in str(refused.value)


def test_bounds_of_rules() -> None:
    assert read_priorities("gpus>1:a=1000000000,else:b=-2147483648").classes == {"a": 10**9, "b": -(2**31)}
    assert len(read_priorities(",".join(["else:low"] * 100)).rules) == 100


# -- values of traces ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "least", "workers"),
    [
        (0, 1, (1, 0)),
        (0, 3, (3, 0)),
        (1, 1, (1, 1)),
        (8, 1, (1, 8)),
        (9, 1, (3, 3)),
        (16, 1, (2, 8)),
        (12, 1, (2, 6)),
        (11, 1, (11, 1)),
        (8, 2, (2, 4)),
        (8, 3, (4, 2)),
        (8, 8, (8, 1)),
        (8, 9, (8, 1)),
        (64, 1, (8, 8)),
    ],
)
def test_workers_are_as_few_and_equal_as_there_can_be(gpus: int, least: int, workers: tuple[int, int]) -> None:
    assert importer.workers_for(gpus, least) == workers


@pytest.mark.parametrize(
    ("begin", "end", "recorded", "work"),
    [
        (1, 5, None, 4),
        (1, 5, 7, 7),
        (None, None, 7, 7),
        (None, 5, None, "never ran"),
        (1, None, None, "never ran"),
        (5, 5, None, "ran no time at all"),
        (5, 6, None, 1),
        (1, 5, 0, "ran no time at all"),
    ],
)
def test_how_long_a_job_of_a_trace_ran(
    begin: int | None, end: int | None, recorded: int | None, work: int | str
) -> None:
    assert importer.started(begin, end, recorded) == work
    with pytest.raises(ValueError, match="ends before it starts"):
        importer.started(5, 4, None)


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (importer.whole, "8", 8),
        (importer.whole, "8.0", 8),
        (importer.whole, "9" * 15, 10**15 - 1),
        (importer.amount, "", 0.0),
        (importer.amount, "1.5", 1.5),
        (importer.duration, "1.5", 1500),
        (importer.when, "1970-01-01 00:00:01", 1000),
        (importer.when, "1970-01-01T01:00:00+01:00", 0),
        (importer.optional_time, "", None),
        (importer.optional_time, "None", None),
        (importer.optional_time, "1970-01-01 00:00:01", 1000),
        (importer.tenant, "Team A/b", "team-a-b"),
        (importer.tenant, "--", "default"),
        (importer.tenant, "a" * 62 + "-b", "a" * 62),
        (importer.tenant, "a" * 70, "a" * 63),
        (importer.model, "Tesla V100 (32G)", "Tesla-V100-32G"),
        (importer.model, "a" * 70, "a" * 63),
        (importer.model, "_a.b-", "a.b"),
    ],
)
def test_values_of_traces(read: Any, text: str, value: Any) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (importer.whole, "8.5", "expected a whole number"),
        (importer.whole, "-1", "expected a whole number"),
        (importer.whole, "", "expected a whole number"),
        (importer.whole, "9" * 16, "expected a whole number"),
        (importer.when, "yesterday", "expected a time such as 2017-10-09 07:01:55"),
        (importer.when, "1969-12-31 23:59:59", "expected a time since 1970"),
    ],
)
def test_values_that_traces_do_not_have(read: Any, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(text)


@pytest.mark.parametrize(("cores", "workers", "each"), [(8.0, 1, 8000), (8.0, 3, 2666), (0.0, 2, 0)])
def test_cores_are_shared_by_the_workers(cores: float, workers: int, each: int) -> None:
    assert importer.share(cores, workers) == each


def test_which_traces_have_dates() -> None:
    """replay.md 2.1: a list is of one form, dates where the trace has them, else seconds since it began."""
    formats = ("openb", "philly", "philly-log", "spot-gpu", "helios", "acme", "gavel")
    dated = {name for name in formats if importer_of(name).dated}
    assert dated == {"philly", "philly-log", "helios", "acme"}


def test_unknown_format_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownFormatError, match='"filly" is no known format; known: openb, philly, philly-log'):
        importer_of("filly")


@dataclasses.dataclass(frozen=True)
class Point:
    """An entry point of another package."""

    name: str
    content: Any
    value: str = "other.package:FORMAT"

    def load(self) -> Any:
        if isinstance(self.content, Exception):
            raise self.content
        return self.content


def test_formats_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """replay.md 2.6: one more is known by its entry point; one that cannot be used is named with where it is from."""
    other = dataclasses.replace(importer_of("philly"), name="other")
    points = [
        Point("zzz", 5),
        Point("other", other),
        Point("broken", ImportError("no module named x")),
        Point("philly", 5),
    ]
    groups: list[str] = []

    def entry_points(*, group: str) -> list[Point]:
        groups.append(group)
        return points

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    assert importer_of("other") is other
    assert importer_of("philly").name == "philly", "those that come with reprieve are first"
    assert set(groups) == {"reprieve.importers"}
    for name, message in (
        ("zzz", '"zzz" of other.package:FORMAT is no Importer'),
        ("broken", '"broken" of other.package:FORMAT cannot be loaded: no module named x'),
        (
            "none",
            '"none" is no known format; known: openb, philly, philly-log, spot-gpu, helios, acme, gavel, broken, ',
        ),
    ):
        with pytest.raises(UnknownFormatError) as refused:
            importer_of(name)
        assert str(refused.value).startswith(message)
