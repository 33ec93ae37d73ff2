"""What is bounded and what is not served: a table each, listed in docs/apiserver.md (tools/write_reference.py)."""

from __future__ import annotations

from typing import Final, NamedTuple

from kube_rules.admission import expressions, validating_policies
from kube_rules.cel import schema_rules
from kube_rules.validation import admission_policies
from kube_rules.yamltext import MAX_ALIAS_NODES
from kube_standin import evaluation, faults, simulated_time
from kube_standin.patching import jsonpatch
from kube_standin.policies import invocations
from kube_standin.schema import strict_json, structural
from kube_standin.server import bodies, controls
from kube_standin.server.connections import ConnectionLimits
from kube_standin.server.resources import LARGE
from kube_standin.storage import LONGEST_OBJECT
from kube_standin.storage.store import StoreLimits


class ServerLimit(NamedTuple):
    """Something that a client can make large: its bound, and what a client gets that passes it."""

    what: str
    bound: str
    answer: str = ""


class UnservedApi(NamedTuple):
    """Parts of the API of a cluster that are not there, and what a request for them gets."""

    what: str
    answer: str


def _size(number: int) -> str:
    for unit, size in (("MiB", 1024 * 1024), ("KiB", 1024)):
        if number >= size:
            return f"{number / size:g} {unit}"
    return f"{number} bytes"


_CONNECTION, _STORE = ConnectionLimits(), StoreLimits()
LIMITS: Final = (
    ServerLimit(
        "a body",
        f"{_size(bodies.LIMIT)}, {strict_json.MAX_DEPTH} levels and {strict_json.MAX_VALUES:,} values of JSON or "
        "fields of protobuf",
        "413, 400, 415",
    ),
    ServerLimit("aliases of a YAML body", f"{MAX_ALIAS_NODES:,} values, 3 MiB of text", "400"),
    ServerLimit(
        "a stored object",
        f"{_size(LONGEST_OBJECT)} as JSON, labels and managedFields included",
        "500 `etcdserver: request is too large`, as kube-apiserver",
    ),
    ServerLimit(
        "large bodies", f"over {_size(LARGE)}: read 16 at a time and processed one by one, beside other requests"
    ),
    ServerLimit(
        "a JSON patch",
        f"{jsonpatch.MOST_OPERATIONS:,} operations; copies and tests of {_size(bodies.LIMIT)}; a result of "
        f"{strict_json.MAX_DEPTH} levels",
        "413, 422",
    ),
    ServerLimit(
        "a request header",
        f"{_size(_CONNECTION.header_bytes)}, within {_CONNECTION.header_seconds:g} s",
        "431, cut",
    ),
    ServerLimit(
        "the body, the reading of an answer",
        f"within {_CONNECTION.body_seconds:g} s; {_CONNECTION.reading_seconds:g} s without reading",
        "cut",
    ),
    ServerLimit(
        "a large body that comes slowly",
        "16 KiB a second after 5 s; 256 KiB a second while other requests wait for its place",
        "408, 429",
    ),
    ServerLimit(
        "a pattern of a schema",
        "RE2: linear in the text; 16 KiB, 1,000 levels; a pattern that RE2 cannot read is refused",
        "422",
    ),
    ServerLimit(
        "searching for patterns in an object",
        f"{structural.SEARCH_LIMIT // 1_000_000} million steps of RE2, a second",
        "422",
    ),
    ServerLimit(
        "rules (`x-kubernetes-validations`)",
        f"estimated cost of {schema_rules.RULE_LIMIT:,} each and {schema_rules.SCHEMA_LIMIT:,} together, "
        f"{_size(schema_rules.TEXT_LIMIT)} of text; at run time {schema_rules.CALL_LIMIT:,} a call and "
        f"{schema_rules.OBJECT_LIMIT:,} an object",
        "422",
    ),
    ServerLimit(
        "[admission policies](policies.md)",
        f"a cost of {expressions.CALL_LIMIT:,} an evaluation, {validating_policies.POLICY_LIMIT:,} a policy and "
        f"{evaluation.REQUEST_LIMIT:,} a request; {invocations.MOST_PARAMS:,} parameters of a binding, "
        f"{_size(invocations.MOST_PARAM_BYTES)} together; "
        f"{_size(admission_policies.TEXT_LIMIT)} of expressions",
        "`failurePolicy`; 422 for the text",
    ),
    ServerLimit("defaults of a schema", f"{_size(structural.DEFAULTS_LIMIT)} added to an object", "413"),
    ServerLimit("checking an object", f"600,000 steps; {structural.MOST_ERRORS} findings are reported", "422"),
    ServerLimit("a selector", "65,536 characters, 1,000 requirements, 4,000 values", "400"),
    ServerLimit(
        "an answer in YAML, as a Table or indented", "encoded in slices, beside other requests, as the client reads it"
    ),
    ServerLimit(
        "what a client has not read of an answer or a watch",
        f"some hundred KiB; {_STORE.watch_events:,} events and {_size(_STORE.watch_bytes)} of a watch, which then ends",
        "410",
    ),
    ServerLimit(
        "the history that watches and lists can go back to",
        f"{_STORE.history_changes:,} changes, {_size(_STORE.history_bytes)}",
        "410",
    ),
    ServerLimit(
        "test controls",
        f"{faults.MOST_FAULTS:,} faults, delays of {faults.LONGEST_DELAY:g} s, {controls.MOST_SNAPSHOTS} snapshots "
        f"over HTTP, {simulated_time.LONGEST_ADVANCE.days} days at once",
        "400",
    ),
)
NOT_SERVED: Final = (
    UnservedApi("`custom.metrics.k8s.io`, `external.metrics.k8s.io`", "404: the groups are not in discovery"),
    UnservedApi("`pods/exec`, `pods/attach`, `pods/portforward`", "501: no process runs in a pod"),
    UnservedApi("`pods/proxy`", "404"),
    UnservedApi("the schema of ComponentStatus", "none in OpenAPI: `kubectl explain componentstatuses` fails"),
    UnservedApi(
        "LeaseCandidate, EvictionRequest, StorageVersion; StorageVersionMigration, ClusterTrustBundle and "
        "PodCertificateRequest",
        "404: kube-apiserver does not serve the first three by default, and the others since 1.37 only",
    ),
    UnservedApi(
        "401 for a client certificate of an unknown authority, or one that has expired",
        "the TLS handshake ends with an alert: Python's `ssl` cannot go on without a verified certificate",
    ),
    UnservedApi("other API servers (aggregation)", "APIServices are stored; one with a Service is not available"),
    UnservedApi(
        "network, DNS and node proxies",
        "none; Services have cluster IPs, node ports, Endpoints and EndpointSlices, and nothing answers there",
    ),
    UnservedApi("hints by `service.kubernetes.io/topology-mode`", "none; those of `trafficDistribution` are set"),
    UnservedApi(
        "`networking.k8s.io`",
        "Ingresses (with the default class), their classes and NetworkPolicies are stored; nothing acts on them; "
        "ServiceCIDRs and IPAddresses are those of Services",
    ),
)
