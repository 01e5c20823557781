"""The examples of `dsl/kinds.toml` in their frame, and the files that they name."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric import ec

from dsl.vocabulary.guide import frame
from tests.emitters.envoy.wasm import module


def _keys() -> bytes:
    numbers = ec.generate_private_key(ec.SECP256R1()).public_key().public_numbers()
    x, y = (base64.urlsafe_b64encode(number.to_bytes(32)).rstrip(b"=").decode() for number in (numbers.x, numbers.y))
    return json.dumps({"keys": [{"kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": "1", "use": "sig"}]}).encode()


FILES: Mapping[str, bytes] = {
    "keys.json": _keys(),
    "filter.lua": b"function envoy_on_request(handle)\nend\n",
    "filter.wasm": module(),
}


def program(example: str) -> str:
    return f"{frame()}\n{example}\n"
