"""Resolution of programs: scopes, arguments, effects, pins."""

from __future__ import annotations

import pytest

from dsl import units
from dsl.program import Effect, Element, FileArgument, Metric, Pin, Place, Policy, Program, Protocol, Side, Stage, Verb
from tests.dsl.programs import FILES, codes, findings, load

APP = """app shop
external internet
external stripe { tcp 443 }
service web { http 8080  labels { tier = "front", team = "a" } }
service api { http 8080  grpc admin 9000  labels { tier = "front", team = "b" } }
service mongo_a, mongo_b { tcp 27017 }
service batch
call internet -> web
call web -> api:8080
call batch -> api:admin
call api -> mongo_a, mongo_b
call web -> stripe
"""


def policy(rule: str, more: str = "") -> Policy:
    return load(f"{APP}{more}{rule}\n").policies[-1]


def calls(program: Program, found: Policy) -> list[str]:
    every = program.calls
    return [f"{every[i].source}>{every[i].destination}:{every[i].port.number}" for i in found.calls]


@pytest.mark.parametrize(
    ("scope", "destinations", "expected", "open_sources", "ports"),
    [
        ("web -> api", "api", "web>api:8080", False, None),
        ("* -> api", "api", "batch>api:9000 web>api:8080", True, None),
        ("* -> api:admin", "api", "batch>api:9000", True, {9000}),
        ("* -> api:9000", "api", "batch>api:9000", True, {9000}),
        ("* -> *:admin", "api", "batch>api:9000", True, {9000}),
        ("* -> {web, api}:8080", "api web", "web>api:8080 internet>web:8080", True, {8080}),
        ("{*} -> mongo_*", "mongo_a mongo_b", "api>mongo_a:27017 api>mongo_b:27017", True, None),
        ("** -> *_b", "mongo_b", "api>mongo_b:27017", True, None),
        ("* except web -> api", "api", "batch>api:9000", True, None),
        ("a*, b* -> *o_a, m*b", "mongo_a mongo_b", "api>mongo_a:27017 api>mongo_b:27017", False, None),
        ('[tier = "front"] -> [tier = "front", team = "b"]', "api", "web>api:8080", False, None),
        ("web -> * except {api, mongo_*}", "stripe web", "web>stripe:443", False, None),
        (
            "* -> * except stripe",
            "api mongo_a mongo_b web",
            "batch>api:9000 web>api:8080 api>mongo_a:27017 api>mongo_b:27017 internet>web:8080",
            True,
            None,
        ),
    ],
)
def test_scopes(scope: str, destinations: str, expected: str, open_sources: bool, ports: set[int] | None) -> None:
    program = load(f"{APP}policy p = access_log() on {scope}\n")
    found = program.policies[0]
    assert " ".join(found.destinations) == destinations
    assert " ".join(calls(program, found)) == expected
    assert found.open_sources is open_sources
    assert found.ports == (None if ports is None else frozenset(ports))


def test_policies_with_the_same_selection_share_it() -> None:
    program = load(APP + "policy a = access_log() on * -> api\npolicy b = access_log() on  *  -> {web}\n")
    one, other = program.policies
    assert one.sources is other.sources
    assert one.sources == {*program.services, *program.externals}


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        ("rate_limit(400, 1s) on * -> web", {"requests": 400, "per": 1_000_000, "burst": 400}),
        ("rate_limit(per: 2m, requests: 5, burst: 7) on * -> web", {"requests": 5, "per": 120_000_000, "burst": 7}),
        ("access_log() on * -> web", {"format": "json"}),
        ('access_log(format: "text") on * -> web', {"format": "text"}),
        ("buffer_limit(4KiB) on * -> web", {"max": 4096}),
        (
            "circuit_breaking(max_pending: 7) on * -> web",
            {"max_connections": None, "max_pending": 7, "max_requests": None},
        ),
        ("fault_delay(1.5s, 0.5%) on * -> web", {"delay": 1_500_000, "percent": 0.5}),
        ('set_request_header("X-Tier", "a\\"\\u00e9") on * -> web', {"name": "x-tier", "value": 'a"é'}),
        ("allow([internet, batch]) on * -> web", {"callers": ("internet", "batch")}),
        (
            "external_authorization(service: api:admin) on * -> web",
            {"service": "api:9000", "timeout": 200_000, "fail_open": False},
        ),
        (
            'jwt(issuer: "x", jwks: "keys.json") on * -> web',
            {"issuer": "x", "jwks": FileArgument("keys.json", FILES["keys.json"]), "audiences": ()},
        ),
        ('load_balancing(ring_hash, hash: "X-User") on * -> web', {"policy": "ring_hash", "hash": "x-user"}),
    ],
)
def test_arguments(rule: str, values: dict[str, object]) -> None:
    found = policy(f"policy p = {rule}")
    assert dict(found.arguments) == values
    assert list(found.arguments) == [parameter.name for parameter in found.kind.parameters]


def test_a_file_argument_is_an_input() -> None:
    program = load(APP + 'policy p = jwt(issuer: "x", jwks: "keys.json") on * -> web\n')
    assert [item.path for item in program.inputs] == ["policies.adm", "keys.json"]


HEADER = Element.HEADER
TIER = frozenset(("x-tier",))


@pytest.mark.parametrize(
    ("rule", "effects"),
    [
        ("rate_limit(1, 1s) on * -> web", {Effect(Verb.COUNTS), Effect(Verb.REJECTS)}),
        ('set_request_header("X-Tier", "a") on * -> web', {Effect(Verb.WRITES, HEADER, TIER)}),
        ('remove_response_header("X-Tier") on * -> web', {Effect(Verb.WRITES, Element.RESPONSE_HEADER, TIER)}),
        ('load_balancing(maglev, hash: "x-tier") on * -> web', {Effect(Verb.READS, HEADER, TIER)}),
        ("load_balancing(random) on * -> web", set()),
        ('lua(script: "filter.lua") on * -> web', None),
        (
            'timeout(1s) on * -> web when not (header("X-Tier") == "a" or path == "/") and method != "GET"',
            {
                Effect(Verb.TIMES_OUT),
                Effect(Verb.READS, HEADER, TIER),
                Effect(Verb.READS, Element.PATH),
                Effect(Verb.READS, Element.METHOD),
            },
        ),
        ('lua(script: "filter.lua") on * -> web when path == "/"', None),
    ],
)
def test_effects(rule: str, effects: set[Effect] | None) -> None:
    found = policy(f"policy p = {rule}").effects
    assert found is None if effects is None else found is not None and set(found) == effects
    assert found is None or len(found) == len(set(found))


def test_a_kind_without_header_parameters_means_every_header() -> None:
    found = policy(
        "policy p = own() on * -> web", '@ingress @effect(reads(header))\nkind own() for http template "own.yaml"\n'
    )
    assert found.effects == (Effect(Verb.READS, HEADER, None),)
    none = policy("policy p = own() on * -> web", '@ingress @effect(none)\nkind own() for http template "own.yaml"\n')
    assert none.effects == ()


def test_kinds() -> None:
    program = load(
        'app x\n@both @egress @component(tls)\nkind sealed(to: service = api) for tcp, http template "own.yaml"\n'
        "service web, api { http 80 }\ncall web -> api\n@ingress @egress\npolicy p = sealed() on web -> api\n"
    )
    kind = program.kinds["sealed"]
    assert kind.both
    assert dict(kind.sides) == {Side.INGRESS: Stage.FILTER, Side.EGRESS: Stage.FILTER}
    assert kind.protocols == {Protocol.TCP, Protocol.HTTP}
    assert (kind.component, kind.effects, kind.prelude) == ("tls", None, False)
    assert program.kinds["retry"].prelude
    assert dict(program.policies[0].arguments) == {"to": "api"}


def test_narrowing() -> None:
    found = policy("@ingress\npolicy p = access_log() on * -> web")
    assert found.places == {Place.INGRESS}
    assert found.narrowing is not None
    assert found.narrowing.text == "@ingress"
    assert found.span.text == "policy p = access_log() on * -> web"


def test_pins() -> None:
    program = load(
        APP + "policy p = access_log() on api, web -> {api, mongo_a, mongo_b, stripe}\n"
        "pin p at egress on api -> mongo_*\npin p at ingress on web -> api:8080\npin p at egress on api -> mongo_a\n"
    )
    spans = [pin.span.line for pin in program.pins]
    assert [pin[:3] for pin in program.pins] == [
        ("p", "api", Place.INGRESS),
        ("p", "mongo_a", Place.EGRESS),
        ("p", "mongo_b", Place.EGRESS),
    ]
    assert spans == [15, 14, 14]
    whole = load(APP + "policy p = access_log() on * -> {api, web}\npin p at ingress\n")
    assert [pin.destination for pin in whole.pins] == ["api", "web"]
    assert isinstance(whole.pins[0], Pin)


def test_a_pin_reaches_a_guard_that_has_no_declared_calls() -> None:
    program = load(APP + "policy p = deny() on batch -> web\npin p at ingress on batch -> web\n")
    assert [pin.destination for pin in program.pins] == ["web"]


def test_objective() -> None:
    assert load("app x\n").objective == (Metric.ADMS, Metric.OVERHEAD)
    assert load("app x\nobjective minimize latency, then adms\n").objective == (Metric.LATENCY, Metric.ADMS)
    assert load("app x\nobjective minimize hops, then closed\n").objective == (Metric.HOPS, Metric.CLOSED)


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("/v[0-9]+/.*", True),
        ("/(?:a|b)(?P<x>c)?", True),
        ("[(?=]x", True),
        ("[]a](?i:b)", True),
        (r"/\\(?=a", True),
        (r"a\\.b\\d+", True),
        ("(?=a)", False),
        ("(?<!a)b", False),
        (r"(a)\\1", False),
        ("(?P<a>b)(?P=a)", False),
        ("a++", False),
        ("(?>a)", False),
        ("(a)(?(1)b)", False),
        ("a{1,1001}", False),
        # RE2 takes this for letters and digits.
        ("a{99999999999999999999}", True),
        ("a{1001}", False),
        ("(?u)x", False),
        (r"\\u0041", False),
        ("a**", False),
        ("a{80}", True),
        ("a{95}", False),
        (r"\\p{L}+", False),
        ("[a", False),
        (r"a\\Z", False),
        ("((((a", False),
        (r"\\Qa.b\\E/.*", True),
        (r"\\Qa\\E|\\Qb\\\\E", True),
        (r"\\\\Qa", True),
        (r"\\Qa", False),
        (r"\\Qa\\E\\Q", False),
        (r"\\\\\\Qa", False),
    ],
)
def test_regular_expressions(pattern: str, fits: bool) -> None:
    rule = f'policy p = access_log() on web -> api when header("x-any") matches "{pattern}"\n'
    assert codes(APP + rule) == ([] if fits else ["ADM407"])


@pytest.mark.parametrize(
    ("pattern", "found"), [("", ["ADM426"]), ("G.T", []), ("GÉT", ["ADM414"]), ("[^é]+", ["ADM414"])]
)
def test_regular_expressions_of_methods(pattern: str, found: list[str]) -> None:
    rule = f'policy p = access_log() on web -> api when method matches "{pattern}"\n'
    assert codes(APP + rule) == found


@pytest.mark.parametrize("operator", ["==", "!=", "starts_with"])
@pytest.mark.parametrize("value", ["a=1; b=2", "a=1,2"])
def test_cookies_are_compared_one_by_one(operator: str, value: str) -> None:
    head = APP + "policy p = access_log() on web -> api when "
    assert codes(f'{head}header("cookie") {operator} "{value}"\n') == ["ADM414"]
    assert codes(f'{head}header("x-cookie") {operator} "{value}"\n') == []
    assert codes(f'{head}header("cookie") {operator} "a=1"\n') == []


def test_exclusive_kinds_may_share_a_call_with_matches_that_exclude_each_other() -> None:
    head = APP + 'policy a = timeout(1s) on * -> web when path == "/a"\n'
    assert codes(head + 'policy b = timeout(2s) on * -> web when path starts_with "/b"\n') == []
    assert codes(head + 'policy b = timeout(2s) on * -> web when path starts_with "/"\n') == ["ADM402"]
    assert codes(head + "policy b = timeout(2s) on * -> api\n") == []
    assert codes(head + "policy b = retry(2) on * -> web\n") == []


@pytest.mark.parametrize(
    ("writes_for", "holds_for", "found"),
    [("back", "front", []), ("back", "*", ["ADM402"]), ("front", "*", ["ADM402"])],
)
def test_a_write_on_the_calls_of_one_caller_counts_there(writes_for: str, holds_for: str, found: list[str]) -> None:
    text = (
        "app shop\nservice front, back, last { http 80 }\ncall front, back -> last\n"
        'policy a = compression() on {front, back} -> last when path == "/a"\n'
        f'policy moves = rewrite_path("/a", "/b") on {writes_for} -> last\n'
        f'policy b = compression() on {holds_for} -> last when path == "/b"\n'
    )
    assert codes(text) == found


def test_a_guard_supports_the_protocol_of_destinations_without_a_declared_call() -> None:
    head = (
        "app x\nservice web { http 80 }\nservice db { tcp 5432 }\nservice both { tcp 1  http 2 }\ncall web -> both:2\n"
    )
    rule = 'policy p = jwt(issuer: "x", jwks: "keys.json") on * -> '
    assert codes(head + rule + "db\n") == ["ADM401"]
    assert codes(head + rule + "{both, web}\n") == []
    assert codes(head + 'policy p = deny() on * -> db when path == "/"\n') == ["ADM409"]
    assert codes(head + "policy p = deny() on * -> db\n") == ["ADM404"]


def test_deep_matches() -> None:
    rule = "policy p = access_log() on web -> api when "
    assert codes(APP + rule + "(" * 60 + 'path == "/"' + ")" * 60 + "\n") == []
    assert codes(APP + rule + "(" * 70 + 'path == "/"' + ")" * 70 + "\n") == ["ADM006"]
    assert codes(APP + rule + "not " * 5000 + 'path == "/"\n') == ["ADM006"]
    assert codes(APP + rule + " or ".join(['path == "/"'] * 1500) + "\n") == ["ADM414"]


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (units.duration, "1us", 1),
        (units.duration, "0.001ms", 1),
        (units.duration, "24h", 86_400_000_000),
        (units.duration, "365d", 365 * 86_400_000_000),
        (units.duration, "0.5us", "ADM203"),
        (units.duration, "0s", "ADM203"),
        (units.duration, "-1s", "ADM203"),
        (units.duration, "366d", "ADM203"),
        (units.duration, "1", "ADM202"),
        (units.duration, "1S", "ADM202"),
        (units.duration, "1/s", "ADM202"),
        (units.size, "0B", 0),
        (units.size, "1.5KiB", 1536),
        (units.size, "0.3B", "ADM203"),
        (units.size, "1kb", "ADM202"),
        (units.rate, "30/m", 0.5),
        (units.rate, "0.1/s", 0.1),
        (units.rate, "0/s", "ADM203"),
        (units.rate, "5", "ADM202"),
        (units.rate, "5B/s", "ADM202"),
        (units.percent, "100%", 100.0),
        (units.percent, "101%", "ADM203"),
        (units.percent, "0.5", "ADM202"),
        (units.percent, "9" * 40 + "%", "ADM203"),
    ],
)
def test_units(read, text: str, value: object) -> None:  # type: ignore[no-untyped-def]
    found = read(text)
    assert (found.code if isinstance(found, units.BadNumber) else found) == value


REPLICAS = """app shop
service a { http 80 }
service b { http 80 }
service c { http 80  replicas 3 }
call a -> b, c
"""


@pytest.mark.parametrize(
    ("arguments", "scope", "said"),
    [
        ("", "a -> b, c", ["`o` never ejects a replica of `b`"]),
        ("max_ejected: 99%", "* -> *", ["`o` never ejects a replica of `b`"]),
        ("max_ejected: 0%", "a -> *", ["`o` never ejects a replica of `b` (and 1 more)"]),
        ("max_ejected: 100%", "a -> b, c", []),
        ("max_ejected: 1%", "a -> c", []),
    ],
)
def test_a_share_of_replicas_that_ejects_none_is_warned_of(arguments: str, scope: str, said: list[str]) -> None:
    found = findings(REPLICAS + f"policy o = outlier_detection({arguments}) on {scope}\n")
    assert [item.message for item in found] == said
    assert {item.code for item in found} <= {"ADM418"}


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        ("* except * -> b", "`* except *` selects nothing"),
        ("a -> b, c except {b, c}", "`b, c except {b, c}` selects nothing"),
        ("a -> * except a", None),
    ],
)
def test_a_selection_that_its_own_exceptions_empty_is_warned_of(scope: str, said: str | None) -> None:
    found = findings(REPLICAS + f"policy log = access_log() on {scope}\n")
    assert [(item.code, item.message) for item in found] == ([] if said is None else [("ADM405", said)])


@pytest.mark.parametrize(("method", "warned"), [("get", True), ("Post", True), ("GET", False), ("purge", False)])
def test_a_usual_method_in_small_letters_is_warned_of(method: str, *, warned: bool) -> None:
    found = findings(REPLICAS + f'policy log = access_log() on a -> b when not method != "{method}"\n')
    assert [item.code for item in found] == (["ADM419"] if warned else [])
