"""CEL selectors of devices (resource.k8s.io/v1 DeviceSelector; k8s.io/dynamic-resource-allocation/cel)."""

from __future__ import annotations

import pytest

from kube_rules.cel import Semver
from kube_rules.quantity import NANO
from reprieve.cluster.device_selectors import LONGEST, DeviceSelectorError, compiled, device_value

DEVICE = device_value(
    "d",
    False,
    {
        "model": {"string": "A100"},
        "version": {"version": "1.2.3-rc.1"},
        "index": {"int": 3},
        "healthy": {"bool": True},
        "other.example.com/rack": {"string": "r1"},
        "roots": {"strings": ["pci0", "pci1"]},
        "numas": {"ints": [0, 2]},
        "flags": {"bools": [True]},
        "apis": {"versions": ["1.0.0", "2.1.0"]},
    },
    {"memory": 40 * 2**30 * NANO},
)
D = 'device.attributes["d"]'
MEMORY = 'device.capacity["d"].memory'

HOLDS = [
    ('device.driver == "d"', True),
    (f'{D}.model == "A100"', True),
    (f'{D}["model"] == "A100"', True),
    (f'{D}.model.startsWith("A") && {D}.model.matches("^A[0-9]+$")', True),
    (f'{D}.model in ["H100", "A100"]', True),
    (f"{D}.index > 3", False),
    (f"{D}.healthy", True),
    ('device.attributes["other.example.com"].rack == "r1"', True),
    ("device.allowMultipleAllocations", False),
    # quantities
    (f'{MEMORY}.compareTo(quantity("40Gi")) >= 0', True),
    (f'{MEMORY}.isGreaterThan(quantity("40Gi"))', False),
    (f'{MEMORY}.isLessThan(quantity("1Ti")) && {MEMORY}.asInteger() > 0', True),
    (f'{MEMORY} == quantity("40960Mi")', True),
    (f'{MEMORY}.sub(quantity("8Gi")).add(1).compareTo(quantity("32Gi")) > 0', True),
    ('isQuantity("x") || !isQuantity("1Gi")', False),
    # semantic versions
    (f'{D}.version.isGreaterThan(semver("1.2.2")) && {D}.version.isLessThan(semver("1.2.3"))', True),
    (f"{D}.version.major() == 1 && {D}.version.minor() == 2 && {D}.version.patch() == 3", True),
    ('isSemver("1.0") || semver("1.0.0-2").compareTo(semver("1.0.0-10")) >= 0', False),
    # what is not there
    (f"has({D}.nothing)", False),
    (f'"nothing" in {D} || !("model" in {D})', False),
    ('"missing" in device.attributes', False),
    ('"x" in device.attributes["missing"]', False),
    (f'!has({D}.nothing) || {D}.nothing == "x"', True),
    # lists (devices.md 5.1)
    (f'{D}.roots.includes("pci1") && !{D}.roots.includes("pci2")', True),
    (f'{D}.model.includes("A100") && !{D}.model.includes("A")', True),
    (f'"pci0" in {D}.roots && {D}.roots.exists(root, root.startsWith("pci1"))', True),
    (f"{D}.numas.includes(2) && {D}.numas.all(numa, numa < 3) && {D}.flags == [true]", True),
    (f'{D}.apis.exists(api, api.isGreaterThan(semver("2.0.0"))) && {D}.apis.includes(semver("1.0.0"))', True),
    (f"{D}.?nothing.orValue([]).size() == 0 && {D}.?roots.orValue([]).size() == 2", True),
    # bindings (cel.bind) and macros
    (f'cel.bind(gpu, {D}, gpu.healthy && gpu.model == "A100")', True),
    ("cel.bind(a, 1, cel.bind(b, a + 1, b == 2))", True),
    (f'{D}.exists(name, name == "index")', True),
    # what is there only sometimes
    (f'{D}.?model.orValue("") == "A100" && {D}.?nothing.orValue("-") == "-"', True),
    ('device.attributes[?"d"].?index.optMap(n, n > 2).orValue(false)', True),
    # a domain that the device does not have is an empty map however it is looked up (devices.md 5.3)
    ('device.attributes[?"missing"].hasValue() && !device.attributes[?"missing"].?x.hasValue()', True),
    ('device.attributes[?"missing"].orValue({"x": 1}).size() == 0', True),
    ("device.attributes.?missing.hasValue() && has(device.attributes.missing)", True),
    ('device.capacity[?"missing"].?memory.optMap(m, m.sign()).orValue(-1) == -1', True),
    ('"missing" in device.attributes || device.attributes.exists(domain, domain == "missing")', False),
    (f'isSemver("v1.2", true) && {D}.version.isGreaterThan(semver("v1.2", true))', True),
]


@pytest.mark.parametrize(("expression", "holds"), HOLDS)
def test_selectors(expression: str, holds: bool) -> None:
    assert compiled(expression).matches(DEVICE) is holds


FAULTS = [
    (f'{D}.nothing == "x"', "no such key: nothing"),
    ('device.attributes["missing"].x == 1', "no such key: x"),
    ("dyn(3)", "CEL result of type int could not be converted to bool"),
    ("3", "must evaluate to bool or the unknown type, not int"),
    ("device.nothing == 1", "compilation failed: undefined field 'nothing'"),
    ("device.driver > 1", "found no matching overload for '_>_' applied to '(string, int)'"),
    (f"{MEMORY} > 1", "found no matching overload for '_>_' applied to '(kubernetes.Quantity, int)'"),
    (f'quantity("x") == {MEMORY}', '"x": quantities must match'),
    (f'{D}.version == semver("1")', "parse semantic version: '1' is none"),
    (f"{D}.version.compareTo({MEMORY}) == 0", "no such overload"),
    ("other == 1", "undeclared reference to 'other'"),
    ("device.", "compilation failed: Syntax error at line 1, column 7"),
    ("frobnicate(1)", "compilation failed: undeclared reference to 'frobnicate'"),
    ("true || " * LONGEST + "true", f"may not be more than {LONGEST} bytes"),
    ("(" * 400 + "true" + ")" * 400, "compilation failed"),
    ("device.attributes.all(a, " * 5 + "true" + ")" * 5, "too complex, exceeds cost limit"),
]


@pytest.mark.parametrize(("expression", "fault"), FAULTS, ids=[f[1][:40] for f in FAULTS])
def test_faults(expression: str, fault: str) -> None:
    """Each time the same, and in one line."""
    for _ in range(2):
        with pytest.raises(DeviceSelectorError) as error:
            compiled(expression).matches(DEVICE)
        assert fault in str(error.value)
        assert "\n" not in str(error.value)


READS = [
    ('device.driver == "d"', set()),
    (f'{D}.model == "A" && {MEMORY}.sign() > 0', {"model", "memory"}),
    (f'"x" in {D} && !has(device.attributes[device.driver].y)', {"x", "y"}),
    (f'{D} == {{"a": 1}}', None),
    (f'{D}.all(name, name != "x")', None),
    (f"cel.bind(a, {D}, a.x == 1)", None),
    (f"{D}[{D}.which] == 1", None),
    ("size(device.attributes) == 0", None),
]


@pytest.mark.parametrize(("expression", "reads"), READS)
def test_allocation_depends_on(expression: str, reads: set[str] | None) -> None:
    """Devices alike in this are asked about once; if it is unknown it is everything (None)."""
    assert compiled(expression).reads == reads


def test_semantic_versions_are_ordered() -> None:
    """semver.org 2.0.0, 11: numbers as numbers, a pre-release before its release."""
    texts = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.10.0"]
    assert sorted(sorted(texts), key=Semver) == texts
    assert Semver("1.0.0+build") == Semver("1.0.0")


def test_longest_expression_in_bytes() -> None:
    """resourceapi.CELSelectorExpressionMaxLength counts bytes, not characters."""
    text = "true || '{}' == ''"
    filled = text.format("x" * (LONGEST - len(text) + 2))
    assert len(filled) == LONGEST
    assert compiled(filled).matches(DEVICE) is True
    for longer in (f"{filled} ", text.format("\u00e9" * (LONGEST // 2))):
        with pytest.raises(DeviceSelectorError, match=f"^may not be more than {LONGEST} bytes$"):
            compiled(longer)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ({"int": 0}, 0),
        ({"bool": False}, False),
        ({"string": ""}, ""),
        ({"version": "1.2.3"}, Semver("1.2.3")),
    ],
)
def test_values_of_attributes(attribute: dict[str, object], value: object) -> None:
    """Each by its type, also where it is false; a domain and a name may be anything."""
    seen = device_value("d", True, {"x": attribute, "other/x": attribute}, {"other/c": 5, "c": 7})
    assert seen["driver"] == "d"
    assert seen["allowMultipleAllocations"] is True
    assert seen["attributes"]["d"] == {"x": value}
    assert seen["attributes"]["other"] == {"x": value}
    assert seen["attributes"]["missing"] == {}
    assert list(seen["capacity"]) == ["other", "d"]
    for bad, said in (({}, "attribute x: unsupported attribute value"), ({"version": "one"}, "")):
        with pytest.raises(DeviceSelectorError, match=said or None):
            device_value("d", False, {"x": bad}, {})


def test_includes_looks_at_a_bounded_number_of_values() -> None:
    """devices.md 5.1: as many as a device may have; a longer list is an error unless the value is found before."""
    long = device_value("d", False, {"all": {"ints": list(range(49))}}, {})
    assert compiled(f"{D}.all.includes(47)").matches(long)
    with pytest.raises(
        DeviceSelectorError, match="'includes' function cannot be applied to lists longer than 48 values"
    ):
        compiled(f"{D}.all.includes(48)").matches(long)
