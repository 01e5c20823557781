"""Tokens for `jwt`: making them, and judging them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import TYPE_CHECKING, Any

from dsl.program import FileArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsl.program import Value

SECRET = b"not-a-secret-not-a-secret-not-a-secret-1"
BEARER = "Bearer "


def keys(secret: bytes = SECRET) -> bytes:
    """A key set with one symmetric key."""
    return json.dumps({"keys": [{"kty": "oct", "alg": "HS256", "kid": "1", "k": _encoded(secret)}]}).encode()


def token(issuer: str, audience: str, secret: bytes = SECRET) -> str:
    """A signed token that does not expire soon."""
    head = _encoded(json.dumps({"alg": "HS256", "kid": "1", "typ": "JWT"}).encode())
    body = _encoded(json.dumps({"iss": issuer, "aud": audience, "exp": 4102444800}).encode())
    return f"{head}.{body}.{_signature(f'{head}.{body}', secret)}"


def verdict(arguments: Mapping[str, Value], authorization: tuple[str, ...]) -> int | None:
    """The HTTP status of a refusal: 401 without a good token, 403 for the wrong audience; None for welcome."""
    if len(authorization) != 1 or not authorization[0].startswith(BEARER):
        return 401
    head, _, rest = authorization[0].removeprefix(BEARER).partition(".")
    body, _, signature = rest.partition(".")
    jwks = arguments["jwks"]
    assert isinstance(jwks, FileArgument)
    secrets = [_decoded(key["k"]) for key in json.loads(jwks.content)["keys"]]
    if not any(hmac.compare_digest(signature, _signature(f"{head}.{body}", secret)) for secret in secrets):
        return 401
    claims: dict[str, Any] = json.loads(_decoded(body))
    if claims["iss"] != arguments["issuer"] or claims["exp"] < time.time():
        return 401
    audiences = arguments["audiences"]
    assert isinstance(audiences, tuple)
    return 403 if audiences and claims["aud"] not in audiences else None


def _signature(signed: str, secret: bytes) -> str:
    return _encoded(hmac.new(secret, signed.encode(), hashlib.sha256).digest())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(data: str) -> bytes:
    return base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))
