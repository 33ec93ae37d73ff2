"""What the page of a replay shows (page.md 9)."""

from typing import Any

import msgspec
import pytest

from reprieve.replay import page
from reprieve.replay.measures import difference_text
from reprieve.replay.page import ReplayView, as_page, conclusion, page_of
from reprieve.replay.policy_run import PolicyOutcome
from reprieve.replay.statistics import report, rows
from tests.replay.building import gpu_nodes, job, replay
from tests.replay.test_page_and_trace import beside_others, outcome

SETTING = {"jobs": 60, "nodes": 2}


def view(*outcomes: PolicyOutcome) -> ReplayView:
    found = page_of(outcomes, SETTING).replay
    assert isinstance(found, ReplayView)
    return found


def test_same_run_gives_the_same_file() -> None:
    """page.md 6.3."""
    found = [outcome("one"), outcome("two")]
    assert as_page(found, SETTING) == as_page(found, SETTING)


def test_all_strips_have_the_same_nodes_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """page.md 9.2: so that rows can be compared; what is left out is counted."""
    monkeypatch.setattr(page, "MOST_STAYS", 40)
    found = view(outcome("one"), beside_others())
    begin, end = found.window
    assert 0 <= begin < end
    assert found.nodes_total == 3
    for policy in found.policies:
        strips = policy.strips
        assert strips is not None
        assert 0 < len(strips.names) <= 40
        assert len(strips.lanes) == len(found.nodes)
        assert all(left < end and right > begin for left, right in zip(strips.begins, strips.ends, strict=True))
        assert strips.stays_total >= len(strips.names)
    assert found.policies[0].strips is not None
    assert found.policies[0].strips.stays_total > 100


def test_stays_take_a_lane_for_each_gpu_and_share_none() -> None:
    """page.md 9.2."""
    strips = view(outcome()).policies[0].strips
    assert strips is not None
    spans = list(zip(strips.nodes, strips.first, strips.count, strips.begins, strips.ends, strict=True))
    for node, first, count, begin, end in spans:
        assert 0 <= first < first + count <= strips.lanes[node] or count == 1
        for other, first_2, count_2, begin_2, end_2 in spans:
            if (node, first, begin) < (other, first_2, begin_2) and node == other and begin < end_2 and begin_2 < end:
                contiguous = count == count_2 == 1
                assert not contiguous or first != first_2


def test_arrows_lead_to_every_victim() -> None:
    """page.md 9.2: none is left out of what is shown."""
    found = outcome()
    strips = view(found).policies[0].strips
    assert strips is not None
    victims = [victim for _, _, each in strips.preemptions for victim in each]
    assert len(victims) == found.report.evictions.pods > 0
    assert {strips.hows[victim] for victim in victims} == {"preempted"}
    for when, preemptor, _ in strips.preemptions:
        assert preemptor < 0 or strips.begins[preemptor] >= when


def test_node_with_most_preemptions_is_shown_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """page.md 9.2."""
    monkeypatch.setattr(page, "MOST_NODES", 1)
    found = view(beside_others())
    assert (found.nodes, found.nodes_total) == (("n0",), 3)


def test_run_without_strips_has_none() -> None:
    """page.md 9.2: nothing came to a node."""
    run = replay([job("j", 0, 10, gpu=100)], gpu_nodes(1), timeline=True)
    assert view(PolicyOutcome(report("none", run), rows(run), run.timeline)).policies[0].strips is None


def other(found: PolicyOutcome, name: str, wait: float | None, **more: Any) -> PolicyOutcome:
    total = found.report.total
    waiting = msgspec.structs.replace(total.waiting, mean=wait)
    changed = msgspec.structs.replace(total, waiting=waiting, lost_gpu_hours=more.pop("lost", total.lost_gpu_hours))
    evictions = msgspec.structs.replace(found.report.evictions, units=more.pop("units", 1))
    made = msgspec.structs.replace(found.report, name=name, total=changed, evictions=evictions, **more)
    return PolicyOutcome(made, found.rows, found.timeline)


def test_sentence_states_which_policy_is_best_and_what_it_costs() -> None:
    """page.md 9.1."""
    found = outcome()
    fast = other(found, "fast", 60.0, units=1200, lost=3.2)
    slow = other(found, "slow", 7200.0, units=2, lost=0.0)
    assert conclusion([slow.report, fast.report]) == (
        "Jobs wait least with fast: 1.0 min on average, against 2.0 h with slow. It evicts 1,200 workloads "
        "(against 2) and loses 3.2 GPU-hours (against 0)."
    )
    assert conclusion([slow.report]) == (
        "Jobs wait 2.0 h on average; 2 workloads are evicted, and 0 GPU-hours are lost."
    )
    never = other(found, "never", None)
    assert conclusion([never.report, fast.report]).startswith("Only with fast do jobs start: ")
    cut = other(found, "cut", None, interrupted=True)
    assert conclusion([cut.report]) == "No job started. Interrupted: cut."


@pytest.mark.parametrize(
    ("value", "first", "text"),
    [(150, 100, "+50.0 %"), (50, 100, "-50.0 %"), (1100, 100, "+1000.0 %"), (1101, 100, "×11"), (190840, 1000, "×191")],
)
def test_large_differences_are_factors(value: float, first: float, text: str) -> None:
    """page.md 9.3."""
    assert difference_text(value, first) == text


def test_tables_say_how_many_rows_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """page.md 3.2, 9.3: cells are split into the value, the difference and the mark of the best."""
    monkeypatch.setattr(page, "MOST_ROWS", 2)
    found = outcome()
    shown = view(other(found, "slow", 7200.0), other(found, "fast", 60.0))
    labels = dict(shown.tables[0].rows)
    assert labels["waiting, mean"] == (("2.0 h", "", False), ("1.0 min", "-99.2 %", True))
    groups = shown.tables[1]
    assert len(groups.rows) == 2 < groups.rows_total
    assert groups.heads == ("jobs", "slow", "fast")


def test_curves_have_gaps_where_nothing_is_free() -> None:
    """page.md 9.2: and of many jobs some points, and the last."""
    curves = view(outcome()).policies[0].curves
    assert curves.lost[-1] == max(curves.lost)
    assert curves.waits[-1][1] == 1.0
    assert all(share is None or 0 <= share <= 1 for _, share in curves.fragmentation)
