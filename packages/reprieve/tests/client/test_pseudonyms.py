"""Names that say nothing: which are replaced, by what, and in which order (client/pseudonyms.py)."""

from __future__ import annotations

import pytest

from reprieve.client.pseudonyms import ADDRESS, GROUP, IMAGE, LABEL, NAMESPACE, NODE, Names
from reprieve.preemption.lost_work import is_gpu


def given(domain: str, *texts: str) -> Names:
    """Names of one domain, noted and replaced."""
    names = Names(anonymize=True)
    for text in texts:
        assert names.name(domain, text) == text, "noted, not yet replaced"
    assert not names.frozen
    names.freeze()
    assert names.frozen
    return names


@pytest.mark.parametrize(
    ("count", "first", "last"), [(1, "node-1", "node-1"), (9, "node-1", "node-9"), (10, "node-01", "node-10")]
)
def test_pseudonyms_sort_as_the_names_do(count: int, first: str, last: str) -> None:
    """Ties are broken by name, and a plan must not change: numbers from one, all as wide as the largest."""
    texts = [f"gpu-{number:03}" for number in range(count)]
    names = given(NODE, *reversed(texts))
    found = [names.name(NODE, text) for text in texts]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (first, last)


def test_pseudonyms_sort_as_the_names_do_character_by_character() -> None:
    names = given(NODE, "x-10", "x-9", "x", "X")
    assert [names.name(NODE, text) for text in ("X", "x", "x-10", "x-9")] == ["node-1", "node-2", "node-3", "node-4"]


def test_domain_counts_for_itself() -> None:
    names = Names(anonymize=True)
    names.name(NODE, "a")
    names.name(NAMESPACE, "a")
    names.name(NAMESPACE, "b")
    names.freeze()
    assert (names.name(NODE, "a"), names.name(NAMESPACE, "b"), names.name(NODE, "")) == ("node-1", "namespace-2", "")


def test_images_have_a_tag_and_addresses_four_bytes() -> None:
    assert given(IMAGE, "nginx:1").name(IMAGE, "nginx:1") == "image-1:x"
    texts = [f"{number:06}" for number in range(1, 65_537 + 1)]
    names = given(ADDRESS, *texts)
    wanted = {1: "10.0.0.1", 255: "10.0.0.255", 256: "10.0.1.0", 300: "10.0.1.44", 65_535: "10.0.255.255"}
    wanted |= {65_536: "10.1.0.0", 65_537: "10.1.0.1"}
    assert {number: names.name(ADDRESS, f"{number:06}") for number in wanted} == wanted


def test_without_anonymizing_images_alone_are_replaced() -> None:
    names = Names(anonymize=False)
    for domain, text in ((NODE, "a"), (IMAGE, "nginx:1"), (LABEL, "team")):
        names.name(domain, text)
    names.freeze()
    assert names.name(NODE, "a") == "a"
    assert names.name(IMAGE, "nginx:1") == "image-1:x"
    assert names.key("example.com/team") == "example.com/team"
    assert names.value("example.com/team", "x") == "x"


def test_name_of_two_names_stays_one() -> None:
    """The claim of an ephemeral volume is found as `<pod>-<volume>`."""
    names = Names(anonymize=True)
    names.alias("claim", "web-data", ("pod", "web"), ("podvolume", "data"))
    for domain, text in (("pod", "web"), ("podvolume", "data"), ("claim", "web-data"), ("claim", "other")):
        names.name(domain, text)
    names.freeze()
    assert names.name("claim", "web-data") == "pod-1-podvolume-1"
    assert names.name("claim", "other") == "claim-1"


@pytest.mark.parametrize(
    ("key", "own"),
    [
        ("kubernetes.io/hostname", True),
        ("topology.kubernetes.io/zone", True),
        ("node.kubernetes.io/unreachable", True),
        ("node-role.kubernetes.io/acme", False),  # a part that users choose
        ("node-restriction.kubernetes.io/acme", False),
        ("k8s.io/x", False),
        ("kubernetes.io", False),  # a name without a prefix
        ("mykubernetes.io/x", False),
        ("example.com/k8s.io", False),
        ("kubernetes.io.example.com/x", False),
        ("team", False),
        ("kueue.x-k8s.io/pod-group-name", True),  # names a pod's group
    ],
)
def test_keys_of_kubernetes_stay(key: str, own: bool) -> None:
    names = Names(anonymize=True)
    names.key(key)
    names.name(LABEL, "zzz")
    names.freeze()
    assert names.key(key) == (key if own else "label-1")
    assert names.key("") == ""


@pytest.mark.parametrize(
    ("resource", "shown"),
    [
        ("cpu", "cpu"),
        ("nvidia.com/gpu", "nvidia.com/gpu"),
        ("nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.5gb"),
        ("hugepages-2Mi", "hugepages-2Mi"),
        ("requests.cpu", "requests.cpu"),
        ("nvidia.com/acme", "example.com/resource-1"),
        ("acme.com/fpga", "example.com/resource-1"),
        ("acme.com/gpu", "example.com/gpu-1"),
        ("gpu.acme.com/x", "example.com/gpu-1"),
        ("acme.com/mig-x", "example.com/gpu-1"),
        ("requests.acme.com/gpu", "requests.example.com/gpu-1"),
        ("attachable-volumes-csi-csi.acme.com", "attachable-volumes-csi-csidriver-1"),
        ("attachable-volumes-csi-ebs.csi.aws.com", "attachable-volumes-csi-ebs.csi.aws.com"),
    ],
)
def test_resources_of_widespread_plugins_stay_and_gpus_stay_gpus(resource: str, shown: str) -> None:
    names = Names(anonymize=True)
    assert names.resource(resource) == resource
    names.name(LABEL, "some")
    names.freeze()
    assert names.resource(resource) == shown
    assert is_gpu(shown) == is_gpu(resource)


VALUES: list[tuple[str, str, str]] = [
    ("topology.kubernetes.io/zone", "eu-1a", "zone-1"),
    ("failure-domain.beta.kubernetes.io/zone", "eu-1a__eu-1b", "zone-1__zone-2"),  # of a volume in two of them
    ("topology.kubernetes.io/region", "eu-1a", "region-1"),
    ("kubernetes.io/arch", "arm64", "arm64"),  # common knowledge
    ("batch.kubernetes.io/job-completion-index", "3", "3"),
    ("example.com/team", "red", "value-2"),
    ("example.com/team", "", ""),
    ("example.com/generation", "7", "7"),  # compared as a number
    ("example.com/generation", "-7", "-7"),
    ("example.com/generation", "seven", "value-3"),
    ("example.com/team", "7", "value-1"),
    ("kubernetes.io/metadata.name", "prod", "namespace-1"),
    ("kubernetes.io/hostname", "worker", "node-1"),  # the name of a node
    ("beta.kubernetes.io/hostname", "worker", "node-1"),
    ("kubernetes.io/hostname", "zebra", "value-5"),  # of none
    ("example.com/host", "worker", "value-4"),
    ("kueue.x-k8s.io/pod-group-name", "train", "podgroup-1"),
]


def test_which_values_of_labels_stay_and_which_are_names_of_something_else() -> None:
    names = Names(anonymize=True)
    names.numeric("example.com/generation")
    names.name(NODE, "worker")
    names.name(GROUP, "train")
    names.name(NAMESPACE, "prod")
    for key, text, _ in VALUES:
        assert names.value(key, text) == text
    names.freeze()
    assert [(key, text, names.value(key, text)) for key, text, _ in VALUES] == VALUES
