"""The evaluator gives the answer of asking every plugin about every node (scheduling.md 2 and 4.3)."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from kube_rules.meta import ObjectRef
from reprieve.cluster.pods import NO_ROW
from reprieve.framework.diagnosis import Diagnosis
from reprieve.framework.evaluation import Evaluator
from reprieve.framework.plugin import CycleState
from reprieve.framework.status import FITS
from tests.framework.plain_evaluation import PLAIN, Lively, Verdict, best, probes, totals, verdict

PROBES = [probe.metadata.name for probe in probes()]


def check(diagnosis: Diagnosis, verdicts: dict[int, Verdict]) -> None:
    """The codes, which plugin rejected the pod where, and the counted reasons; a PreFilter reason stands alone."""
    rejected = {row: found for row, found in verdicts.items() if found[0] != FITS}
    codes = {row: int(diagnosis.codes[row]) for row in np.flatnonzero(diagnosis.codes).tolist()}
    assert codes == {row: code for row, (code, _, _) in rejected.items()}
    assert diagnosis.nodes == len(verdicts)
    assert diagnosis.plugins == {plugin for _, plugin, _ in rejected.values()} == set(diagnosis.rejected)
    for plugin, mask in diagnosis.rejected.items():
        assert np.flatnonzero(mask).tolist() == sorted(row for row in rejected if rejected[row][1] == plugin)
    counted = Counter(text for _, _, texts in rejected.values() for text in texts)
    if diagnosis.pre_filter_message:
        assert counted == {diagnosis.pre_filter_message: len(verdicts)}
        assert diagnosis.reasons == {}
    else:
        assert diagnosis.reasons == counted


def compare(lively: Lively, evaluator: Evaluator) -> None:
    """Everything that the evaluator can be asked about a pod, beside the plain answer."""
    world = lively.world
    cluster = world.engine.cluster
    alive = np.flatnonzero(cluster.nodes.alive[: len(cluster.nodes)]).tolist()
    for name in PROBES:
        item = world.record(name)
        verdicts = {row: verdict(world, item, row) for row in alive}
        feasible = [row for row in alive if verdicts[row][0] == FITS]
        found = [row for row in range(len(cluster.nodes)) if evaluator.fits_row(world.state(name), row)]
        assert found == feasible, name
        assert evaluator.best_row(world.state(name)) == best(world, item, feasible), name
        check(evaluator.diagnose(world.state(name)), verdicts)
        some = np.array(alive[1::2], dtype=np.int64)
        check(evaluator.diagnose(world.state(name), some), {row: verdicts[row] for row in some.tolist()})
        for row, (_, plugin, texts) in verdicts.items():
            assert evaluator.why_not(world.state(name), row)[0] == plugin
            assert evaluator.why_not(world.state(name), row)[1] in (texts, ())
        here = [row for row in feasible if row in some]
        assert evaluator.best_row(world.state(name), within=some) == best(world, item, here), name
        for nominated in (*alive[:3], *feasible[-2:]):
            state = CycleState(cluster, item, nominated=nominated)
            assert evaluator.best_row(state) == best(world, item, feasible, nominated), name
            wanted = nominated if nominated in here else best(world, item, here)
            assert evaluator.best_row(CycleState(cluster, item, nominated=nominated), within=some) == wanted, name
        scored = totals(world, item, feasible)
        shown = {row: evaluator.score_at(world.state(name), row) for row in feasible}
        assert {row: shown[row] - shown[feasible[0]] for row in feasible} == {
            row: scored[row] - scored[feasible[0]] for row in feasible
        }, name
        assert all(evaluator.score_at(world.state(name), row) == 0 for row in alive if row not in feasible)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_every_answer_is_the_plain_one(seed: int, share: bool) -> None:
    """Also when pods and nodes have come and gone since it was asked last, few or many."""
    lively = Lively(seed, 12)
    lively.world.add(*probes())
    engine = lively.world.engine
    evaluator = Evaluator(engine.cluster, engine.running[PLAIN].profile, share=share)
    compare(lively, evaluator)
    lively.pods_only(0, 2)
    compare(lively, evaluator)
    lively.happens(1, 3)
    compare(lively, evaluator)


@pytest.mark.parametrize("seed", range(3))
def test_shared_answers_are_those_of_asking_afresh(seed: int) -> None:
    """scheduling.md 4.3, where so many rows change that they are computed one by one, together, or all again."""
    lively = Lively(seed, 40)
    world = lively.world.add(*probes())
    engine = world.engine
    profile, cluster = engine.running[PLAIN].profile, engine.cluster
    shared, afresh = Evaluator(cluster, profile), Evaluator(cluster, profile, share=False)
    for turn, times in enumerate((0, 1, 6, 9, 3)):
        lively.pods_only(turn, times)
        if turn == 3:
            lively.happens(turn, 2)
        for name in PROBES:
            keys = [each.view(world.state(name)).keys for each in (shared, afresh)]
            assert np.array_equal(keys[0], keys[1]), (turn, name)
            both = [each.diagnose(world.state(name)) for each in (shared, afresh)]
            assert np.array_equal(both[0].codes, both[1].codes), (turn, name)
            assert (both[0].reasons, both[0].plugins) == (both[1].reasons, both[1].plugins), (turn, name)


def test_without_nodes_there_is_no_place() -> None:
    """No plugin rejects the pod, and any new node may help."""
    lively = Lively(0, 1)
    world = lively.world.add(*probes())
    world.engine.remove(ObjectRef("Node", "n00"), world.now)
    evaluator = world.engine.running[PLAIN].evaluator
    for name in PROBES:
        assert evaluator.best_row(world.state(name)) == NO_ROW
        assert evaluator.diagnose(world.state(name)).nodes == 0
