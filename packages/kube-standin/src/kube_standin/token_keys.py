"""The key of service account tokens: others check a token with its public part, which the server publishes.

Rules: kube-apiserver's signer (ES256) and its OIDC discovery (interfaces.md 5.15). The key is derived from the secret
of the data directory, so that every start has the same key.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from kube_rules.json import Json

ALGORITHM: Final = "ES256"
KEYS_PATH: Final = "/openid/v1/jwks"
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order of P-256: private keys are below it."""
_PART: Final = 32
"""Bytes of each half of a signature, and of a coordinate."""
_ECDSA: Final = ec.ECDSA(hashes.SHA256())


def base64url(data: bytes) -> str:
    """Return bytes in base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class TokenKey:
    """An elliptic-curve key derived from a secret."""

    def __init__(self, secret: bytes) -> None:
        derived = HKDF(hashes.SHA256(), 48, None, b"service account tokens").derive(secret)
        self._private = ec.derive_private_key(int.from_bytes(derived) % (_ORDER - 1) + 1, ec.SECP256R1())
        self._public = self._private.public_key()
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        self.key_id = base64url(hashlib.sha256(self._public.public_bytes(serialization.Encoding.DER, form)).digest())
        """The key ID in the head of a token."""

    def sign(self, text: str) -> bytes:
        """Return the signature of a text in the format of a JWT."""
        halves = decode_dss_signature(self._private.sign(text.encode(), _ECDSA))
        return b"".join(half.to_bytes(_PART) for half in halves)

    def signed(self, text: str, signature: bytes) -> bool:
        """Return whether this key made the signature of a text."""
        if len(signature) != 2 * _PART:
            return False
        halves = (int.from_bytes(signature[:_PART]), int.from_bytes(signature[_PART:]))
        try:
            self._public.verify(encode_dss_signature(*halves), text.encode(), _ECDSA)
        except InvalidSignature:
            return False
        return True

    def key_set(self) -> Json:
        """Return the public key as a JSON Web Key Set."""
        numbers = self._public.public_numbers()
        x, y = (base64url(number.to_bytes(_PART)) for number in (numbers.x, numbers.y))
        key = {"use": "sig", "kty": "EC", "kid": self.key_id, "crv": "P-256", "alg": ALGORITHM, "x": x, "y": y}
        return {"keys": [key]}


def provider_metadata(issuer: str, server: str) -> Json:
    """Return the OIDC discovery document of an issuer; ``server`` is the base URL of its keys, without a path."""
    return {
        "issuer": issuer,
        "jwks_uri": f"{server}{KEYS_PATH}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [ALGORITHM],
    }
