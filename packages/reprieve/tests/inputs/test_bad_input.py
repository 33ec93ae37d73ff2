"""Hostile and broken input: one clear error, under 2 s of processor time and 500 MB, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = """
import json, resource, sys
from kube_rules.errors import InputError
from reprieve.inputs.loader import load
try:
    load([sys.argv[1]])
    error = None
except InputError as found:
    error = str(found)
used = resource.getrusage(resource.RUSAGE_SELF)
peak = int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024
print(json.dumps([error, used.ru_utime + used.ru_stime, peak]))  # ru_maxrss would count the parent's memory
"""
BUSY = 5
"""A busy machine takes longer for the same work: these bounds catch what runs away; docs/measurements has figures."""

HEAD = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": '
POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"
    + "spec: {containers: [{name: c, resources: {requests: {cpu: %s}}}]}\n"
)
DENSE = "{kind: A, apiVersion: b, c: [" + "[]," * 15_000 + "]}\n---\n"
LONG = """kind: %s\napiVersion: %s\nmetadata: {name: %s, labels: {? "%s" : x}}\nspec: {containers: [{name: c}]}\n"""
BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
)
MERGES = "m0: &m0 {a: 1, b: 2}\n" + "".join(
    f"m{j}: &m{j} {{<<: [{','.join([f'*m{j - 1}'] * 50)}]}}\n" for j in range(1, 40)
)

TEMPLATES = (
    '{"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "metadata": {"name": "w"}, "spec": '
    + '{"compositePodGroupTemplates": [' * 450 + "{}" + "]}" * 450 + "}"
)  # fmt: skip

CASES: dict[str, tuple[Callable[[], str], str]] = {
    "deep.json": (lambda: HEAD + "[" * 10_000 + "]" * 10_000 + "}", "nested deeper than 100 levels"),
    "deep-ignored.json": (lambda: HEAD + '{"x":' * 10_000 + "1" + "}" * 10_001, "nested deeper than 100 levels"),
    "deep-templates.json": (lambda: TEMPLATES, "compositePodGroupTemplates[0].name: Duplicate value"),
    "open.json": (lambda: "[" * 5_000_000, "nested deeper than 100 levels"),
    "deep.yaml": (lambda: "a: " + "[" * 10_000 + "]" * 10_000, "nested deeper than 100 levels"),
    "deep-block.yaml": (lambda: "".join(" " * i + "a:\n" for i in range(10_000)), "nested deeper than 100 levels"),
    "deep-dashes.yaml": (lambda: "- " * 200_000 + "x", "nested deeper than 100 levels"),
    "bomb.yaml": (lambda: BOMB, "aliases stand for more than 200"),
    "quadratic.yaml": (lambda: "a: &a [" + "x," * 20_000 + "]\nb: [" + "*a," * 20_000 + "]\n", "aliases stand for"),
    "merges.yaml": (lambda: MERGES, "aliases stand for"),
    "truncated.json": (
        lambda: '{"apiVersion": "v1", "kind": "List", "items": [{"kind": "Po',
        "document 1: invalid JSON: Input data was truncated",
    ),
    "truncated.yaml": (lambda: "apiVersion: v1\nkind: Pod\nmetadata: {name: 'x", "invalid YAML: while scanning"),
    "digits.yaml": (lambda: POD % ("9" * 1_000_000), "spec.containers[0].resources.requests[cpu]: Invalid value"),
    "digits.json": (lambda: HEAD + "9" * 1_000_000 + "}", "document 1"),
    "quantity.yaml": (lambda: POD % "1x", 'requests[cpu]: Invalid value: "1x"'),
    "documents.yaml": (lambda: "---\n" * 5_000_000, "too many for so little text"),
    "brackets.yaml": (lambda: "a: " + "[" * 10_000_000, "nested deeper than 100 levels"),
    "dense.yaml": (lambda: "a: [" + "[[],[]]," * 7_500_000 + "]", "too many for so little text"),
    "dense-maps.yaml": (lambda: "a: [" + "{}," * 20_000_000 + "]", "too many for so little text"),
    "dense-documents.yaml": (lambda: DENSE * 1_000, "too many for so little text"),
    "dense.json": (
        lambda: '{"kind": "List", "items": [' + "[[],[]]," * 7_500_000 + "[]]}",
        "too many for 60000031 bytes",
    ),
    "dense-nameless.json": (lambda: '{"a": [' + "[[],[]]," * 7_500_000 + "[]]}", "too many for 60000011 bytes"),
    "dense-pod.json": (
        lambda: HEAD + "null, " + '"x": [' + "[[],[]]," * 7_500_000 + "[]]}",
        "too many for 60000087 bytes",
    ),
    "tags.yaml": (lambda: "%TAG !a! b\n" * 1_000_000 + "--- a", "more than 100 lines start with a %"),
    "long-name.yaml": (lambda: LONG % ("Pod", "v1", "x" * 1_000_000, "a"), "metadata.name: Invalid value"),
    "long-key.yaml": (lambda: LONG % ("Pod", "v1", "a", "x" * 1_000_000), "metadata.labels: Invalid value"),
    "long-version.yaml": (lambda: LONG % ("Pod", "x" * 1_000_000, "a", "a"), "is read in version"),
    "long-kind.yaml": (lambda: LONG % ("x" * 1_000_000, "''", "a", "a"), "apiVersion: Required value"),
    "nul.yaml": (lambda: "a: b\0\n", "control characters are not allowed"),
    "surrogate.json": (
        lambda: '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "\ud800"}}',
        "not UTF-8 text: byte 58 is 0xed",
    ),
    "surrogate-in-a-list.json": (
        lambda: '{"kind": "List", "apiVersion": "v1", "items": [{"apiVersion": "v1", "kind": "\udfff"}]}',
        "not UTF-8 text: byte",
    ),
    "scalar.yaml": (lambda: "hello", "must be an object with apiVersion and kind"),
    "list.json": (lambda: "[1, 2]", "must be an object with apiVersion and kind"),
    "nameless.yaml": (lambda: "metadata: {name: a}", "kind: Required value"),
}  # fmt: skip
"""What makes each text, hundreds of megabytes in all, and what the error says."""


def run(path: Path) -> tuple[str | None, float, float]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    error, seconds, megabytes = json.loads(done.stdout)
    return error, seconds, megabytes


@pytest.mark.parametrize("name", CASES)
def test_broken_input_gives_one_clear_error_cheaply(name: str, tmp_path: Path) -> None:
    text, message = CASES[name]
    path = tmp_path / name
    path.write_bytes(text().encode("utf-8", "surrogatepass"))
    error, seconds, megabytes = run(path)
    assert error is not None
    assert error.startswith(str(path))
    assert message in error
    assert "\n" not in error
    assert len(error) < 1200
    assert seconds < 2 * BUSY
    assert megabytes < 500


def test_input_over_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    with path.open("wb") as file:
        file.truncate(10 * 1024**3)  # sparse
    error, seconds, megabytes = run(path)
    assert error is not None
    assert "the input is larger than 67108864 bytes" in error
    assert seconds < 1 * BUSY
    assert megabytes < 100


def test_endless_input_is_read_no_further_than_the_limit() -> None:
    error, seconds, megabytes = run(Path("/dev/zero"))
    assert error is not None
    assert "the input is larger than 67108864 bytes" in error
    assert seconds < 2 * BUSY
    assert megabytes < 500


def test_importing_the_room_is_light() -> None:
    heavy = ("yaml", "pydantic", "numpy")
    program = f"import sys, reprieve.inputs.loader; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_cluster_of_the_size_of_the_public_trace_is_read_in_time(tmp_path: Path) -> None:
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{i}"}, "status": {"capacity": {"cpu": "96"}}}
        for i in range(1523)
    ]
    requests = {"requests": {"cpu": "2", "memory": "4Gi"}}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{i}"},
            "spec": {"nodeName": f"n{i % 1523}", "containers": [{"name": "c", "resources": requests}]},
        }
        for i in range(8152)
    ]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes + pods}))
    error, seconds, megabytes = run(path)
    assert error is None
    assert seconds < 1.5 * BUSY
    assert megabytes < 200
