"""What Envoy cannot express is said with a code, a place and a way out."""

from __future__ import annotations

import subprocess
import sys

import pytest

from emitters.addresses import Addresses, ServiceAddresses, loopback
from emitters.codes.envoy import CODES
from emitters.envoy import Mode, check, emit
from emitters.errors import EmitError
from emitters.ports import OWN_PORTS
from tests.emitters.envoy.support import bootstraps, load

BASE = """
external internet
service a, c { http 8000 }
service b { http 8001 }
service two {
  http web 8001
  http api 8002
}
service store { tcp 9000 }
call internet -> a
call a -> b, c, store
call a -> two:web, two:api
"""
MATCHES = "\n".join(f'policy t{n} = mirror(to: c) on a -> b when header("x-{n}") == "1"' for n in range(9))
DISJOINT = "\n".join(f'policy t{n} = timeout(after: {n + 1}s) on a -> b when path == "/{n}"' for n in range(90))
KIND = """
@egress
kind mine(value: string, names: [string] = []) for http template "mine.yaml"
policy m = mine(value: "1") on a -> b
"""
TCP_KIND = """
@egress
kind mine(value: string) for tcp template "mine.yaml"
policy m = mine(value: "1") on a -> store
"""
BUFFER = b'"@type": type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer\n'
CASES = {
    "too many matches": ("ADM701", MATCHES, {}),
    "strangers": (
        "ADM703",
        "external partner\ncall partner -> a\n@ingress\npolicy d = deny() on partner -> a",
        {},
    ),
    "admitted strangers": (
        "ADM703",
        "external partner\ncall partner -> a\n@ingress\npolicy d = allow(callers: [internet]) on * -> a",
        {},
    ),
    "strangers on connections": (
        "ADM703",
        "external partner\ncall partner, internet -> store\n@ingress\npolicy d = deny() on partner -> store",
        {},
    ),
    "counted strangers": (
        "ADM703",
        "external partner\ncall partner, internet -> store\n"
        "@ingress\npolicy q = connection_rate_limit(connections: 9, per: 1s) on partner -> store",
        {},
    ),
    "admitted strangers on connections": (
        "ADM703",
        "external partner\ncall partner, internet -> store\n"
        "@ingress\npolicy g = allow(callers: [partner]) on * -> store",
        {},
    ),
    "a judge without a port": (
        "ADM704",
        "service judge { tcp 1 }\n@egress\npolicy e = external_authorization(service: judge) on a -> b",
        {},
    ),
    "no type": ("ADM706", KIND, {"mine.yaml": b"name: ${value}"}),
    "an unknown type": ("ADM706", KIND, {"mine.yaml": b'"@type": type.googleapis.com/envoy.nothing.v3.Nothing'}),
    "an outside type": ("ADM706", KIND, {"mine.yaml": b'"@type": type.googleapis.com/os.path.Nothing'}),
    "an unknown field": (
        "ADM706",
        KIND,
        {"mine.yaml": BUFFER + b"nothing: 1"},
    ),
    "a wrong value": (
        "ADM706",
        KIND,
        {"mine.yaml": BUFFER + b"max_request_bytes: []"},
    ),
    "not a filter": ("ADM706", KIND, {"mine.yaml": b'"@type": type.googleapis.com/envoy.config.route.v3.Route'}),
    "a setting of routes": ("ADM706", KIND, {"mine.yaml": BUFFER.replace(b"Buffer\n", b"BufferPerRoute\n")}),
    "not yaml": ("ADM706", KIND, {"mine.yaml": b'"@type": [1\n- {'}),
    "an alias": ("ADM706", KIND, {"mine.yaml": b'"@type": &a x\nb: *a'}),
    "an object": ("ADM706", KIND, {"mine.yaml": b'"@type": !!python/object/apply:os.system ["true"]'}),
    "too deep": ("ADM706", KIND, {"mine.yaml": b'"@type": x\na: ' + b"[" * 2000 + b"]" * 2000}),
    "a list in text": ("ADM706", KIND, {"mine.yaml": b'"@type": "x${names}"'}),
    "a value as a program": (
        "ADM706",
        KIND,
        {
            "mine.yaml": b"""\
"@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
defaultSourceCode: {inlineString: 'x = "${value}"'}
"""
        },
    ),
    "a server that is not there": (
        "ADM706",
        TCP_KIND,
        {
            "mine.yaml": b"""\
"@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
stat_prefix: x
rds: {route_config_name: y, config_source: {ads: {}}}
"""
        },
    ),
    "one bucket, two ports": ("ADM708", "policy q = rate_limit(requests: 1, per: 1s) on a -> two", {}),
    "one breaker, two ports": ("ADM708", "policy q = circuit_breaking(max_requests: 1) on * -> two", {}),
    **{
        f"the ADM's own port {port}": (
            "ADM725",
            f"service d {{ http 80 -> {port} }}\ncall a -> d\n@ingress\npolicy g = deny() on * -> d",
            {},
        )
        for port in OWN_PORTS
    },
    "the ADM's own port behind a port without a policy": (
        "ADM725",
        """service d {
  http web 80
  tcp 15001
}
call a -> d:web
@ingress
policy g = deny() on * -> d:web""",
        {},
    ),
    "the ADM's own port at a sender": (
        "ADM725",
        "service d { http 15006 }\ncall d -> b\n@egress\npolicy t = timeout(after: 1s) on d -> b",
        {},
    ),
    "a hash of nothing": ("ADM709", "policy l = load_balancing(policy: maglev) on a -> b", {}),
    "a hash on tcp": ("ADM709", 'policy l = load_balancing(policy: maglev, hash: "x") on a -> store', {}),
    "a tap somewhere": ("ADM713", 'policy t = tap(directory: "here") on a -> b', {}),
    "gave up only": (
        "ADM720",
        "policy r = retry(attempts: 2, on: [deadline_exceeded]) on a -> b\npolicy t = timeout(after: 1s) on a -> b",
        {},
    ),
    "a parted count": (
        "ADM721",
        "policy o = outlier_detection() on a -> b\n"
        'policy l = load_balancing(policy: random) on a -> b when path == "/"',
        {},
    ),
    "a body that was held up": (
        "ADM723",
        "policy d = fault_delay(delay: 1s) on a -> b\npolicy l = buffer_limit(max: 1KB) on a -> b",
        {},
    ),
    "a body that was held up under another path": (
        "ADM723",
        'policy d = fault_delay(delay: 1s) on a -> b when path == "/a"\n'
        'policy w = rewrite_path(prefix: "/a", to: "/b") on a -> b\n'
        'policy l = buffer_limit(max: 1KB) on a -> b when path == "/b"',
        {},
    ),
    "two algorithms at one place": (
        "ADM727",
        '@egress\npolicy c = compression() on a -> b when path == "/a"\n'
        '@egress\npolicy d = compression(algorithm: brotli) on a -> b when path == "/b"',
        {},
    ),
    "a judge's other port": (
        "ADM704",
        """service judge {
  tcp db 1
  http web 2
}
@egress
policy e = external_authorization(service: judge:db) on a -> b""",
        {},
    ),
    "an anchor inside": ("ADM722", 'policy d = deny() on a -> b when not header("x") matches "(^a|b)"', {}),
    "too fast": ("ADM714", "policy q = rate_limit(requests: 1000000000, per: 1us) on a -> b", {}),
    "twice what is kept once": (
        "ADM714",
        'policy h = add_request_header(name: "x-forwarded-proto", value: "https") on a -> b',
        {},
    ),
    "nothing where nothing is kept": (
        "ADM714",
        'policy h = set_request_header(name: "x-forwarded-proto", value: "") on a -> b',
        {},
    ),
    "a long and fine time": ("ADM714", "policy q = rate_limit(requests: 1, per: 31535999999999us) on a -> b", {}),
    "a letter that no byte is": ("ADM731", 'policy d = request_count() on a -> b when method matches "\\\\x{100}"', {}),
    "a long value": ("ADM714", f'policy q = set_request_header(name: "x", value: "{"a" * 16_385}") on a -> b', {}),
    "a value that doubles": (
        "ADM714",
        f'policy q = set_response_header(name: "x", value: "{"%" * 8_193}") on a -> b',
        {},
    ),
    "a file by a control character": ("ADM714", 'policy q = tap(directory: "/x\\u0000/y") on a -> b', {}),
}


@pytest.mark.parametrize(("code", "text", "files"), CASES.values(), ids=CASES)
def test_refused(code: str, text: str, files: dict[str, bytes]) -> None:
    program, placement = load(BASE + text, files)
    with pytest.raises(EmitError) as caught:
        emit(program, placement, loopback(program), Mode.EXPLICIT)
    assert {found.code for found in caught.value.diagnostics} == {code}
    for found in caught.value.diagnostics:
        assert found.code in CODES
        assert found.span is not None
        assert found.cause
        assert found.hint
        assert not found.message.endswith(".")


@pytest.mark.parametrize(
    "text",
    [
        "policy r = retry(attempts: 2, on: [deadline_exceeded, reset]) on a -> b\n"
        "policy t = timeout(after: 1s) on a -> b",
        "policy t = timeout(after: 1s) on a -> b\npolicy r = retry(attempts: 2, on: [deadline_exceeded]) on a -> b",
        'policy o = outlier_detection() on a -> b when path == "/"\n'
        'policy l = load_balancing(policy: random) on a -> b when path == "/"',
        'policy o = outlier_detection() on a -> b when path == "/"\n'
        "policy l = load_balancing(policy: random) on a -> b",
        'policy o = outlier_detection() on a -> b when path == "/"\n'
        'policy l = load_balancing(policy: random) on a -> b when path == "/2"',
        # The ADM's own ports: dialled and translated, at others, and without an ADM.
        "service d { http 15006 -> 80 }\ncall a -> d\n@ingress\npolicy g = deny() on * -> d",
        "service d { http 15001 }\ncall a -> d\n@egress\npolicy t = timeout(after: 1s) on a -> d",
        "service d { http 15000  no adm }\ncall a -> d\n@egress\npolicy t = timeout(after: 1s) on a -> d",
    ],
)
def test_not_refused(text: str) -> None:
    program, placement = load(BASE + text)
    assert emit(program, placement, loopback(program), Mode.EXPLICIT)


@pytest.mark.parametrize(("code", "text", "files"), CASES.values(), ids=CASES)
def test_refused_without_a_look_at_addresses(code: str, text: str, files: dict[str, bytes]) -> None:
    program, placement = load(BASE + text, files)
    with pytest.raises(EmitError) as caught:
        emit(program, placement, loopback(program), Mode.EXPLICIT)
    assert check(program, placement) == caught.value.diagnostics


@pytest.mark.parametrize(
    "limit", ["rate_limit(requests: 2, per: 1s) on * -> b", "rate_limit(requests: 2, per: 1s) on a -> b"]
)
def test_replicas_that_are_only_declared(limit: str) -> None:
    program, placement = load(
        f"service a {{ http 80  replicas 3 }}\nservice b {{ http 80  replicas 3 }}\ncall a -> b\npolicy q = {limit}"
    )
    assert [found.code for found in check(program, placement)] == ["ADM719"]
    program, placement = load(BASE + "policy q = rate_limit(requests: 2, per: 1s) on * -> b")
    assert check(program, placement) == ()


def test_the_look_needs_no_protobuf() -> None:
    """It is taken on every compile, and protobuf takes as long to import as all the rest."""
    script = (
        "import sys, dsl, solver.place, emitters.envoy as envoy\n"
        f"program = dsl.load_text({'app test' + BASE + DISJOINT!r})\n"
        "assert envoy.check(program, solver.place.place(program)) == ()\n"
        "print([name for name in sys.modules if name.startswith(('google.protobuf', 'envoy.', 'yaml'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_matches_that_exclude_one_another_do_not_multiply() -> None:
    program, placement = load(BASE + DISJOINT)
    (found,) = emit(program, placement, loopback(program), Mode.EXPLICIT)
    (table,) = found.routes.values()
    assert len(table.virtual_hosts[0].matcher.matcher_list.matchers) == 90  # type: ignore[attr-defined]


def test_explicit_listeners_need_an_address() -> None:
    program, placement = load(BASE + "policy t = timeout(after: 1s) on a -> b")
    with pytest.raises(EmitError, match="ADM711"):
        emit(program, placement, Addresses({"b": ServiceAddresses(("10.0.0.1",), ())}), Mode.EXPLICIT)


def test_two_ports_that_lead_to_one() -> None:
    program, placement = load(
        """
external internet
service a {
  http web 80 -> 8080
  http api 81 -> 8080
}
call internet -> a:web, a:api
policy x = set_response_header(name: "x-a", value: "1") on * -> a:web
"""
        'policy y = set_response_header(name: "x-b", value: "1") on * -> a:api\n'
    )
    emit(program, placement, loopback(program), Mode.EXPLICIT)
    with pytest.raises(EmitError, match="ADM716"):
        emit(program, placement, Addresses({"a": ServiceAddresses(("10.0.0.1",), ("10.1.0.1",))}), Mode.REDIRECT)


def test_references_of_a_template_are_its_own() -> None:
    prefix = '"@type": type.googleapis.com/'
    filled = f"""\
{prefix}envoy.extensions.common.matching.v3.ExtensionWithMatcher
extension_config: {{name: c, typed_config: {{{prefix}envoy.extensions.filters.http.composite.v3.Composite}}}}
xds_matcher:
  on_no_match:
    action:
      name: x
      typed_config:
        {prefix}envoy.extensions.filters.http.composite.v3.ExecuteFilterAction
        dynamic_config:
          name: z
          config_discovery: {{config_source: {{path_config_source: {{path: /z.yaml}}}}, type_urls: [t]}}
"""
    found = bootstraps(*load(BASE + KIND, {"mine.yaml": filled.encode()}))["a"]
    assert b"/z.yaml" in found


@pytest.mark.parametrize("text", [b"password: 'hunter2", b"password: [hunter2\nb: }", b"hunter2\tx: [\n"])
def test_what_is_no_template_is_not_quoted(text: bytes) -> None:
    """It may be any file that ends in `.yaml`."""
    (finding,) = check(*load(BASE + KIND, {"mine.yaml": text}))
    assert finding.code == "ADM706"
    assert "hunter2" not in str((finding.message, finding.cause, finding.hint))
