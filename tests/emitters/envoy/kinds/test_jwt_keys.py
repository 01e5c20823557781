"""Each type of key that a key set may hold: Envoy verifies with it, also where two keys have one `kid`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from admc.testbed.client import Request
from tests.emitters.envoy.support import ENVOY, running

if TYPE_CHECKING:
    from pathlib import Path

_RSA = rsa.generate_private_key(65537, 2048)
PRIVATE: dict[str, Any] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), _RSA),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "ES512": ec.generate_private_key(ec.SECP521R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
OF = {"R": RSAAlgorithm, "P": RSAAlgorithm, "E": ECAlgorithm}


def _public(algorithm: str, **more: str) -> dict[str, Any]:
    writer = OKPAlgorithm if algorithm == "EdDSA" else OF[algorithm[0]]
    found = json.loads(writer.to_jwk(PRIVATE[algorithm].public_key()))
    return {name: value for name, value in found.items() if name != "key_ops"} | more


# All of one `kid`, with and without `alg`; the same key again.
KEYS = [_public(name, kid="1") for name in ("RS256", "ES256", "ES384", "ES512", "EdDSA")] + [
    _public("PS256", kid="1", alg="PS256", use="sig")
]


@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
def test_envoy_verifies_with_every_type_of_key(tmp_path: Path) -> None:
    files = {"keys.json": json.dumps({"keys": KEYS}).encode()}
    text = """service a { http 8000 }
service b { http 8001 }
call a -> b
policy p = jwt(issuer: "https://issuer", jwks: "keys.json") on a -> b
"""
    with running(text, tmp_path, files) as app:
        for algorithm, key in PRIVATE.items():
            for issuer, status in (("https://issuer", 200), ("https://other", 401)):
                token = jwt.encode({"iss": issuer, "exp": 4102444800}, key, algorithm, {"kid": "1"})
                found = app.call("a", "b", Request(headers=(("authorization", f"Bearer {token}"),)))
                assert found.status == status, (algorithm, issuer)
        forged = jwt.encode({"iss": "https://issuer", "exp": 4102444800}, "a secret of thirty-two letters!!", "HS256")
        assert app.call("a", "b", Request(headers=(("authorization", f"Bearer {forged}"),))).status == 401
