"""Verifies Kubernetes' projected service account tokens, without a request to the cluster.

The keys are given as a JSON Web Key Set, as `/openid/v1/jwks` of the cluster returns it, from a file or by the caller.
Only public keys and asymmetric signatures are accepted. A program that can verify a token with a shared secret could
also forge one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from admc.base.exits import CommandError, Exit
from admc.base.files import read_bounded
from admc.base.terminal import visible
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from xds_server.transport.client import DeniedError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MAX_FILE: Final = 1_000_000
MAX_KEYS: Final = 64
MAX_TOKEN: Final = 16_384
"""Characters of a token; also gRPC's limit for metadata."""
LEEWAY: Final = 10
"""Seconds that clocks may differ from each other."""
LATEST_EXPIRY: Final = 1 << 40
"""Seconds since 1970: the latest end of a token that timers can represent."""
_RSA_BITS: Final = 2048
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"secp256r1": ("ES256",), "secp384r1": ("ES384",), "secp521r1": ("ES512",)}
ACCOUNT: Final = re.compile(r"system:serviceaccount:[a-z0-9.-]{1,253}:[a-z0-9.-]{1,253}")
"""The name of a service account, in the form of a token's subject."""

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey


class BoundPod(NamedTuple):
    """The pod for which a token was made. The token is valid no longer than the pod exists."""

    namespace: str
    name: str
    uid: str


class TokenClaims(NamedTuple):
    """The claims of a verified token. Times are in seconds since 1970."""

    subject: str
    expires: float
    issued: float = 0.0
    pod: BoundPod | None = None
    """None for a token that was made for no pod."""


class UnknownKeyError(DeniedError):
    """The key that signed a token has an id that no known key has. The cluster may have a new key."""


class _Key(NamedTuple):
    id: str | None
    algorithms: tuple[str, ...]
    key: PublicKey


@dataclass(frozen=True, slots=True)
class TokenKeys:
    """The public keys of accepted tokens, and their required audience."""

    audience: str
    keys: tuple[_Key, ...] = field(repr=False)

    def verify(self, token: str) -> TokenClaims:
        """The claims of a token. Raises `DeniedError`, whose message never contains the token."""
        if len(token) > MAX_TOKEN:
            raise DeniedError("token", f"its token has more than {MAX_TOKEN:,} characters")
        try:
            head = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError:
            raise DeniedError("token", "its token is no signed JSON Web Token") from None
        wanted, algorithm = head.get("kid"), head.get("alg")
        fitting = [
            item
            for item in self.keys
            if algorithm in item.algorithms and (wanted is None or item.id is None or item.id == wanted)
        ]
        unknown = wanted is not None and all(item.id not in (None, wanted) for item in self.keys)
        failure = (UnknownKeyError if unknown else DeniedError)(
            "token", "its token is signed with a key that is not among the token keys"
        )
        for item in fitting:
            try:
                claims = jwt.decode(
                    token,
                    item.key,
                    algorithms=item.algorithms,
                    audience=self.audience,
                    leeway=LEEWAY,
                    options={"require": ["exp", "aud", "sub"], "verify_iat": False},
                )
            except jwt.InvalidSignatureError:
                continue
            except jwt.ExpiredSignatureError:
                failure = DeniedError("expired", "its token has expired")
            except jwt.InvalidAudienceError:
                failure = DeniedError("token", f"its token is for another audience than `{visible(self.audience)}`")
            except jwt.InvalidTokenError as error:
                failure = DeniedError("token", f"its token is refused: {_lower(str(error))}")
            else:
                return _claims(claims)
        raise failure


def _claims(claims: dict[str, Any]) -> TokenClaims:
    subject = claims["sub"]
    if not isinstance(subject, str) or not ACCOUNT.fullmatch(subject):
        raise DeniedError("token", "its token is not that of a service account")
    # `exp` may be an integer of any size, and timers take only smaller ones.
    expires = float(min(int(claims["exp"]), LATEST_EXPIRY))
    issued = claims.get("iat")
    since = float(min(max(issued, 0), LATEST_EXPIRY)) if isinstance(issued, int | float) else 0.0
    return TokenClaims(subject, expires, since, _bound(claims.get("kubernetes.io")))


def _bound(claim: object) -> BoundPod | None:
    kubernetes_claim = claim if isinstance(claim, dict) else {}
    pod = kubernetes_claim.get("pod")
    named = pod if isinstance(pod, dict) else {}
    parts = (kubernetes_claim.get("namespace"), named.get("name"), named.get("uid"))
    namespace, name, uid = (part if isinstance(part, str) else "" for part in parts)
    return BoundPod(namespace, name, uid) if namespace and name and uid else None


def bearer(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """The token in the metadata of a call. Raises `DeniedError`."""
    headers = [value for key, value in metadata if key == "authorization"]
    if not headers:
        raise DeniedError("token", "it has no token")
    if len(headers) > 1 or not isinstance(headers[0], str):
        raise DeniedError("token", "it has several tokens")
    scheme, _, token = headers[0].partition(" ")
    if scheme.lower() != "bearer":
        raise DeniedError("token", "its authorization is not a bearer token")
    return token.strip()


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:].rstrip(".")


def load_keys(path: Path, audience: str) -> TokenKeys:
    """Read a key set from a file. Raises `CommandError` if any of its keys cannot be used."""
    return keys_from(read_bounded(path, MAX_FILE, "the token keys", regular=True), audience, str(path))


def keys_from(data: bytes, audience: str, source: str) -> TokenKeys:
    """Read a JSON Web Key Set; messages name its `source`. Keys that are not for signatures are left out. Raises
    `CommandError` if any of its keys cannot be used."""
    if len(data) > MAX_FILE:
        raise _wrong(source, f"it has more than {MAX_FILE:,} bytes")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise _wrong(source, "it is not JSON") from None
    listed = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(listed, list) or not listed:
        raise _wrong(source, "it has no list `keys`")
    if len(listed) > MAX_KEYS:
        raise _wrong(source, f"it has more than {MAX_KEYS} keys")
    keys = tuple(_key(source, number, item) for number, item in enumerate(listed, start=1) if _signs(item))
    if not keys:
        raise _wrong(source, "none of its keys is for signatures")
    return TokenKeys(audience, keys)


def _signs(item: object) -> bool:
    return not isinstance(item, dict) or item.get("use", "sig") == "sig"


def _key(source: str, number: int, item: object) -> _Key:
    if not isinstance(item, dict):
        raise _wrong(source, f"key {number} is not an object")
    if item.get("kty") == "oct":
        raise _wrong(
            source, f"key {number} is a shared secret", "a program that verifies tokens with it could also forge them"
        )
    if "d" in item:
        raise _wrong(source, f"key {number} is a private key", "give only its public half")
    try:
        # The library gets the key without `alg`, which is checked below.
        key = jwt.PyJWK.from_dict({name: value for name, value in item.items() if name != "alg"}).key
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError, KeyError, OverflowError):
        # The library's message contains the key.
        hint = "RSA, P-256, P-384, P-521 and Ed25519 keys are accepted"
        raise _wrong(source, f"key {number} is of a type that admc does not support", hint) from None
    algorithms = _algorithms(key)
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < _RSA_BITS:
        raise _wrong(source, f"key {number} has {key.key_size} bits", f"RSA keys need {_RSA_BITS:,}")
    if item.get("alg") is not None:
        algorithms = tuple(name for name in algorithms if name == item["alg"])
    if not algorithms:
        raise _wrong(source, f"key {number} is for an algorithm that does not fit it or is not accepted")
    named = item.get("kid")
    return _Key(named if isinstance(named, str) else None, algorithms, key)


def _algorithms(key: object) -> tuple[str, ...]:
    if isinstance(key, rsa.RSAPublicKey):
        return _RSA
    if isinstance(key, ec.EllipticCurvePublicKey):
        return _CURVES.get(key.curve.name, ())
    return ("EdDSA",) if isinstance(key, ed25519.Ed25519PublicKey) else ()


def _wrong(source: str, what: str, hint: str | None = None) -> CommandError:
    message = f"the token keys `{visible(source)}` cannot be used: {what}"
    hint = hint or '`kubectl get --raw /openid/v1/jwks` prints them as {"keys": [...]}'
    return CommandError(Exit.INPUT, [Diagnostic("ADM821", Severity.ERROR, message, None, None, hint)])
