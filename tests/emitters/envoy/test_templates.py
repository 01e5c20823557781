"""A template that breaks a rule of Envoy is refused; without the check it is Envoy that refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from emitters.envoy import bounds, check
from tests.emitters.envoy.support import ENVOY, bootstraps, load, validate
from tests.fidelity.tokens import keys

if TYPE_CHECKING:
    from pathlib import Path

APP: Final = """service a, b {{ http 8000 }}
call a -> b
@egress
kind mine(x: string) for http template "mine.yaml"
policy m = mine(x: "{x}") on a -> b
"""
HTTP: Final = "envoy.extensions.filters.http."
LUA: Final = f"{HTTP}lua.v3.Lua"
JWT: Final = f"{HTTP}jwt_authn.v3.JwtAuthentication"
RBAC: Final = f"{HTTP}rbac.v3.RBAC"
MUTATION: Final = f"{HTTP}header_mutation.v3.HeaderMutation"
PERMISSION: Final = "rules: {policies: {p: {permissions: [{any: true}], principals: [%s]}}}"
APPEND: Final = "mutations: {request_mutations: [{append: {header: {key: %s, value: '%s'}}}]}"
SCRIPT: Final = "defaultSourceCode: {inlineString: '%s'}"
BROKEN: Final = {
    "gt": (f"{HTTP}buffer.v3.Buffer", "max_request_bytes: 0", "max_request_bytes"),
    "required": (f"{HTTP}buffer.v3.Buffer", "{}", "max_request_bytes"),
    "oneof": (RBAC, PERMISSION % "{}", "identifier"),
    "min_items": (RBAC, "rules: {policies: {p: {permissions: [{any: true}]}}}", "principals"),
    "header": (RBAC, PERMISSION % "{header: {name: '', present_match: true}}", "name"),
    "header name": (MUTATION, APPEND % ("'a\n\n      b'", "x"), "key"),
    "pseudo header": (MUTATION, APPEND % ("':path'", "x"), "key"),
    "host": (MUTATION, APPEND % ("Host", "x"), "key"),
    "header value": (MUTATION, APPEND % ("x", "a\n\n      b"), "value"),
    "max_bytes": (MUTATION, APPEND % ("x", "a" * 16_385), "value"),
    "duration": (f"{HTTP}fault.v3.HTTPFault", "delay: {fixed_delay: 0s, percentage: {numerator: 1}}", "fixed_delay"),
    "enum": (f"{HTTP}fault.v3.HTTPFault", "abort: {http_status: 500, percentage: {denominator: 9}}", "denominator"),
    "range": (f"{HTTP}fault.v3.HTTPFault", "abort: {http_status: 601, percentage: {}}", "http_status"),
    "in a list": (f"{HTTP}csrf.v3.CsrfPolicy", "filter_enabled: {}", "default_value"),
    "prefix": (f"{HTTP}local_ratelimit.v3.LocalRateLimit", "stat_prefix: ''", "stat_prefix"),
    "expression": (RBAC, PERMISSION % "{url_path: {path: {safe_regex: {regex: '(a'}}}}", "regex"),
    "fill": (
        f"{HTTP}local_ratelimit.v3.LocalRateLimit",
        "stat_prefix: x\ntoken_bucket: {max_tokens: 1, fill_interval: 0.049s}",
        "fill_interval",
    ),
    "script": (LUA, SCRIPT % "function f(", "default_source_code"),
    "old script": (LUA, "inline_code: 'x ='", "inline_code"),
    "scripts": (LUA, "source_codes: {s: {inline_string: 'x ='}}", "source_codes.s"),
    "no keys": (JWT, "providers: {p: {issuer: x, local_jwks: {inline_string: '{}'}}}", "local_jwks"),
    "packed": (
        f"{HTTP}compressor.v3.Compressor",
        'compressor_library: {name: z, typed_config: {"@type": type.googleapis.com/'
        "envoy.extensions.compression.gzip.compressor.v3.Gzip, chunk_size: 1}}",
        "chunk_size",
    ),
}


def _template(type_name: str, fields: str) -> bytes:
    body = "" if fields == "{}" else fields
    return f'"@type": type.googleapis.com/{type_name}\n{body}\n'.encode()


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
def test_a_template_that_breaks_a_rule(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    type_name, fields, field = BROKEN[name]
    program, placement = load(APP.format(x=""), {"mine.yaml": _template(type_name, fields)})
    (found,) = check(program, placement)
    assert found.code == "ADM706"
    assert field in found.message
    monkeypatch.setattr(bounds, "check", lambda _item: None)
    path = tmp_path / "a.yaml"
    path.write_bytes(bootstraps(program, placement)["a"])
    assert validate(path)


SOUND: Final = {
    "buffer": (f"{HTTP}buffer.v3.Buffer", "max_request_bytes: 1"),
    "principal": (RBAC, PERMISSION % "{url_path: {path: {safe_regex: {regex: '(a)'}}}}"),
    "an empty header value": (MUTATION, APPEND % ("x", "")),
    "16,384 bytes": (MUTATION, APPEND % ("x", "a" * 16_384)),
    "fault": (f"{HTTP}fault.v3.HTTPFault", "delay: {fixed_delay: 0.000000001s, percentage: {numerator: 1}}"),
    "script": (LUA, SCRIPT % "function f() end"),
    "keys": (
        JWT,
        "providers: {p: {issuer: x, local_jwks: {inline_string: '" + keys().decode() + "'}}}",
    ),
    "without host": (MUTATION, "mutations: {request_mutations: [{remove: host}]}"),
    "nothing": (f"{HTTP}cors.v3.Cors", "{}"),
}


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
def test_a_template_that_breaks_none(name: str, tmp_path: Path) -> None:
    program, placement = load(APP.format(x=""), {"mine.yaml": _template(*SOUND[name])})
    assert not check(program, placement)
    path = tmp_path / "a.yaml"
    path.write_bytes(bootstraps(program, placement)["a"])
    assert not validate(path)
