"""Tokens for `jwt`: making them, and judging them."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from functools import cache
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dsl.program import FileArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsl.program import Value

SEED = b"not-a-secret-not-a-secret-not-a-secret-1"
BEARER = "Bearer "


@cache
def _private(seed: bytes) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(seed).digest())


def keys(seed: bytes = SEED) -> bytes:
    """A key set with the public part of one key."""
    x = _encoded(_private(seed).public_key().public_bytes_raw())
    return json.dumps({"keys": [{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": "1", "x": x}]}).encode()


def token(issuer: str, audience: str, seed: bytes = SEED) -> str:
    """A signed token that does not expire soon. The same arguments give the same bytes."""
    head = _encoded(json.dumps({"alg": "EdDSA", "kid": "1", "typ": "JWT"}).encode())
    body = _encoded(json.dumps({"iss": issuer, "aud": audience, "exp": 4102444800}).encode())
    return f"{head}.{body}.{_encoded(_private(seed).sign(f'{head}.{body}'.encode()))}"


def verdict(arguments: Mapping[str, Value], authorization: tuple[str, ...]) -> int | None:
    """The HTTP status of a refusal: 401 without a good token, 403 for the wrong audience; None for welcome."""
    if len(authorization) != 1 or not authorization[0].startswith(BEARER):
        return 401
    head, _, rest = authorization[0].removeprefix(BEARER).partition(".")
    body, _, signature = rest.partition(".")
    jwks = arguments["jwks"]
    assert isinstance(jwks, FileArgument)
    public = [Ed25519PublicKey.from_public_bytes(_decoded(key["x"])) for key in json.loads(jwks.content)["keys"]]
    if not any(_signed(key, f"{head}.{body}", signature) for key in public):
        return 401
    claims: dict[str, Any] = json.loads(_decoded(body))
    if claims["iss"] != arguments["issuer"] or claims["exp"] < time.time():
        return 401
    audiences = arguments["audiences"]
    assert isinstance(audiences, tuple)
    return 403 if audiences and claims["aud"] not in audiences else None


def _signed(key: Ed25519PublicKey, signed: str, signature: str) -> bool:
    try:
        key.verify(_decoded(signature), signed.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(data: str) -> bytes:
    return base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))
