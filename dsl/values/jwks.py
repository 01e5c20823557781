"""Key sets (JWKS): whether Envoy can verify tokens with every key, and whether every key is public.

Envoy silently ignores keys that it cannot use, and would then refuse all tokens signed with them. So a key set with one
such key is refused. Messages contain no part of a key.
"""

from __future__ import annotations

import json
import math
import re
from typing import Final

from dsl.diagnostics.problem import Problem
from dsl.json_type import Json, JsonObject, RepeatedKeyError, without_repeats

MAX_BYTES: Final = 1 << 20
MAX_KEYS: Final = 200
_MAX_DEPTH: Final = 16
_FEWEST_BITS, _MOST_BITS = 2048, 8192
_PRIVATE: Final = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"))
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+")
_HINT: Final = 'a key set is `{"keys": [...]}` with public keys of the issuer: RSA, EC (P-256, P-384, P-521) or Ed25519'


class _WrongError(Exception):
    """The error, and a hint."""

    def __init__(self, message: str, hint: str = _HINT, code: str = "ADM218") -> None:
        super().__init__(message)
        self.problem = Problem(code, message, hint)


def wrong(content: bytes) -> Problem | None:
    """The error of a key set, or None."""
    try:
        document = _json(content)
        _no_secret(document, "the key set")
        keys = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(keys, list):
            raise _WrongError("it is not an object with a list `keys`")
        if not keys:
            raise _WrongError("it has no keys")
        if len(keys) > MAX_KEYS:
            raise _WrongError(f"it has {len(keys):,} keys, and {MAX_KEYS} is the most", "keep the keys in use")
        for number, key in enumerate(keys, start=1):
            _key(key, f"key {number}")
    except _WrongError as error:
        return error.problem
    return None


def _json(content: bytes) -> Json:
    if not content.strip():
        raise _WrongError("it is empty")
    if len(content) > MAX_BYTES:
        raise _WrongError(f"it has more than {MAX_BYTES:,} bytes", "keep the keys in use")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise _WrongError("it is not UTF-8 text") from None
    if text.startswith("\ufeff"):
        raise _WrongError("it begins with a byte order mark", "save it as UTF-8 without one")
    if "-----BEGIN " in text:
        secret = "PRIVATE KEY" in text
        raise _WrongError(
            "it holds a private key" if secret else "it is PEM, and not JSON",
            "convert the issuer's public key to a JWK",
            "ADM219" if secret else "ADM218",
        )
    try:
        document: Json = json.loads(
            text, object_pairs_hook=without_repeats, parse_constant=_no_constant, parse_float=_finite, parse_int=_finite
        )
    except RepeatedKeyError:
        raise _WrongError("an object in it has two members of one name", "keep one of them") from None
    except (ValueError, RecursionError):
        raise _WrongError("it is not JSON") from None
    if _depth(document) > _MAX_DEPTH:
        raise _WrongError("it is nested too deeply")
    if any("\ud800" <= letter <= "\udfff" for letter in json.dumps(document, ensure_ascii=False)):
        raise _WrongError("it is not UTF-8 text")
    return document


def _no_constant(_name: str) -> None:
    raise ValueError


def _finite(text: str) -> float:
    """A number as Envoy reads it: a float of 64 bits. Envoy refuses the whole set if a number is too large for that."""
    number = float(text)
    if math.isinf(number):
        raise ValueError
    return number


def _depth(value: Json) -> int:
    deepest, left = 0, [(value, 1)]
    while left:
        item, depth = left.pop()
        deepest = max(deepest, depth)
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        left.extend((child, depth + 1) for child in inner)
    return deepest


def _no_secret(value: Json, where: str) -> None:
    """Refuses private parts anywhere in the document, also outside of `keys`."""
    if isinstance(value, dict):
        if value.get("kty") == "oct" or ("kty" in value and _PRIVATE & value.keys()):
            raise _WrongError(
                f"{where} is secret",
                "use the public part of each key: without `d`, `p`, `q`, `dp`, `dq`, `qi`, `oth` and `k`; "
                "and replace the secret key if this file was passed on",
                "ADM219",
            )
        for name, item in value.items():
            keys = isinstance(item, list) and name == "keys"
            for number, part in enumerate(item if isinstance(item, list) else [item], start=1):
                _no_secret(part, f"key {number}" if keys else where)
    elif isinstance(value, list):
        for part in value:
            _no_secret(part, where)


def _key(key: Json, where: str) -> None:
    if not isinstance(key, dict):
        raise _WrongError(f"{where} is not an object")
    for name in ("kty", "kid", "alg", "use", "crv", "n", "e", "x", "y"):
        if name in key and not isinstance(key[name], str):
            raise _WrongError(f"`{name}` of {where} is not a string")
    _for_signatures(key, where)
    kty, crv = key.get("kty"), key.get("crv")
    if kty == "RSA":
        _parts(key, where, ("n", "e"))
        algorithms: tuple[str, ...] = _RSA
    elif kty == "EC" and crv in _CURVES:
        _parts(key, where, ("x", "y"))
        algorithms = (_CURVES[crv],)
    elif kty == "OKP" and crv == "Ed25519":
        _parts(key, where, ("x",))
        algorithms = ("EdDSA",)
    else:
        raise _WrongError(f"{where} has a type or curve that Envoy does not support")
    algorithm = key.get("alg", algorithms[0])
    if algorithm not in algorithms:
        raise _WrongError(f"`alg` of {where} does not fit its type", f"write {_either(algorithms)}, or leave it out")
    _usable(key, where, algorithm)


def _either(words: tuple[str, ...]) -> str:
    return " or ".join(f'`"{word}"`' for word in words)


def _for_signatures(key: JsonObject, where: str) -> None:
    operations = key.get("key_ops", ["verify"])
    if key.get("use", "sig") != "sig" or not isinstance(operations, list) or "verify" not in operations:
        # Envoy reads neither field, and would accept tokens signed with such a key.
        raise _WrongError(f"{where} is not for verifying signatures", "leave it out, or correct `use` and `key_ops`")


def _parts(key: JsonObject, where: str, names: tuple[str, ...]) -> None:
    for name in names:
        if name not in key:
            raise _WrongError(f"{where} has no `{name}`")
        value = key[name]
        if not isinstance(value, str) or not _BASE64URL.fullmatch(value):
            raise _WrongError(f"`{name}` of {where} is not base64url without padding")


def _usable(key: JsonObject, where: str, algorithm: str) -> None:
    """Refuses a key that a cryptography library does not accept, and one with a modulus or exponent that Envoy does
    not."""
    import jwt
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    try:
        public = jwt.PyJWK({name: key[name] for name in ("kty", "crv", "n", "e", "x", "y") if name in key}, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        raise _WrongError(f"{where} is not a key") from None
    if isinstance(public.key, RSAPublicKey):
        if not _FEWEST_BITS <= public.key.key_size <= _MOST_BITS:
            raise _WrongError(
                f"{where} has {public.key.key_size} bits",
                f"use an RSA key of {_FEWEST_BITS} to {_MOST_BITS} bits",
            )
        if public.key.public_numbers().n % 2 == 0:
            raise _WrongError(
                f"the modulus of {where} is even, so it is not an RSA key", "take the key from its issuer"
            )
        exponent = public.key.public_numbers().e
        if exponent % 2 == 0 or not 3 <= exponent < 1 << 33:
            raise _WrongError(f"the exponent of {where} is not one that Envoy accepts", 'use `"AQAB"`')
