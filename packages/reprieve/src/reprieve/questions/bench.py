"""`python -m reprieve.questions.bench SCENARIO`: time a plan with its suggestions; prints JSON to stdout.

For families of `reprieve bench` with unschedulable pods. It measures a plan and the trials of changes that would let
the pods run (whatif.md 5).
"""

import sys
import time

import msgspec

from kube_rules.errors import Origin
from kube_rules.manifests import LoadedObject, Manifests
from kube_rules.meta import KubernetesObject
from reprieve.questions.suggestions import helped
from reprieve.questions.trials import Trials
from reprieve.simulation.bench.scenario_run import BenchMeasurement, measurement
from reprieve.simulation.bench.scenarios import BenchScenario, named
from reprieve.simulation.plan import PlanOptions, plan


def run(scenario: BenchScenario) -> BenchMeasurement:
    """Build the cluster, plan it, search for suggestions, and return the measurement of this one attempt."""
    cluster = scenario.build()
    manifests = Manifests()
    everything = (*cluster.nodes, *cluster.running_groups, *cluster.groups, *cluster.running, *cluster.work)
    for order, item in enumerate(everything):
        loaded_objects: list[LoadedObject[KubernetesObject]] = manifests.objects.setdefault(type(item), [])
        loaded_objects.append(LoadedObject(item, Origin(scenario.name), order, float(order)))
    options = PlanOptions()
    began, cpu = time.perf_counter(), time.process_time()
    helped(plan(manifests, options), Trials(manifests, options), lambda _: ())
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return measurement(scenario, [seconds], seconds, cpu)


if __name__ == "__main__":
    print(msgspec.json.encode(run(named(sys.argv[1]))).decode())
