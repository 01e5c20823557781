"""A template that breaks a rule of Envoy is refused; without the check it is Envoy that refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from emitters.addresses import loopback
from emitters.envoy import check
from emitters.envoy.kinds.shared.template import TemplateKind
from emitters.envoy.messages import constraints
from tests.emitters.envoy.support import ENVOY, bootstraps, load, validate
from tests.fidelity.tokens import keys

if TYPE_CHECKING:
    from collections.abc import Mapping
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
    "fill of a descriptor": (
        f"{HTTP}local_ratelimit.v3.LocalRateLimit",
        "stat_prefix: x\ntoken_bucket: {max_tokens: 1, fill_interval: 1s}\n"
        "descriptors: [{entries: [{key: a, value: b}], token_bucket: {max_tokens: 1, fill_interval: 0.049s}}]",
        "descriptors[0].token_bucket.fill_interval",
    ),
    "address": (RBAC, PERMISSION % "{remote_ip: {address_prefix: here, prefix_len: 1}}", "address_prefix"),
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
    monkeypatch.setattr(constraints, "check", lambda _item: None)
    path = tmp_path / "a.yaml"
    path.write_bytes(bootstraps(program, placement)["a"])
    assert validate(path)


SOUND: Final = {
    "buffer": (f"{HTTP}buffer.v3.Buffer", "max_request_bytes: 1"),
    "principal": (RBAC, PERMISSION % "{url_path: {path: {safe_regex: {regex: '(a)'}}}}"),
    "an empty header value": (MUTATION, APPEND % ("x", "")),
    "16,384 bytes": (MUTATION, APPEND % ("x", "a" * 16_384)),
    "network": (RBAC, PERMISSION % "{remote_ip: {address_prefix: 10.0.0.1, prefix_len: 8}}"),
    "networks of IPv6": (RBAC, PERMISSION % "{remote_ip: {address_prefix: '::', prefix_len: 128}}"),
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


@pytest.mark.parametrize(
    ("protocol", "type_name", "fields"),
    [("http", *SOUND["buffer"]), ("tcp", "envoy.extensions.filters.network.rbac.v3.RBAC", "stat_prefix: x")],
)
def test_a_parameter_may_have_any_name(protocol: str, type_name: str, fields: str) -> None:
    """Also that of an attribute of the class that configures such kinds, whose value it would replace."""

    def emitted(parameters: str) -> Mapping[str, bytes]:
        text = f"""service a, b {{ {protocol} 8000 }}
call a -> b
@ingress
kind mine({parameters}) for {protocol} template "mine.yaml"
policy m = mine() on a -> b
"""
        program, placement = load(text, {"mine.yaml": _template(type_name, fields)})
        assert not check(program, placement)
        return bootstraps(program, placement, addresses=loopback(program))

    names = dir(TemplateKind)
    assert {"check", "replies_with_any_status"} < set(names)
    assert emitted(", ".join(f"{name}: bool = false" for name in names)) == emitted("")


def test_a_network_that_envoy_would_read_as_another() -> None:
    """It takes `/33` of IPv4 for `/32`."""
    fields = PERMISSION % "{remote_ip: {address_prefix: 10.0.0.0, prefix_len: 33}}"
    (found,) = check(*load(APP.format(x=""), {"mine.yaml": _template(RBAC, fields)}))
    assert "prefix_len` has to be at most 32" in found.message


ROUTER: Final = "envoy.extensions.filters.http.router.v3.Router"
NESTED: Final = f'extension_config: {{name: x, typed_config: {{"@type": type.googleapis.com/{ROUTER}}}}}'
STRUCT: Final = f"type_url: type.googleapis.com/{ROUTER}"


@pytest.mark.parametrize(
    ("protocol", "type_name", "fields", "said"),
    [
        ("http", "envoy.extensions.filters.network.rbac.v3.RBAC", "stat_prefix: x", "is no filter for `http`"),
        ("grpc", "envoy.extensions.filters.network.rbac.v3.RBAC", "stat_prefix: x", "is no filter for `grpc`"),
        ("tcp", f"{HTTP}cors.v3.Cors", "{}", "is no filter for `tcp`"),
        ("http", "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector", "{}", "is not a filter"),
        ("tcp", "envoy.extensions.filters.network.echo.v3.Echo", "{}", "is the last filter"),
        ("http", ROUTER, "{}", "is the last filter"),
        ("http", "envoy.extensions.common.matching.v3.ExtensionWithMatcher", NESTED, "is the last filter"),
        ("http", "xds.type.v3.TypedStruct", STRUCT, "is the last filter"),
    ],
)
def test_a_filter_that_cannot_stand_there(protocol: str, type_name: str, fields: str, said: str) -> None:
    """Envoy takes a router in the midst of filters, and a request that it passes on goes by those that follow."""
    text = f"""service a, b {{ {protocol} 8000 }}
call a -> b
@ingress
kind mine() for {protocol} template "mine.yaml"
policy m = mine() on * -> b
@ingress
policy d = deny() on * -> b
"""
    program, placement = load(text, {"mine.yaml": _template(type_name, fields)})
    (found,) = check(program, placement)
    assert found.code == "ADM706"
    assert said in found.message
