"""What groups ask for of the topology, the indexes of their members, and what they use (topology.md 1, 3)."""

import pytest

from kube_rules.objects import ObjectMeta, Pod, PodGroup, PodSpec, PriorityClass
from kube_rules.topology_terms import (
    NO_TOPOLOGY_TERMS,
    PREFERRED_TOPOLOGY,
    SLICE,
    LevelUse,
    PlacedMember,
    RankSlices,
    TopologyTerms,
    pod_index,
    ranks,
    topology_terms,
    topology_use,
)
from kube_rules.work_annotations import annotation_problems

_JOB, _JOBSET = "batch.kubernetes.io/job-completion-index", "jobset.sigs.k8s.io/job-index"


@pytest.mark.parametrize(
    ("annotations", "terms"),
    [
        ({}, NO_TOPOLOGY_TERMS),
        ({PREFERRED_TOPOLOGY: "rack, block"}, TopologyTerms(("rack", "block"))),
        ({PREFERRED_TOPOLOGY: "example.com/pod,host"}, TopologyTerms(("example.com/pod", "host"))),
        ({SLICE: "rack=8"}, TopologyTerms((), RankSlices("rack", 8))),
        ({SLICE: "example.com/row=4096"}, TopologyTerms((), RankSlices("example.com/row", 4096))),
        # A value that cannot be read counts as absent, and hides nothing else.
        ({PREFERRED_TOPOLOGY: "rakc", SLICE: "rack=8"}, TopologyTerms((), RankSlices("rack", 8))),
    ],
)
def test_annotations_are_read(annotations: dict[str, str], terms: TopologyTerms) -> None:
    """topology.md 1.1, 1.2."""
    assert topology_terms(annotations) == terms


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        (PREFERRED_TOPOLOGY, "rakc", 'no level is called "rakc", did you mean "rack"? (expected region, zone,'),
        (PREFERRED_TOPOLOGY, "", 'no level is called "" (expected'),
        (PREFERRED_TOPOLOGY, "rack,rack", "a level stands there twice"),
        (PREFERRED_TOPOLOGY, "rack,topology.kubernetes.io/rack", "a level stands there twice"),
        (PREFERRED_TOPOLOGY, "region,zone,block,rack,host", "at most 4 levels"),
        (PREFERRED_TOPOLOGY, "example.com/", '"example.com/": name part must be non-empty'),
        (PREFERRED_TOPOLOGY, "x" * 5000, "no more than 1024 bytes"),
        (SLICE, "rack", "expected a level and a number of pods from 2 to 4096, such as rack=8"),
        (SLICE, "rack=1", "from 2 to 4096"),
        (SLICE, "rack=08", "from 2 to 4096"),
        (SLICE, "rack=4097", "from 2 to 4096"),
        (SLICE, "rakc=8", 'did you mean "rack"?'),
    ],
)
def test_values_that_cannot_be_read_are_reported(key: str, text: str, why: str) -> None:
    """topology.md 1.4: with the field, the value and what was meant."""
    (problem,) = annotation_problems(PodGroup(metadata=ObjectMeta(name="g", annotations={key: text})))
    assert problem.startswith(f'metadata.annotations[{key}]: Invalid value: "')
    assert why in problem
    assert topology_terms({key: text}) == NO_TOPOLOGY_TERMS


def test_they_count_on_pods_and_groups_only() -> None:
    """topology.md 1.1."""
    named = ObjectMeta(name="x", annotations={SLICE: "rack=8"})
    assert annotation_problems(Pod(metadata=named, spec=PodSpec(containers=()))) == []
    (problem,) = annotation_problems(PriorityClass(metadata=named, value=1))
    assert problem == f"metadata.annotations[{SLICE}]: counts on pods and groups only"


@pytest.mark.parametrize(
    ("labels", "annotations", "index"),
    [
        ({}, {}, None),
        ({_JOB: "3"}, {}, (0, 3)),
        ({}, {_JOB: "3"}, (0, 3)),
        ({_JOB: "x"}, {}, None),
        ({_JOBSET: "2", _JOB: "1"}, {}, (2, 1)),
        ({"jobset.sigs.k8s.io/job-global-index": "5", _JOBSET: "2", _JOB: "1"}, {}, (5, 1)),
        (
            {"leaderworkerset.sigs.k8s.io/group-index": "1", "leaderworkerset.sigs.k8s.io/worker-index": "4"}
            | {"apps.kubernetes.io/pod-index": "9"},
            {},
            (1, 4),
        ),
        ({"apps.kubernetes.io/pod-index": "9"}, {}, (0, 9)),
    ],
)
def test_index_of_a_pod(labels: dict[str, str], annotations: dict[str, str], index: tuple[int, int] | None) -> None:
    """topology.md 3.1."""
    assert pod_index(labels, annotations) == index


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        ({"a": (0, 0), "b": (0, 7)}, {"a": 0, "b": 7}),
        ({"a": (3, 1), "b": (3, 0)}, {"a": 1, "b": 0}),
        ({"a": (1, 0), "b": (0, 2), "c": (0, 0)}, {"a": 3, "b": 2, "c": 0}),
        ({"a": (0, 4), "b": (0, 4), "c": (0, 1)}, {"c": 0, "a": 1, "b": 2}),
    ],
)
def test_ranks_of_members(indexes: dict[str, tuple[int, int]], expected: dict[str, int]) -> None:
    """topology.md 3.1: parts follow one another; where indexes are equal the place in the order counts."""
    assert ranks(indexes) == expected


def test_what_members_use() -> None:
    """topology.md 1.2, 1.3, 5.3: a node without the label is a domain; a plain label stands in for a short name."""
    places = [("n1", {"rack": "a", "x.io/b": "1"}), ("n1", {"rack": "a"}), ("n2", {"rack": "b"}), ("n3", {})]
    members = [PlacedMember(f"m{i}", (0, i), node, labels) for i, (node, labels) in enumerate(places)]
    terms = TopologyTerms(("rack",), RankSlices("x.io/b", 2))
    assert topology_use(terms, members) == (
        LevelUse("rack", "rack", ("a", "b", "node n3"), 2),
        LevelUse("x.io/b", "x.io/b", ("1", "node n1", "node n2", "node n3"), 3),
    )
    assert topology_use(terms, ()) == topology_use(NO_TOPOLOGY_TERMS, members) == ()
