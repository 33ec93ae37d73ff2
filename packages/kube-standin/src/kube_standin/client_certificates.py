"""Users by client certificate, as kube-apiserver reads them (x509 authentication).

TLS has already checked the certificate's dates, its purpose, and its issuer.
"""

from __future__ import annotations

import hashlib

from cryptography import x509
from cryptography.x509.oid import NameOID

from kube_standin.admission_chain import User
from kube_standin.authorization import AUTHENTICATED

_UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
_CREDENTIAL = "authentication.kubernetes.io/credential-id"


def user_of(certificate: bytes) -> User | None:
    """Return the user of a client certificate (DER), None if it names none.

    The common name is the user name, the organizations are the groups.
    """
    try:
        subject = x509.load_der_x509_certificate(certificate).subject
    except ValueError:
        return None
    names = _texts(subject, NameOID.COMMON_NAME)
    uids = _texts(subject, _UID)
    if not names or not names[-1] or len(uids) > 1:
        return None
    groups = tuple(dict.fromkeys((*_texts(subject, NameOID.ORGANIZATION_NAME), AUTHENTICATED)))
    digest = f"X509SHA256={hashlib.sha256(certificate).hexdigest()}"
    return User(names[-1], groups, "".join(uids), ((_CREDENTIAL, (digest,)),))


def _texts(subject: x509.Name, attribute: x509.ObjectIdentifier) -> list[str]:
    return [str(name.value) for name in subject.get_attributes_for_oid(attribute)]
