"""Measure YAML readers on a generated cluster: `python docs/measurements/yaml_loaders.py [READER]`.

Without an argument every reader runs in a process of its own (peak memory is per process). Needs msgspec, PyYAML
and reprieve; yaml-rs, rapidyaml and py-yaml12 where they are installed, else their line says so.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

NODES, PODS = 1_523, 8_152


def cluster() -> str:
    """The text: the node and pod counts of the public GPU trace, one document per object."""
    pick = random.Random(1)
    parts = [
        f"""apiVersion: v1
kind: Node
metadata:
  name: node-{i:04d}
  labels:
    kubernetes.io/hostname: node-{i:04d}
    topology.kubernetes.io/zone: z{i % 3}
    gpu-model: {pick.choice(["V100", "T4", "P100"])}
status:
  capacity: {{cpu: "96", memory: 786432Mi, nvidia.com/gpu: "8", pods: "110"}}
  allocatable: {{cpu: "96", memory: 786432Mi, nvidia.com/gpu: "8", pods: "110"}}
"""
        for i in range(NODES)
    ]
    parts += [
        f"""apiVersion: v1
kind: Pod
metadata:
  name: openb-pod-{i:04d}
  namespace: default
  labels:
    qos: {pick.choice(["LS", "BE"])}
  creationTimestamp: '2026-01-01T00:00:00Z'
spec:
  priority: {pick.choice([0, 10, 100])}
  terminationGracePeriodSeconds: 30
  containers:
  - name: main
    image: image:1
    resources:
      requests:
        cpu: '{pick.randint(1, 64)}'
        memory: {pick.randint(1, 600)}Mi
        nvidia.com/gpu: '{pick.randint(1, 8)}'
"""
        for i in range(PODS)
    ]
    return "---\n".join(parts)


def pyyaml(text: str) -> list[Any]:
    """PyYAML with its C loader."""
    import yaml

    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


def yaml_rs(text: str) -> Any:
    """yaml-rs, the whole text at once."""
    import yaml_rs as library  # type: ignore[import-not-found]

    return library.loads(text, parse_datetime=False)


def rapidyaml(text: str) -> list[Any]:
    """rapidyaml, by way of the JSON it writes."""
    import msgspec
    import ryml  # type: ignore[import-not-found]

    tree = ryml.parse_in_arena(text.encode())
    return [msgspec.json.decode(ryml.emit_json(tree, child)) for child in ryml.children(tree, tree.root_id())]


def py_yaml12(text: str) -> Any:
    """py-yaml12."""
    import yaml12  # type: ignore[import-not-found]

    return yaml12.parse_yaml(text, multi=True)


def yamltext(text: str) -> list[Any]:
    """`kube_rules.yamltext`, the reader of this project."""
    from kube_rules.yamltext import read_documents

    return list(read_documents(text))


READERS: dict[str, Callable[[str], Any]] = {
    reader.__name__: reader for reader in (pyyaml, yaml_rs, rapidyaml, py_yaml12, yamltext)
}


def main() -> None:
    """Run one reader, or each in its own process."""
    if len(sys.argv) == 1:
        for name in READERS:
            subprocess.run([sys.executable, __file__, name], check=False)
        return
    text = cluster()
    name = sys.argv[1]
    start = time.process_time()
    try:
        documents = READERS[name](text)
    except ImportError as error:
        print(f"{name:15} not installed ({error})")
        return
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{name:15} {len(text) / 1e6:.1f} MB {len(documents)} documents "
        f"{seconds:.2f} s {len(text) / 1e6 / seconds:.1f} MB/s, peak {peak} MB"
    )


if __name__ == "__main__":
    main()
