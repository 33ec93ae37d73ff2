"""Reading what was typed: sizes, feature gates and the scheduler's configuration file.

Whatever is wrong with them ends the command with exit code 2 and one line that names the option or the place in the
file.
"""

from typing import TYPE_CHECKING

from reprieve.cli.outcome import reason_of, refuse

if TYPE_CHECKING:
    from reprieve.framework.configuration import SchedulerConfiguration
    from reprieve.framework.gates import FeatureGates
    from reprieve.simulation.plan import PlanOptions

MAX_CONFIGURATION_BYTES = 1024 * 1024


def read_options(
    *, first_decision: bool = False, config: str | None = None, feature_gates: str = "", seed: int | None = None
) -> "PlanOptions":
    """How to plan."""
    from reprieve.queueing.queue import Timing
    from reprieve.scheduling.profiles import profiles_of
    from reprieve.simulation.plan import PlanOptions

    gates = read_gates(feature_gates)
    if config is None:
        return PlanOptions(first_decision=first_decision, gates=gates, seed=seed)
    from reprieve.framework.configuration import ConfigurationError

    try:
        chosen = read_configuration(config)
        profiles = profiles_of(chosen, gates)
    except ConfigurationError as error:
        refuse(f"{config}: {error}")
    timing = Timing(float(chosen.pod_initial_backoff_seconds), float(chosen.pod_max_backoff_seconds))
    return PlanOptions(first_decision=first_decision, gates=gates, profiles=profiles, timing=timing, seed=seed)


def read_gates(text: str) -> "FeatureGates":
    """`A=true,B=false`."""
    from reprieve.framework.gates import FeatureGates, GateError

    try:
        return FeatureGates.parse(text)
    except GateError as error:
        refuse(f"--feature-gates: {error}")


def read_configuration(file: str) -> "SchedulerConfiguration":
    """A KubeSchedulerConfiguration in YAML or JSON. Raises ConfigurationError for what the form does not allow."""
    from reprieve.api.yamltext import YamlError, read_documents
    from reprieve.framework.configuration import configuration_of

    try:
        with open(file, "rb") as stream:
            data = stream.read(MAX_CONFIGURATION_BYTES + 1)
    except OSError as error:
        refuse(reason_of(error))
    if len(data) > MAX_CONFIGURATION_BYTES:
        refuse(f"{file}: larger than {MAX_CONFIGURATION_BYTES} bytes: that is no configuration")
    try:
        documents = list(read_documents(data.decode("utf-8-sig")))
    except UnicodeDecodeError:
        refuse(f"{file}: not UTF-8 text")
    except YamlError as error:
        refuse(f"{file}: " + (f"line {error.line}: " if error.line is not None else "") + str(error))
    if len(documents) != 1:
        refuse(f"{file}: want one document, found {len(documents)}")
    return configuration_of(documents[0].data)


def read_size(option: str, text: str) -> int:
    """A number of bytes above zero, in Kubernetes quantity notation."""
    from reprieve.api.quantity import QuantityError, parse, value

    try:
        size = value(parse(text))
    except QuantityError as error:
        refuse(f"{option}: {error}")
    if size <= 0:
        refuse(f"{option}: want a size above 0, found {text!r}")
    return size
