"""What tests hold for which program, one rule a row, and what is left open."""

from __future__ import annotations

from functools import cache

import pytest

from admc.review.program_tests.kinds import HANDLERS
from admc.review.program_tests.resolve import resolve_tests
from admc.review.program_tests.verdict import Failed, Passed, Result, Subject, Undecided, judge, subject_of
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics
from dsl.kinds import prelude
from dsl.syntax.parser import parse
from dsl.text import SourceText
from solver.place import place
from tests.dsl.programs import FILES as MEMORY
from tests.dsl.programs import load

HEAD = """app shop
external internet
external office { cidr "10.9.0.0/16" }
external stripe { tcp 443  host "api.stripe.com" }
service web { http 8080  http admin 9090  replicas 3 }
service api, other, authz { http 8080 }
service geo { grpc 9000 }
service db { tcp 5432  no adm }
call internet -> web:8080
call web -> api, geo, db, authz
call api -> db
"""
KEYS = 'issuer: "https://id.example.com", jwks: "keys.json"'
FILES = {
    "keys.json": MEMORY["keys.json"],
    "mine.yaml": b"name: mine\nvalue: ${v}\n",
    "filter.lua": b"function envoy_on_request(handle) end\n",
}


@cache
def about(policies: str) -> Subject:
    program = load(HEAD + policies, FILES)
    return subject_of(program, place(program))


def result(policies: str, expectation: str) -> Result:
    given = about(policies)
    diagnostics = Diagnostics()
    (test,) = resolve_tests(
        parse(SourceText("a.test.adm", f"test it = {expectation}\n"), diagnostics), given.program, diagnostics
    )
    return judge(test, given)


READERS = "policy readers = allow(callers: [web]) on * -> api\n"
AT_INGRESS = f"@ingress\n{READERS}"
AT_EGRESS = f"@egress\n{READERS}"
QUOTA = "@egress\npolicy quota = rate_limit(requests: 5, per: 1s) on * -> api\n"
BETA = 'policy beta = deny() on web -> api when header("x-tier") == "beta"\n'
V2 = 'policy second = request_count() on web -> api when path matches "/v[0-9]+"\n'
LOG = "policy log = access_log() on web -> api\n"
BOTH_LOGS = f"@egress\n{LOG.replace('log =', 'left =')}@ingress\n{LOG}"
LOGIN = f"policy login = jwt({KEYS}) on web -> api\n"
ASK = "policy ask = external_authorization(service: authz) on web -> api\n"
HALF = "policy half = fault_abort(status: 503, percent: 50%) on web -> api\n"
MARKED = 'policy marked = set_request_header(name: "x-tier", value: "beta") on web -> api\n'
MORE = 'policy more = add_request_header(name: "x-tier", value: "beta") on web -> api\n'
BARE = 'policy bare = remove_request_header(name: "x-tier") on web -> api\n'
LUA = 'policy script = lua(script: "filter.lua") on web -> api\n'
OWN = (
    "@ingress @egress\n@effect(writes(header))\n"
    'kind mine(h: header, v: string) for http template "mine.yaml"\n'
    'policy own = mine(h: "x-own", v: "1") on web -> api\n'
)
CORS = 'policy pages = cors(origins: ["https://a.example"]) on web -> api\n'
PREFLIGHT = 'method "OPTIONS"  header("origin") "https://a.example"  header("access-control-request-method") "PUT"'
MOVED = 'policy moved = rewrite_path(prefix: "/old", to: "/new") on web -> api\n'
NEW = 'policy new = deny() on web -> api when path starts_with "/new"\n'
LATE = (
    "policy late = timeout(after: 100ms) on web -> api\n@ingress\npolicy slow = fault_delay(delay: 1s) on web -> api\n"
)
SPLIT = "policy some = split(to: other, percent: 100%) on web -> api\n"


@pytest.mark.parametrize(
    ("policies", "expectation", "holds"),
    [
        # Who refuses: the guard at each side, and the NetworkPolicy that it needs at egress.
        (AT_INGRESS, "other -> api is refused by readers", True),
        (AT_EGRESS, "other -> api is refused by readers", True),
        (AT_EGRESS, "other -> api meets readers", False),
        (AT_INGRESS, "other -> api meets readers", True),
        (AT_INGRESS, "web -> api is admitted", True),
        (AT_EGRESS, "web -> api is refused", False),
        (QUOTA, "other -> api is refused by quota", True),
        (QUOTA.replace("@egress", "@ingress"), "other -> api is admitted", True),
        (QUOTA.replace("@egress", "@ingress"), "other -> api meets quota", True),
        ("", "other -> api is admitted", True),
        # Named sources stand for declared calls, but for guards.
        ("@egress\npolicy c = request_count() on {web, other} -> api\n", "other -> api meets c", False),
        # At ingress, Envoy counts the requests of all sources (`test_envoy.py`).
        ("@ingress\npolicy c = request_count() on {web, other} -> api\n", "other -> api meets c", None),
        ("policy c = request_count() on {web, other} -> api\n", "web -> api meets c", True),
        ("policy no = deny() on {web, other} -> api\n", "other -> api is refused by no", True),
        ("policy c = request_count() on * except other -> api\n", "other -> api meets c", False),
        # Externals.
        ("policy in = allow(callers: [internet]) on * -> web\n", "internet -> web:8080 is admitted", True),
        ("policy in = allow(callers: [internet]) on * -> web\n", "api -> web:8080 is refused by in", True),
        ("policy in = allow(callers: [office]) on * -> web\n", "internet -> web:8080 is refused", True),
        ("policy in = allow(callers: [internet]) on * -> web\n", "office -> web:8080 is refused", True),
        ("policy in = allow(callers: [internet]) on * -> web\n", "stripe -> web:8080 is refused", None),
        ("@egress\npolicy in = deny() on api -> stripe\n", "other -> stripe is admitted", True),
        # Ports.
        ("policy ops = deny() on * -> web:admin\n", "api -> web:admin is refused by ops", True),
        ("policy ops = deny() on * -> web:admin\n", "internet -> web:8080 is admitted", True),
        # tcp and gRPC.
        ("policy few = connection_rate_limit(5, per: 1s) on api -> db\n", "api -> db meets only few", True),
        ('policy one = request_count() on web -> geo when path == "/geo.Geo/Near"\n',
         'web -> geo { path "/geo.Geo/Near" } meets one', True),
        ('policy post = request_count() on web -> geo when method == "POST"\n', "web -> geo meets post", True),
        # Order: a policy inside the guard that refuses is not met, one outside of it is.
        (BETA + LOG, 'web -> api { header("x-tier") "beta" } meets only beta', True),
        (BETA + LOG, 'web -> api { header("x-tier") "beta" } meets log', False),
        (LOG + BETA, 'web -> api { header("x-tier") "beta" } meets only log, beta', True),
        (LOG + BETA, 'web -> api { header("x-tier") "gold" } meets only log', True),
        (LOG + BETA, 'web -> api { header("x-tier") "gold" } meets beta', False),
        # Headers: elements, lines, absence; what is open.
        (BETA, 'web -> api { header("x-tier") "gold, beta" } is refused', True),
        (BETA, 'web -> api { header("x-tier") "gold"  header("X-Tier") "beta" } is refused', True),
        (BETA, 'web -> api { no header("x-tier") } is admitted', True),
        (BETA, "web -> api is admitted", None),
        (BETA + LOG, "web -> api meets log", None),
        (LOG + BETA, "web -> api meets log", True),
        # Of the header that is held back, an empty value counts as none. `matches` compares bytes.
        (BETA.replace("x-tier", "x-forwarded-proto").replace('"beta"', '""'),
         'web -> api { header("x-forwarded-proto") "" } is refused', False),
        (BETA.replace('== "beta"', 'matches "."'), 'web -> api { header("x-tier") "\u00e9" } is refused', False),
        (BETA.replace('== "beta"', 'matches ".."'), 'web -> api { header("x-tier") "\u00e9" } is refused', True),
        # `matches` is RE2, for the whole path without its query.
        (V2, 'web -> api { path "/v12?a=b" } meets second', True),
        (V2, 'web -> api { path "/v12/x" } meets second', False),
        (V2, "web -> api meets second", None),
        (V2.replace("[0-9]", "[[:digit:]]"), 'web -> api { path "/v12" } meets second', True),
        # What does not matter may stay open, also where two open matches agree.
        ('policy a = deny() on web -> api when path == "/a"\npolicy b = deny() on web -> api when path != "/a"\n',
         "web -> api is refused", True),
        ('policy a = deny() on web -> api when path == "/a"\npolicy b = deny() on web -> api when path == "/a/b"\n',
         "web -> api meets a, b", False),
        # Tokens, authorization services, chance.
        (LOGIN, 'web -> api { no header("authorization") } is refused by login', True),
        (LOGIN, 'web -> api { header("authorization") "Basic eA==" } is refused by login', True),
        (LOGIN, 'web -> api { header("authorization") "Bearer x.y.z" } is admitted', None),
        # Envoy finds a token behind other words, and on a second line.
        (LOGIN, 'web -> api { header("authorization") "Basic eA==, Bearer x.y.z" } is refused by login', None),
        (LOGIN, 'web -> api { header("authorization") "Basic x"  header("authorization") "Bearer x.y.z" } is refused',
         None),
        (LOGIN, 'web -> api { header("authorization") "" } is refused by login', True),
        (LOGIN, "web -> api is refused", None),
        (LOGIN, "web -> api { passes login } is admitted", True),
        (LOGIN, "web -> api meets login", True),
        (ASK + LOG, "web -> api is admitted", None),
        (ASK + LOG, "web -> api { passes ask } meets log", True),
        (HALF, "web -> api is refused", None),
        (HALF, "web -> api { passes half } is admitted", True),
        (HALF, "web -> api meets half", True),
        (HALF.replace("50%", "0%"), "web -> api is admitted", True),
        (HALF.replace("50%", "100%"), "web -> api is refused by half", True),
        # Policies that change the request for those inside of them.
        (MARKED + BETA, "web -> api is refused by beta", True),
        (BETA + MARKED, 'web -> api { no header("x-tier") } is admitted', True),
        (MORE + BETA, 'web -> api { header("x-tier") "gold" } is refused', True),
        (MORE + BETA, "web -> api is refused", True),
        (MORE + BETA.replace("==", "!="), "web -> api is refused", False),
        (BARE + BETA, "web -> api is admitted", True),
        (MOVED + NEW, 'web -> api { path "/old/a" } is refused by new', True),
        (MOVED + NEW, 'web -> api { path "/other" } is admitted', True),
        (MOVED + NEW, "web -> api is admitted", None),
        # Kinds of which only effects are known.
        (LUA + BETA, 'web -> api { no header("x-tier")  passes script } is admitted', None),
        (LUA + LOG, "web -> api meets log", None),
        (LUA + LOG, "web -> api { passes script } meets log", True),
        (OWN + BETA, 'web -> api { no header("x-tier") } is admitted', True),
        (OWN + BETA.replace("x-tier", "x-own"), 'web -> api { no header("x-own") } is admitted', None),
        # A preflight is answered: it is neither refused nor admitted.
        (CORS, f"web -> api {{ {PREFLIGHT} }} is refused", False),
        (CORS, f"web -> api {{ {PREFLIGHT} }} is admitted", False),
        (CORS.replace("a.ex", "*.ex"), f"web -> api {{ {PREFLIGHT} }} is admitted", False),
        (CORS.replace("a.ex", "*.a.ex"), f"web -> api {{ {PREFLIGHT} }} is admitted", True),
        (CORS, 'web -> api { method "GET" } is admitted', True),
        (CORS, 'web -> api { no header("origin") } is admitted', True),
        (CORS, 'web -> api { method "OPTIONS" } is admitted', None),
        (CORS, f"web -> api {{ {PREFLIGHT.replace('PUT', '')} }} is admitted", True),
        # The first ADM on its way answers a CONNECT, behind its own policies.
        (LOG, 'web -> api { method "CONNECT" } is refused', True),
        (LOG, 'web -> api { method "CONNECT" } meets log', True),
        ("", 'web -> api { method "CONNECT" } is admitted', True),
        (BOTH_LOGS, 'web -> api { method "CONNECT" } meets only left', True),
        (BOTH_LOGS, 'web -> api { method "GET" } meets only left, log', True),
        # Time.
        (LATE, "web -> api is refused by late", True),
        (LATE.replace("100ms", "2s"), "web -> api is admitted", True),
        # Placements.
        (AT_EGRESS, "adm at web", True),
        (AT_EGRESS, "adm at {web, api}", False),
        (AT_EGRESS, "no adm at * except web", True),
        (AT_EGRESS, "no adm at {api, w*}", False),
        (AT_EGRESS, "adms == 1", True),
        (AT_EGRESS, "adms <= 0", False),
        (AT_EGRESS, "sidecars == 3", True),
        (AT_EGRESS, "sidecars >= 4", False),
        ("", "adms == 0", True),
    ],
)  # fmt: skip
def test_what_holds(policies: str, expectation: str, holds: bool | None) -> None:
    found = result(policies, expectation)
    assert (None if isinstance(found, Undecided) else isinstance(found, Passed)) is holds, found


def test_a_redirected_request_meets_the_policies_of_its_new_call() -> None:
    policies = f"call web -> other\n{SPLIT}policy there = request_count() on web -> other\n{LOG}"
    assert isinstance(result(policies, "web -> api meets only some, there"), Passed)
    chance = policies.replace("100%", "10%")
    assert isinstance(result(chance, "web -> api meets some"), Passed)
    assert isinstance(result(chance, "web -> api meets log"), Undecided)


def error(policies: str, expectation: str) -> Diagnostic:
    found = result(policies, expectation)
    assert isinstance(found, Undecided)
    return found.error


@pytest.mark.parametrize(
    ("policies", "given", "what", "hint"),
    [
        (BETA, "", "the header `x-tier`, which `beta` reads",
         'add `{ header("x-tier") "..." }` after the destination, or `{ no header("x-tier") }`'),
        (NEW, "", "the path, which `new` reads", 'add `{ path "..." }`'),
        (BETA.replace('header("x-tier")', "host"), "", "the host, which `beta` reads", 'add `{ host "..." }`'),
        (LOGIN, "", "the token that `login` reads", "`passes login`"),
        (ASK, "", "the answer of `authz`, which `ask` asks", "`passes ask`"),
        (HALF, "", "whether `half` aborts this request, by its chance", "`passes half`"),
        (LUA, "", "whether `script` accepts this request", "`passes script`"),
        (LUA + BETA, "{ passes script }", "the header `x-tier`, which `beta` reads and `script` may change",
         "ask for what `script` does not change"),
    ],
)  # fmt: skip
def test_what_is_open_is_named_with_what_to_add(policies: str, given: str, what: str, hint: str) -> None:
    found = error(policies, f"web -> api {given} is admitted")
    assert found.code == "ADM841"
    assert found.message == f"whether `it` holds depends on {what}"
    assert hint in (found.hint or "")
    assert ("no header" in (found.hint or "")) is ("no header" in hint or "passes login" in hint)
    assert found.span is not None
    assert found.span.text == "web -> api"
    assert found.related


def test_the_fact_that_decides_is_named_among_others() -> None:
    policies = 'policy count = request_count() on web -> api when header("x-a") == "1"\n' + BETA
    assert "`x-tier`" in error(policies, "web -> api is admitted").message


def test_a_test_that_leaves_too_much_open_ends() -> None:
    policies = "".join(
        f'policy p{n} = deny() on web -> api when header("x-a") == "1" and header("x-{n}") == "1"\n' for n in range(14)
    )
    policies += "".join(f'policy q{n} = request_count() on web -> api when header("x-{n}") == "1"\n' for n in range(14))
    found = error(policies, "web -> api meets only q0")
    assert "leaves too much open" in found.message


def test_policies_that_make_no_difference_may_be_open_in_any_number() -> None:
    policies = "".join(f'policy q{n} = request_count() on web -> api when header("x-{n}") == "1"\n' for n in range(20))
    assert isinstance(result(policies, "web -> api is admitted"), Passed)
    assert isinstance(result(policies, 'web -> api { header("x-7") "1" } meets q7'), Passed)
    assert "`x-7`" in error(policies, "web -> api meets q7").message
    assert "leaves too much open" in error(policies, 'web -> api { header("x-7") "1" } meets only q7').message
    # What holds instead is said of all policies.
    assert result(LOG + policies, 'web -> api { header("x-7") "1" } is refused') == Failed(
        "it is admitted, and it meets `log`, `q7`"
    )


@pytest.mark.parametrize(
    ("policies", "expectation", "found"),
    [
        (AT_INGRESS, "other -> api is admitted",
         "it is refused by `readers` (`other` is not one of its callers), and it meets `readers`"),
        (AT_EGRESS, "other -> api is admitted",
         "it is refused by `readers` (the NetworkPolicy of `api` refuses it), and it meets no policy"),
        (LOG, "web -> api is refused", "it is admitted, and it meets `log`"),
        (CORS, f"web -> api {{ {PREFLIGHT} }} is admitted",
         "it is answered by `pages` (it answers the preflight), and it meets `pages`"),
        (AT_EGRESS, "adm at {web, api}", "`api` has no ADM"),
        (AT_EGRESS, "no adm at *", "`web` has an ADM, for `readers`"),
        (AT_EGRESS, "sidecars <= 2", "there are 3 sidecars: at `web`"),
    ],
)  # fmt: skip
def test_a_failure_says_what_holds_instead(policies: str, expectation: str, found: str) -> None:
    assert result(policies, expectation) == Failed(found)


def test_every_built_in_kind_is_known_but_for_programs_of_the_user() -> None:
    assert set(prelude.kinds()) - set(HANDLERS) == {"lua", "wasm"}
    assert set(HANDLERS) <= set(prelude.kinds())


def test_a_host_is_compared_without_its_port_and_in_any_case() -> None:
    policy = f'{LOG}policy p = request_count() on web -> api when host == "api.example.com"\n'
    for host, met in (("API.example.com.:8080", "log, p"), ("api.example.com", "log, p"), ("api.example.org", "log")):
        assert isinstance(result(policy, f'web -> api {{ host "{host}" }} meets only {met}'), Passed), host
