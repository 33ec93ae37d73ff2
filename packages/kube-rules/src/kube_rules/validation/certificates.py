"""Rules of CertificateSigningRequests (kube-apiserver 1.37, certificates validation).

The PEM form and the outer DER value of the request are checked, but not the signature.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from kube_rules import field_errors as fe
from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.labels import Messages
from kube_rules.validation import names
from kube_rules.validation import rows as r

DECISIONS: Final = ("Approved", "Denied")
"""Conditions that are set through /approval."""
_LASTING: Final = (*DECISIONS, "Failed")
_USAGES: Final = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
_SHORTEST: Final = 600
_SIGNER: Final = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
_REQUEST: Final = b"CERTIFICATE REQUEST"
_CERTIFICATE: Final = b"CERTIFICATE"
_SEQUENCE: Final = 0x30


def _is_pem(text: str, kind: bytes) -> bool:
    """Return whether base64 text is a PEM block of a kind with a DER sequence; only its first block counts."""
    try:
        _, _, rest = base64.b64decode(text, validate=True).partition(b"-----BEGIN %b-----" % kind)
        block, end, _ = rest.partition(b"-----END %b-----" % kind)
        der = base64.b64decode(b"".join(block.split()), validate=True) if end and rest[:1].isspace() else b""
    except binascii.Error:
        return False
    return der[:1] == bytes((_SEQUENCE,))


def signer_name(text: str) -> Messages:
    """Return the errors of a signer's name: a domain with a dot, a slash and a name."""
    domain, slash, path = text.partition("/")
    if not slash or "/" in path or not path:
        return (_SIGNER,)
    messages = (*names.subdomain(domain), *names.subdomain(path))
    return messages or (() if "." in domain else ("should be a domain with at least two segments separated by dots",))


def _spec(spec: Json, path: str) -> r.Found:
    if not spec.get("request"):
        yield fe.required(f"{path}.request")
    elif not _is_pem(spec["request"], _REQUEST):
        yield fe.invalid(f"{path}.request", spec["request"], "PEM block type must be CERTIFICATE REQUEST")
    usages = spec.get("usages") or ()
    if not usages:
        yield fe.required(f"{path}.usages")
    seen: set[str] = set()
    for index, usage in enumerate(usages):
        if usage in seen:
            yield fe.duplicate(f"{path}.usages[{index}]", usage)
        else:
            seen.add(usage)
            yield from fe.one_of(f"{path}.usages[{index}]", usage, _USAGES)
    yield from r.wanted("signerName", signer_name)(spec, path)
    if spec.get("signerName") == "kubernetes.io/legacy-unknown":
        yield fe.invalid(
            f"{path}.signerName", spec["signerName"], "the legacy signerName is not allowed via this API version"
        )
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _SHORTEST:
        text = "may not specify a duration less than 600 seconds (10 minutes)"
        yield fe.invalid(f"{path}.expirationSeconds", seconds, text)


def _conditions(status: Json, path: str) -> r.Found:
    seen: set[str] = set()
    for index, condition in enumerate(status.get("conditions") or ()):
        place, kind = f"{path}.conditions[{index}]", condition.get("type", "")
        if not kind:
            yield fe.required(f"{place}.type")
        elif kind in seen:
            yield fe.duplicate(f"{place}.type", kind)
        elif kind in DECISIONS and seen.intersection(DECISIONS):
            yield fe.invalid(f"{place}.type", kind, "Approved and Denied conditions are mutually exclusive")
        allowed = ("True",) if kind in _LASTING else ("True", "False", "Unknown")
        yield from fe.one_of(f"{place}.status", condition.get("status", ""), allowed)
        seen.add(kind)


signing_request: r.Check = r.all_of(r.below("spec", _spec), r.below("status", _conditions))
"""Check the request, its signer, its usages and its conditions."""


def _kinds(obj: Json) -> set[str]:
    return {condition.get("type", "") for condition in (obj.get("status") or {}).get("conditions") or ()}


def _lasting(new: Json, old: Json) -> r.Found:
    for kind in sorted(_kinds(old).intersection(_LASTING) - _kinds(new)):
        yield fe.forbidden("status.conditions", f'updates may not remove a condition of type "{kind}"')


def approval(new: Json, old: Json) -> list[FieldError]:
    """Return the errors of a change through /approval."""
    return [*signing_request(new, ""), *_lasting(new, old)]


def status(new: Json, old: Json) -> list[FieldError]:
    """Return the errors of a change through /status: it cannot decide, and a certificate cannot change."""
    errors = [*signing_request(new, ""), *_lasting(new, old)]
    for kind in sorted(_kinds(new).intersection(DECISIONS) - _kinds(old)):
        text = f'updates may not add a condition of type "{kind}"'
        errors.append(fe.forbidden("status.conditions", text))
    before, after = ((obj.get("status") or {}).get("certificate") for obj in (old, new))
    if before and before != after:
        text = "updates may not set certificate content after it is set" if after else "updates may not clear it"
        errors.append(fe.forbidden("status.certificate", text))
    elif after and not before and not _is_pem(after, _CERTIFICATE):
        errors.append(fe.invalid("status.certificate", "<certificate data>", "no CERTIFICATE PEM blocks found"))
    return errors
