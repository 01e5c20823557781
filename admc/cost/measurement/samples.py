"""Makes the files and tokens that measured policies need: scripts that do nothing, and a key for the run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

ISSUER: Final = "https://measurement.example"
ORIGIN: Final = "https://caller.example"
TAPPED: Final = "/tapped"
"""Replaced by a folder of the run."""
_LUA: Final = b"function envoy_on_request(handle) end\n"
_WASM: Final = bytes.fromhex(
    "0061736d01000000"  # the format and its version
    "01950004"
    "600000"
    "60027f7f00"
    "60017f017f"
    "60037f7f7f017f"  # types of functions, by numbers in and out
    "03850004"
    "00010203"  # four functions, each of the type with its number
    "05830001"
    "0001"  # a page of memory
    "07f40005"  # names of the memory and of the functions
    "066d656d6f7279"
    "0200"
    "1770726f78795f6162695f76657273696f6e5f305f325f31"
    "0000"
    "1770726f78795f6f6e5f636f6e746578745f637265617465"
    "0001"
    "1870726f78795f6f6e5f6d656d6f72795f616c6c6f63617465"
    "0002"
    "1870726f78795f6f6e5f726571756573745f68656164657273"
    "0003"
    "0a920004"
    "02000b"
    "02000b"
    "05004180080b"
    "040041000b"  # what they do: nothing, and two return a number
)
"""A module that is called for the headers of each request, and does nothing."""


@cache
def _private() -> RSAPrivateKey:
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@cache
def key_set() -> bytes:
    """The public part of the run's key, as a file for `jwt`."""
    from jwt.algorithms import RSAAlgorithm

    public = RSAAlgorithm.to_jwk(_private().public_key(), as_dict=True)
    return json.dumps({"keys": [{**public, "kid": "1", "alg": "RS256"}]}).encode()


@cache
def token() -> str:
    """A token that a `jwt` policy with `key_set` admits; it does not expire during a run."""
    import jwt

    return jwt.encode({"iss": ISSUER, "exp": 4102444800}, _private(), algorithm="RS256", headers={"kid": "1"})


def files() -> Mapping[str, bytes]:
    """The files that the policies of the built-in kinds name."""
    return {"nothing.lua": _LUA, "nothing.wasm": _WASM, "keys.json": key_set()}
