"""Verifies Kubernetes' projected service account tokens, without a request to the cluster.

The keys come from a file: a JSON Web Key Set, as `/openid/v1/jwks` of the cluster returns it. Only public keys and
asymmetric signatures are accepted. A program that can verify a token with a shared secret could also forge one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from admc.exits import CommandError, Exit
from admc.files import read_bounded
from admc.terminal import visible
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from xds_server.transport.client import DeniedError

if TYPE_CHECKING:
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
"""The name of a service account, as the subject of a token is."""

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey


class TokenClaims(NamedTuple):
    """The claims of a verified token."""

    subject: str
    expires: float
    """Seconds since 1970."""


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
        failure: DeniedError = DeniedError("token", "its token is signed with a key that is not among the token keys")
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
    return TokenClaims(subject, float(min(int(claims["exp"]), LATEST_EXPIRY)))


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:].rstrip(".")


def load_keys(path: Path, audience: str) -> TokenKeys:
    """Read a key set. Raises `CommandError` if any of its keys cannot be used."""
    data = read_bounded(path, MAX_FILE, "the token keys", regular=True)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise _wrong(path, "it is not JSON") from None
    listed = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(listed, list) or not listed:
        raise _wrong(path, "it has no list `keys`")
    if len(listed) > MAX_KEYS:
        raise _wrong(path, f"it has more than {MAX_KEYS} keys")
    keys = tuple(_key(path, number, item) for number, item in enumerate(listed, start=1) if _signs(item))
    if not keys:
        raise _wrong(path, "none of its keys is for signatures")
    return TokenKeys(audience, keys)


def _signs(item: object) -> bool:
    return not isinstance(item, dict) or item.get("use", "sig") == "sig"


def _key(path: Path, number: int, item: object) -> _Key:
    if not isinstance(item, dict):
        raise _wrong(path, f"key {number} is not an object")
    if item.get("kty") == "oct":
        raise _wrong(
            path, f"key {number} is a shared secret", "a program that verifies tokens with it could also forge them"
        )
    if "d" in item:
        raise _wrong(path, f"key {number} is a private key", "give only its public half")
    try:
        # Without its `alg`, which is checked below.
        key = jwt.PyJWK.from_dict({name: value for name, value in item.items() if name != "alg"}).key
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError, KeyError, OverflowError):
        # The library's message contains the key.
        hint = "RSA, P-256, P-384, P-521 and Ed25519 keys are accepted"
        raise _wrong(path, f"key {number} is of a type that admc does not support", hint) from None
    algorithms = _algorithms(key)
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < _RSA_BITS:
        raise _wrong(path, f"key {number} has {key.key_size} bits", f"RSA keys need {_RSA_BITS:,}")
    if item.get("alg") is not None:
        algorithms = tuple(name for name in algorithms if name == item["alg"])
    if not algorithms:
        raise _wrong(path, f"key {number} is for an algorithm that does not fit it or is not accepted")
    named = item.get("kid")
    return _Key(named if isinstance(named, str) else None, algorithms, key)


def _algorithms(key: object) -> tuple[str, ...]:
    if isinstance(key, rsa.RSAPublicKey):
        return _RSA
    if isinstance(key, ec.EllipticCurvePublicKey):
        return _CURVES.get(key.curve.name, ())
    return ("EdDSA",) if isinstance(key, ed25519.Ed25519PublicKey) else ()


def _wrong(path: Path, what: str, hint: str | None = None) -> CommandError:
    message = f"the token keys `{visible(str(path))}` cannot be used: {what}"
    hint = hint or '`kubectl get --raw /openid/v1/jwks` prints them as {"keys": [...]}'
    return CommandError(Exit.INPUT, [Diagnostic("ADM821", Severity.ERROR, message, None, None, hint)])
