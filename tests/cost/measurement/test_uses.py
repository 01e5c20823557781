"""What is measured of a program and of the built-in kinds, and how requests are kept passing."""

from __future__ import annotations

import dsl
from admc.cost.measurement.uses import of_prelude, of_program
from admc.cost.model.prices import Prices
from admc.cost.profile_import.fit import fit
from admc.cost.profile_import.runs import Arm, read_runs
from admc.cost.profiles.profile import Platform, Proxy
from admc.cost.profiles.vocabulary import known_components
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.kinds import prelude
from dsl.program import FileArgument, Program, Protocol, Side
from dsl.text import SourceText


def test_every_component_of_the_prelude_is_measured_for_every_protocol_that_its_kinds_have() -> None:
    found = {(use.key.name, use.protocol) for use in of_prelude()}
    wanted = {
        (declared.kind.component, protocol)
        for declared in prelude.kinds().values()
        for protocol in declared.kind.protocols
    }
    assert found == wanted
    assert {use.key.name for use in of_prelude()} == set(known_components())


def test_no_two_figures_of_the_prelude_are_for_the_same_policies() -> None:
    keys = [(use.protocol, use.key) for use in of_prelude()]
    assert len(keys) == len(set(keys))


def test_scripts_that_do_nothing_are_a_floor() -> None:
    assert {use.kind.name for use in of_prelude() if use.floor} == {"lua", "wasm"}


def _program(policies: str) -> Program:
    text = f"""
app shop
external internet
service web {{ http 80 }}
service api {{ http 80 }}
service other {{ http 80 }}
call internet -> web
call web -> api, other
{policies}
"""
    return dsl.load_text(text, read=lambda _: b"function envoy_on_request(handle) end\n")


def test_a_limit_is_raised_and_callers_are_those_of_the_measurement() -> None:
    found = of_program(
        _program(
            "policy few = rate_limit(requests: 2, per: 1s) on web -> api\n"
            "policy who = allow(callers: [web]) on web -> api\n"
            "policy late = fault_delay(delay: 3s) on web -> api\n"
        )
    ).measurable
    by_kind = {use.kind.name: use.arguments for use in found}
    assert by_kind["rate_limit"]["requests"] == by_kind["rate_limit"]["burst"] == 1_000_000_000
    assert by_kind["allow"]["callers"] == ("caller",)
    assert by_kind["fault_delay"]["percent"] == 0.0001


def test_scripts_and_choices_tell_figures_apart_and_numbers_do_not() -> None:
    found = of_program(
        _program(
            "policy few = rate_limit(requests: 2, per: 1s) on web -> api\n"
            "policy more = rate_limit(requests: 9, per: 1s) on web -> other\n"
            "policy small = compression(algorithm: zstd) on web -> api\n"
            "policy smaller = compression(algorithm: gzip) on web -> other\n"
            'policy own = lua(script: "own.lua") on web -> api\n'
        )
    ).measurable
    keys = [use.key for use in found]
    assert keys[0] == Arm("local_ratelimit", None, "rate_limit", ())
    assert [key.arguments for key in keys[1:3]] == [(("algorithm", "zstd"),), (("algorithm", "gzip"),)]
    assert keys[3].arguments[0][1].startswith("sha256:")
    assert isinstance(found[3].arguments["script"], FileArgument)
    assert len(keys) == 4


def test_what_cannot_be_measured_has_a_reason() -> None:
    found = of_program(_program("policy closed = deny() on web -> api\n"))
    assert found.measurable == ()
    assert found.left_out == ("`closed` is not measured: it refuses every request",)


def test_a_kind_of_the_sender_is_measured_at_egress_alone() -> None:
    found = of_program(_program("policy again = retry(attempts: 2) on web -> api\n")).measurable
    assert (found[0].side, found[0].key.side) == (Side.EGRESS, Side.EGRESS)


def test_figures_of_a_programs_own_measurement_price_its_policies() -> None:
    program = _program(
        "policy small = compression(algorithm: zstd) on web -> api\n"
        'policy own = lua(script: "own.lua") on web -> api\n'
        "policy again = retry(attempts: 2) on web -> api\n"
    )
    uses = of_program(program).measurable
    lines = ["turn,arm,protocol,side,kind,arguments,rate,size,latency_us,cpu_cores,memory_bytes"]
    for side in ("ingress", "egress"):
        lines += [f"1,none,http,,,,5,100,10,,\n1,hop,http,{side},,,5,100,20,0.1,"]
    lines.append("1,hop,http,,,,5,100,20,0.1,")
    for use in uses:
        arguments = "; ".join(f"{name}={value}" for name, value in use.key.arguments)
        lines.append(f"1,{use.key.name},http,{use.key.side or ''},{use.key.kind},{arguments},5,100,30,0.2,")
    runs = read_runs(SourceText("runs.csv", "\n".join(lines) + "\n"), Diagnostics())
    assert runs is not None
    profile = fit(runs, "x", Platform("m", "s"), Proxy("envoy", "1"), None).profile
    prices = Prices(profile)
    for policy in program.policies:
        for side in policy.sides:
            assert prices.component(policy, Protocol.HTTP, side) is not None
