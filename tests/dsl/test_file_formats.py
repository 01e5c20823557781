"""Formats of files: key sets, Lua scripts, WebAssembly modules."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from dsl.values import contents, jwks
from tests.dsl.programs import findings
from tests.emitters.envoy.wasm import module

APP = "app test\nservice a, b { http 8000 }\ncall a -> b\n"
Key = dict[str, Any]


def _b64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _key(made: Any) -> Key:
    found = json.loads(made)
    found.pop("key_ops", None)
    assert isinstance(found, dict)
    return found


def _ec(curve: ec.EllipticCurve) -> Key:
    return _key(ECAlgorithm.to_jwk(ec.generate_private_key(curve).public_key()))


_PRIVATE = rsa.generate_private_key(65537, 2048)
RSA = _key(RSAAlgorithm.to_jwk(_PRIVATE.public_key()))
SECRET_RSA = _key(RSAAlgorithm.to_jwk(_PRIVATE))
P256 = _ec(ec.SECP256R1())
SECRET_EC = _key(ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP384R1())))
ED = _key(OKPAlgorithm.to_jwk(ed25519.Ed25519PrivateKey.generate().public_key()))
SECRET_ED = _key(OKPAlgorithm.to_jwk(ed25519.Ed25519PrivateKey.generate()))
OCT = {"kty": "oct", "k": _b64(b"a secret that is long enough for HS256")}


def key_set(*keys: object) -> bytes:
    return json.dumps({"keys": keys}).encode()


GOOD = {
    "rsa": key_set(RSA),
    "rsa with all": key_set({**RSA, "kid": "1", "use": "sig", "alg": "PS512", "key_ops": ["verify"], "x5t": "abc"}),
    "p256": key_set({**P256, "alg": "ES256"}),
    "p384": key_set(_ec(ec.SECP384R1())),
    "p521": key_set({**_ec(ec.SECP521R1()), "alg": "ES512"}),
    "ed25519": key_set({**ED, "alg": "EdDSA"}),
    "several": key_set(RSA, P256, ED),
    "one kid": key_set({**RSA, "kid": "1"}, {**P256, "kid": "1"}),
}
BAD = {
    "not json": b"not json",
    "empty": b"",
    "blank": b" \n",
    "object": b"{}",
    "array": b"[]",
    "number": b"7",
    "no keys": key_set(),
    "keys no list": b'{"keys": {}}',
    "pem": b"-----BEGIN PUBLIC KEY-----\nMII\n-----END PUBLIC KEY-----\n",
    "one key alone": json.dumps(RSA).encode(),
    "no utf-8": b'{"keys": [], "a": "\xff"}',
    "bom": b"\xef\xbb\xbf" + key_set(RSA),
    "twice": b'{"keys": [], "keys": [' + json.dumps(RSA).encode() + b"]}",
    "nan": b'{"keys": [' + json.dumps(RSA).encode() + b'], "x": NaN}',
    "half a letter": b'{"keys": [' + json.dumps(RSA).encode() + b'], "x": "\\ud800"}',
    "deep": b'{"keys": [' + json.dumps(RSA).encode() + b'], "x": ' + b"[" * 99 + b"]" * 99 + b"}",
    "very deep": b"[" * 200_000,
    "trailing": key_set(RSA) + b" x",
    "huge": key_set(RSA) + b" " * jwks.MAX_BYTES,
    "many": key_set(*[RSA] * (jwks.MAX_KEYS + 1)),
    "one of another type": key_set(RSA, {"kty": "foo"}),
    "no object": key_set(RSA, 7),
    "no modulus": key_set(RSA, {"kty": "RSA", "e": "AQAB"}),
    "no type": key_set({"n": RSA["n"], "e": RSA["e"]}),
    "a kid of a number": key_set({**RSA, "kid": 5}),
    "for encryption": key_set({**RSA, "use": "enc"}),
    "for signing": key_set({**RSA, "key_ops": ["sign"]}),
    "of hs256": key_set({**RSA, "alg": "HS256"}),
    "of rsa-oaep": key_set({**RSA, "alg": "RSA-OAEP"}),
    "of none": key_set({**RSA, "alg": "none"}),
    "of another curve": key_set({**P256, "alg": "ES384"}),
    "secp256k1": key_set(_ec(ec.SECP256K1())),
    "ed448": key_set(_key(OKPAlgorithm.to_jwk(ed448.Ed448PrivateKey.generate().public_key()))),
    "off the curve": key_set({**P256, "y": P256["x"]}),
    "padded": key_set({**RSA, "n": RSA["n"] + "=="}),
    "blank in it": key_set({**RSA, "n": " " + RSA["n"]}),
    "1024 bits": key_set({**RSA, "n": _b64(b"\xf1" * 128)}),
    "16384 bits": key_set({**RSA, "n": _b64(b"\xf1" * 2048)}),
    "a number beyond 64 bits": key_set(RSA)[:-1] + b', "x": 1e999}',
    "an integer beyond 64 bits": key_set(RSA)[:-1] + b', "x": -' + b"9" * 400 + b"}",
    "even modulus": key_set({**RSA, "n": _b64(b"\xf1" * 255 + b"\xf0")}),
    "even exponent": key_set({**RSA, "e": "Ag"}),
    "exponent of one": key_set({**RSA, "e": "AQ"}),
    "wide exponent": key_set({**RSA, "e": _b64(b"\x01" + b"\0" * 7 + b"\x01")}),
}
SECRET = {
    "rsa": key_set(SECRET_RSA),
    "only d": key_set({**RSA, "d": "c2VjcmV0LXBhcnQ"}),
    "ec": key_set(RSA, SECRET_EC),
    "ed25519": key_set(SECRET_ED),
    "oct": key_set(RSA, OCT),
    "outside of keys": json.dumps({"keys": [RSA], "old": [{"inner": SECRET_EC}]}).encode(),
    "one key alone": json.dumps(SECRET_RSA).encode(),
    "of an unknown type": key_set({"kty": "foo", "d": "c2VjcmV0LXBhcnQ"}),
    "pem": b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0LXBhcnQ\n-----END PRIVATE KEY-----\n",
}


@pytest.mark.parametrize("name", GOOD)
def test_a_key_set_that_envoy_verifies_with(name: str) -> None:
    assert jwks.wrong(GOOD[name]) is None


@pytest.mark.parametrize("name", BAD)
def test_a_key_set_that_is_none(name: str) -> None:
    problem = jwks.wrong(BAD[name])
    assert problem is not None
    assert problem.code == "ADM218"


@pytest.mark.parametrize("name", SECRET)
def test_a_secret_is_refused_and_not_shown(name: str) -> None:
    text = APP + 'policy p = jwt(issuer: "x", jwks: "set.json") on a -> b\n'
    (found,) = findings(text, {"set.json": SECRET[name]})
    assert found.code == "ADM219"
    said = f"{found.message} {found.cause} {found.hint}"
    assert not [part for part in said.split() if len(part) > 6 and part.strip("`,.:") in SECRET[name].decode()]
    assert "c2VjcmV0" not in said


def test_a_program_without_tokens_loads_no_crypto() -> None:
    code = (
        "import sys, dsl\n"
        f"dsl.load_text({APP + 'policy p = deny() on a -> b'!r})\n"
        "loaded = {'jwt', 'cryptography', 'lupa', 're2'} & set(sys.modules)\n"
        "sys.exit(f'{loaded}' if loaded else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


LUA = {
    "": "is empty",
    " \n": "is empty",
    "function f(": "line 1",
    "x = 1\ny = 1 // 2": "line 2",
    "goto nowhere": "nowhere",
    "x = 1 & 2": "line 1",
    "x = '`'": None,
    "`": "line 1",
    "x = 1\0 y =": "NUL",
    "\x1bLJ\x02": "mode",
    "x = " + "(" * 300 + "1" + ")" * 300: "levels",
    "local a\n" * 300: "local variables",
    "while true do end": None,
    "x = 1;; y = 2": None,
    "while true do break x = 1 end": None,
    "x = 1LL": None,
    "goto = 1": "<name>",
    "local "
    + ", ".join(f"v{n}" for n in range(90))
    + "\nreturn function() return "
    + " + ".join(f"v{n}" for n in range(90))
    + " end": "upvalues",
    "error('never run')": None,
    "os.exit(1)": None,
    "function envoy_on_request(handle) handle:headers():add('x', '1') end": None,
    "goto done\n::done::": None,
    "-- " + "x" * contents.MAX_LUA: "bytes",
    "x = '" + "y" * 500_000 + "'": None,
}


@pytest.mark.parametrize("script", LUA, ids=range(len(LUA)))
def test_a_script_is_read_by_luajit_and_never_run(script: str) -> None:
    problem = contents.lua(script.encode())
    expected = LUA[script]
    assert (problem is None) == (expected is None)
    if problem is not None and expected is not None:
        assert problem.code == "ADM220"
        assert expected in problem.message
        assert "`" not in problem.message


MODULES = {
    "good": (module(), True),
    "nothing": (b"", False),
    "text": (b"(module)", False),
    "a component": (b"\0asm\x0d\0\x01\0", False),
    "no interface": (b"\0asm\x01\0\0\0", False),
    "garbage": (b"\0asm\x01\0\0\0" + b"\xff" * 50, False),
    "endless number": (b"\0asm\x01\0\0\0\x07" + b"\x80" * 50, False),
    "many exports": (b"\0asm\x01\0\0\0\x07\x05\xff\xff\xff\xff\x0f", False),
    **{f"cut at {size}": (module()[:size], False) for size in range(9, len(module()) - 1, 23)},
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_whole_and_has_the_interface(name: str) -> None:
    content, good = MODULES[name]
    problem = contents.wasm(content)
    assert (problem is None) is good
    assert problem is None or problem.code == "ADM221"


def test_the_library_reads_what_is_accepted() -> None:
    for content in GOOD.values():
        assert len(jwt.PyJWKSet.from_dict(json.loads(content)).keys) == len(json.loads(content)["keys"])


@pytest.mark.parametrize(
    ("script", "taken"),
    [
        ("function envoy_on_request(handle) end", True),
        ("envoy_on_response = function(handle) end", True),
        ("function envoy_on_requst(handle) end", False),
        ("-- nothing yet\n", False),
    ],
)
def test_a_script_of_a_policy_has_a_function_that_envoy_calls(script: str, taken: bool) -> None:
    """Envoy silently loads a script without these functions, which has no effect."""
    _, check = contents.FORMATS["lua"]
    problem = check(script.encode())
    assert (problem is None) is taken
    if problem is not None:
        assert "neither `envoy_on_request` nor `envoy_on_response`" in problem.message
