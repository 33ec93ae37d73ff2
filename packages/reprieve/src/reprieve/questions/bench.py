"""`python -m reprieve.questions.bench SCENARIO`: a plan with its suggestions, figures as JSON on stdout.

For families of `reprieve bench` in which pods wait that cannot be placed: what is measured is a plan and the trials of
changes after which they would run (whatif.md 5).
"""

import sys
import time

import msgspec

from kube_rules.errors import Origin
from kube_rules.manifests import Loaded, Manifests
from kube_rules.meta import KubernetesObject
from reprieve.questions.suggestions import helped
from reprieve.questions.trials import Trials
from reprieve.simulation.bench.scenario_run import BenchMeasurement, measurement
from reprieve.simulation.bench.scenarios import BenchScenario, named
from reprieve.simulation.plan import PlanOptions, plan


def run(scenario: BenchScenario) -> BenchMeasurement:
    """Build the cluster, plan it, look for suggestions, give the figures; the one attempt is all of that."""
    cluster = scenario.build()
    manifests = Manifests()
    everything = (*cluster.nodes, *cluster.running_groups, *cluster.groups, *cluster.running, *cluster.work)
    for order, item in enumerate(everything):
        found: list[Loaded[KubernetesObject]] = manifests.objects.setdefault(type(item), [])
        found.append(Loaded(item, Origin(scenario.name), order, float(order)))
    options = PlanOptions()
    began, cpu = time.perf_counter(), time.process_time()
    helped(plan(manifests, options), Trials(manifests, options), lambda _: ())
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return measurement(scenario, [seconds], seconds, cpu)


if __name__ == "__main__":
    print(msgspec.json.encode(run(named(sys.argv[1]))).decode())
