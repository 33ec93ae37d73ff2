"""Rules of webhook configurations (kubernetes, pkg/apis/admissionregistration/validation)."""

from __future__ import annotations

from urllib.parse import urlsplit

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.validation import names, selectors
from kube_rules.validation import rows as r

_REVIEW_VERSIONS = ("v1", "v1beta1")
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_HTTPS = "; desired format: https://host[/path]"
_HIGHEST_PORT = 65535
_MOST_CONDITIONS = 64


def _full_name(holder: Json, path: str) -> r.Found:
    name = holder.get("name", "")
    if not name:
        yield fe.required(f"{path}.name")
        return
    yield from fe.malformed(f"{path}.name", name, names.subdomain)
    if len(name.split(".")) < 3:
        yield fe.invalid(f"{path}.name", name, "should be a domain with at least three segments separated by dots")


def _wildcard(field: str, plural: str) -> r.Check:
    def check(rule: Json, path: str) -> r.Found:
        items = rule.get(field) or ()
        if not items:
            yield fe.required(f"{path}.{field}")
        elif len(items) > 1 and "*" in items:
            yield fe.invalid(f"{path}.{field}", items, f"if '*' is present, must not specify other {plural}")

    return check


def _versions(rule: Json, path: str) -> r.Found:
    for index, version in enumerate(rule.get("apiVersions") or ()):
        if not version:
            yield fe.required(f"{path}.apiVersions[{index}]")


def _operations(rule: Json, path: str) -> r.Found:
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in OPERATIONS:
            yield fe.not_supported(f"{path}.operations[{index}]", operation, OPERATIONS)


def _resources(rule: Json, path: str) -> r.Found:
    place, items = f"{path}.resources", rule.get("resources") or ()
    if not items:
        yield fe.required(place)
    whole: set[str] = set()
    everywhere: set[str] = set()
    plain = False
    for index, item in enumerate(items):
        if not item:
            yield fe.required(f"{place}[{index}]")
            continue
        plural, slash, sub = item.partition("/")
        if not slash:
            plain = item != "*"
            continue
        if plural in whole:
            yield fe.invalid(f"{place}[{index}]", item, f"if '{plural}/*' is present, must not specify {item}")
        if sub in everywhere:
            yield fe.invalid(f"{place}[{index}]", item, f"if '*/{sub}' is present, must not specify {item}")
        if sub == "*":
            whole.add(plural)
        if plural == "*":
            everywhere.add(sub)
    if len(items) > 1 and "*/*" in items:
        yield fe.invalid(place, items, "if '*/*' is present, must not specify other resources")
    if "*" in items and plain:
        detail = "if '*' is present, must not specify other resources without subresources"
        yield fe.invalid(place, items, detail)


rule: r.Check = r.all_of(
    _wildcard("operations", "operations"),
    _operations,
    _wildcard("apiGroups", "API groups"),
    _wildcard("apiVersions", "API versions"),
    _versions,
    _resources,
    r.enum("scope", ("*", "Cluster", "Namespaced"), missing=None),
)
"""Check rules: operations and resources, subresources included."""


def _client(holder: Json, path: str) -> r.Found:
    yield from client_config(holder.get("clientConfig") or {}, f"{path}.clientConfig")


def client_config(config: Json, path: str) -> r.Found:
    """Check the client configuration of a webhook: a URL or a service."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield fe.required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from client_url(url, f"{path}.url")
    elif service is not None:
        yield from client_service(service, f"{path}.service")


def client_url(url: str, path: str) -> r.Found:
    """Check the URL of a webhook: https, a host, and only a path."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        yield fe.required(path, f"url must be a valid URL: {error}{_HTTPS}")
        return
    if parts.scheme != "https":
        yield fe.invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_HTTPS}")
    if not parts.netloc:
        yield fe.invalid(path, "", f"host must be specified{_HTTPS}")
    if "@" in parts.netloc:
        yield fe.invalid(path, parts.netloc.rpartition("@")[0], "user information is not permitted in the URL")
    if parts.fragment:
        yield fe.invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield fe.invalid(path, parts.query, "query parameters are not permitted in the URL")


def client_service(service: Json, path: str) -> r.Found:
    """Check the service of a webhook: its name, its port and a plain path."""
    for name in ("name", "namespace"):
        if not service.get(name):
            yield fe.required(f"{path}.{name}")
    port = service.get("port", 443)
    if not 0 < port <= _HIGHEST_PORT:
        yield fe.invalid(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    place, text = f"{path}.path", service.get("path") or "/"
    if text == "/":
        return
    if text == "//":
        yield fe.invalid(place, text, "segment[0] may not be empty")
        return
    if not text.startswith("/"):
        yield fe.invalid(place, text, "must start with a '/'")
    for index, step in enumerate(text[1:].removesuffix("/").split("/")):
        if not step:
            yield fe.invalid(place, text, f"segment[{index}] may not be empty")
        else:
            for message in names.subdomain(step):
                yield fe.invalid(place, text, f"segment[{index}]: {message}")


def _review_versions(holder: Json, path: str) -> r.Found:
    place, versions = f"{path}.admissionReviewVersions", holder.get("admissionReviewVersions") or ()
    if not versions:
        yield fe.required(place, "must specify one of v1, v1beta1")
        return
    yield from review_versions(versions, place)


def review_versions(versions: list[str], path: str) -> r.Found:
    """The versions of reviews that a webhook reads, at least one of which the API server can write."""
    twice = r.repeated(versions)
    for index, version in enumerate(versions):
        if index in twice:
            yield fe.invalid(f"{path}[{index}]", version, "duplicate version")
        else:
            yield from fe.malformed(f"{path}[{index}]", version, names.dns1035_label)
    if not set(_REVIEW_VERSIONS).intersection(versions):
        yield fe.invalid(path, versions, "must include at least one of v1, v1beta1")


def _side_effects(holder: Json, path: str) -> r.Found:
    allowed, value = ("None", "NoneOnDryRun"), holder.get("sideEffects")
    if value is None:
        yield fe.required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    elif value not in allowed:
        yield fe.not_supported(f"{path}.sideEffects", value, allowed)


def _timeout(holder: Json, path: str) -> r.Found:
    seconds = holder.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        yield fe.invalid(f"{path}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds")


def match_conditions(*, params: bool = False) -> r.Check:
    """Return the check of conditions: names and expressions of type bool; `params`: of a policy with parameters."""

    def expression(holder: Json, path: str) -> r.Found:
        from kube_rules.admission import expressions  # a plan starts without CEL

        text = (holder.get("expression") or "").strip()
        if not text:
            yield fe.required(f"{path}.expression")
            return
        try:
            expressions.checked(text, expressions.forms(params=params), ("bool",))
        except expressions.ExpressionError as error:
            yield fe.invalid(f"{path}.expression", text, str(error))

    return r.listed(
        "matchConditions",
        expression,
        r.wanted("name", names.qualified),
        r.Unique("name", empty=False),
        most=_MOST_CONDITIONS,
        stops=False,
    )


_WEBHOOK = (
    _full_name,
    r.listed("rules", rule),
    r.enum("failurePolicy", ("Fail", "Ignore"), missing=None),
    r.enum("matchPolicy", ("Equivalent", "Exact"), missing=None),
    _side_effects,
    _timeout,
    r.given("namespaceSelector", selectors.label_selector),
    r.given("objectSelector", selectors.label_selector),
    r.enum("reinvocationPolicy", ("IfNeeded", "Never"), missing=None),
    _client,
    match_conditions(),
    _review_versions,
    r.Unique("name", empty=False),
)
configuration: r.Check = r.listed("webhooks", *_WEBHOOK)
"""Check a configuration of mutating or validating webhooks."""
