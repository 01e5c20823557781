"""The full model: figures by hand, sums that add up, and everything that is missing is said."""

from __future__ import annotations

import random
from dataclasses import replace
from math import fsum

import pytest

from admc.cost.model.estimate import estimate
from admc.cost.model.full_mesh import full_mesh
from admc.cost.model.layout import Layout, of_full_mesh, of_placement
from admc.cost.model.overhead import AdmOverhead, Lack, Overhead
from admc.cost.profiles.amounts import Whole, added, nearest, shares
from admc.cost.profiles.profile import Profile
from admc.cost.profiles.source import built_in
from dsl import load_text
from dsl.program import Program, Side
from solver.place import place
from tests.cost.documents import Document, curve, profile
from tests.generate import generate

NODE = profile()
MESHINSIGHT = built_in("meshinsight").profile


def placed(text: str) -> tuple[Program, Layout]:
    program = load_text(f"app shop\n{text}")
    return program, of_placement(program, place(program))


def overhead(text: str, costs: Profile = NODE) -> Overhead:
    program, layout = placed(text)
    return estimate(program, layout, costs)


def lacks(found: Overhead) -> set[tuple[Lack, str]]:
    return {(each.lack, each.subject) for each in found.missing}


def only(found: Overhead) -> AdmOverhead:
    (adm,) = found.adms
    return adm


ONE = """service web, api { http 8080 }
call web -> api { rate 5/s  size 100B }
policy count = request_count() on web -> api
pin count at ingress
"""


def test_one_hop_by_hand() -> None:
    """5/s of 100 B: 0.0072 + 0.0001 cores of the parts, 4 us of the policy for each of 5 requests, 0.002 idle."""
    adm = only(overhead(ONE))
    assert adm.rate == 5
    (hop,) = adm.hops
    assert [(part.name, part.cpu, part.latency) for part in hop.parts] == [
        ("user", 7_200_000, 800_000),
        ("kernel", 100_000, 40_000),
    ]
    assert hop.base == Whole(7_300_000, 6_570_000, 8_030_000)
    (count,) = hop.components
    assert count.cpu == Whole(20_000, 18_000, 22_000)
    assert count.latency == Whole(4_000, 3_600, 4_400)
    assert adm.idle == Whole(2_000_000, 1_000_000, 3_000_000)
    # Errors of the hop and of its policy are independent: the root of 730,000 and 2,000 squared is 730,002.7.
    assert hop.cpu == Whole(7_320_000, 6_589_997, 8_050_003)
    assert adm.cpu == Whole(9_320_000, 7_589_997, 11_050_003)
    assert hop.latency == Whole(844_000, 759_999, 928_001)
    # 30 MB, and for the hop, its policy and the connection of one caller
    assert adm.memory.value == 30_000_000 + 100_000 + 10_000 + 20_000


def test_bytes_by_hand() -> None:
    (hop,) = only(overhead(ONE.replace("100B", "1100B"))).hops
    assert hop.latency is not None
    assert hop.latency.value == 844_000 + 2_000
    assert hop.base is not None
    # 5e-9 cores for each byte at 5/s
    assert hop.base.value == 7_300_000 + 5_000


def test_the_rate_of_the_whole_sidecar_counts() -> None:
    """Four hops at 25/s cost what one at 100/s does."""
    four = overhead(
        "service web, a, b, c, d { http 8080 }\n"
        "call web -> a, b, c, d { rate 25/s  size 100B }\n"
        "policy count = request_count() on web -> *\n"
    )
    one = overhead(
        "service web, a { http 8080 }\n"
        "call web -> a { rate 100/s  size 100B }\n"
        "@egress policy count = request_count() on web -> *\n"
    )
    assert [adm.service for adm in (*four.adms, *one.adms)] == ["web", "web"]
    assert sum(hop.base.value for hop in only(four).hops if hop.base) == only(one).hops[0].base.value  # type: ignore[union-attr]
    assert {hop.latency for hop in only(four).hops} == {only(one).hops[0].latency}
    alone = overhead(ONE.replace("rate 5/s", "rate 25/s"))
    assert only(alone).hops[0].base.value * 4 > only(one).hops[0].base.value  # type: ignore[union-attr]


def test_an_ingress_hop_carries_every_call_to_its_port() -> None:
    """The base is paid by all callers, the policy by those in its scope."""
    adm = only(
        overhead(
            "service web, app, api { http 8080 }\n"
            "call web, app -> api { rate 5/s  size 100B }\n"
            "@ingress policy count = request_count() on web -> api\n"
        )
    )
    (hop,) = adm.hops
    assert hop.rate == 10
    assert hop.components[0].cpu == Whole(20_000, 18_000, 22_000)
    latencies = [each.latency.value for each in hop.calls if each.latency]
    assert sorted(latencies)[1] - sorted(latencies)[0] == 4_000
    assert hop.latency is not None
    assert hop.latency.value == sum(latencies) // 2


def test_replicas_share_the_rate() -> None:
    two = only(overhead(ONE.replace("8080 }", "8080  replicas 2 }").replace("5/s", "10/s")))
    one = only(overhead(ONE))
    assert (two.replicas, two.rate) == (2, 5)
    assert two.cpu.value == 2 * one.cpu.value
    assert two.hops[0].latency == one.hops[0].latency
    # each replica of the caller has a connection to each replica in all
    assert two.memory.value == 2 * one.memory.value


def test_the_most_specific_figure_of_a_component_counts() -> None:
    text = (
        "service web, api { http 8080 }\n"
        "call web -> api { rate 100/s  size 100B }\n"
        "@egress policy count = request_count() on web -> api\n"
        "@ingress policy seen = request_count() on web -> api\n"
        "@ingress policy small = compression(algorithm: ALGORITHM) on web -> api\n"
    )
    for algorithm, nanos in (("gzip", 90_000), ("zstd", 50_000)):
        found = overhead(text.replace("ALGORITHM", algorithm))
        components = {each.policy: each for adm in found.adms for hop in adm.hops for each in hop.components}
        assert {name: each.latency.value for name, each in components.items() if each.latency} == {
            "count": 6_000,
            "seen": 4_000,
            "small": nanos,
        }
    found = overhead(text.replace("ALGORITHM", "brotli"))
    (small,) = [each for adm in found.adms for hop in adm.hops for each in hop.components if each.policy == "small"]
    assert (small.cpu, small.latency) == (None, None)
    assert lacks(found) == {(Lack.COMPONENT, "compressor (http)")}
    assert found.totals.cpu.at_least


@pytest.mark.parametrize("written", ["2KB", "2000", "2000B"])
def test_the_arguments_of_a_figure_are_those_that_a_program_writes(written: str) -> None:
    def change(document: Document) -> None:
        document["components"][0]["arguments"] = {"algorithm": "gzip", "min_size": written}

    text = ONE.replace("request_count()", "compression(min_size: 2KB)")
    for each, missing in ((text, set()), (text.replace("2KB", "3KB"), {(Lack.COMPONENT, "compressor (http)")})):
        assert lacks(overhead(each, profile(change))) == missing


# ---- what is missing ----


def test_nothing_is_missing_in_a_measured_range() -> None:
    found = overhead(ONE)
    assert (found.missing, found.saturated) == ((), ())
    assert not found.totals.cpu.at_least
    # the policy was measured at 100/s alone
    assert [(each.what, each.subject) for each in found.extrapolated] == [("rate", "request_count (http)")]


@pytest.mark.parametrize(
    ("text", "lack", "subject"),
    [
        (ONE.replace("rate 5/s  ", ""), Lack.RATE, "web -> api"),
        (ONE.replace("  size 100B", ""), Lack.SIZE, "web -> api"),
        (ONE.replace("http 8080", "grpc 8080"), Lack.HOP, "grpc hop"),
        (ONE.replace("request_count()", "access_log()"), Lack.COMPONENT, "access_log (http)"),
    ],
)
def test_what_is_missing_is_said_and_sums_say_at_least(text: str, lack: Lack, subject: str) -> None:
    found = overhead(text)
    assert (lack, subject) in lacks(found)
    assert found.totals.cpu.at_least
    assert found.totals.cpu.high is None
    assert found.missing[0].services == ("api",)


def test_a_component_of_a_kind_of_the_user() -> None:
    def own(document: Document) -> None:
        document["components"].append({**document["components"][2], "component": "own"})

    kind = '@ingress @component(own)\nkind mine() for http template "own.yaml"\n'
    program = load_text(
        f"app shop\n{kind}{ONE}policy m = mine() on web -> api\n", read=lambda _: b"status_prefix: own\n"
    )
    layout = of_placement(program, place(program))
    assert estimate(program, layout, profile(own)).missing == ()
    assert lacks(estimate(program, layout, NODE)) == {(Lack.COMPONENT, "own (http)")}


@pytest.mark.parametrize("missing", ["idle_cpu", "memory", "memory_hop", "memory_policy", "memory_connection"])
def test_a_profile_without_figures_of_the_sidecar(missing: str) -> None:
    found = overhead(ONE, profile(lambda document: document["sidecar"].update({missing: None})))
    lack = Lack.IDLE if missing == "idle_cpu" else Lack.MEMORY
    assert {each.lack for each in found.missing} == {lack}
    assert found.totals.cpu.at_least == (lack is Lack.IDLE)
    assert found.totals.memory.at_least == (lack is Lack.MEMORY)


def test_a_floor_is_at_least() -> None:
    text = ONE.replace("request_count()", 'lua(script: "a.lua")').replace("5/s", "30000/s")
    program = load_text(f"app shop\n{text}", read=lambda _: b"function envoy_on_request(handle) end\n")
    found = estimate(program, of_placement(program, place(program)), MESHINSIGHT)
    assert (Lack.FLOOR, "lua (http)") in lacks(found)
    (script,) = only(found).hops[0].components
    assert script.cpu == Whole(3_180_000_000, None, None, at_least=True)
    assert script.latency == Whole(80_590, None, None, at_least=True)


def test_without_all_rates_of_a_sidecar_there_is_no_latency_that_depends_on_the_rate() -> None:
    text = ONE.replace("service web, api", "service web, app, api") + "call app -> api { size 100B }\n"
    found = overhead(text)
    (hop,) = only(found).hops
    assert hop.rate == 5
    assert [each.latency.value for each in hop.calls if each.latency and each.latency.at_least] == [0, 4_000]
    assert {part.latency for part in hop.parts} == {None}
    assert (Lack.RATE, "app -> api") in lacks(found)
    assert only(found).cpu.at_least
    # one knot: the latency is the same at all rates
    (hop,) = only(overhead(text, MESHINSIGHT)).hops
    assert hop.latency is not None
    assert hop.latency.value >= 167_250


@pytest.mark.parametrize("costs", [NODE, MESHINSIGHT, built_in("flatproxy").profile], ids=lambda costs: costs.name)
@pytest.mark.parametrize("unrated", [1, 40, 160])
def test_what_is_marked_at_least_is_a_lower_bound_of_cpu_whatever_the_missing_rates_are(
    unrated: int, costs: Profile
) -> None:
    """The CPU of a request falls as the rate of its sidecar rises: at the known rates alone it would be too high."""
    rated = load_text(generate(60, 160, 40, unrated))
    calls = tuple(call._replace(rate=None) if at < unrated else call for at, call in enumerate(rated.calls))
    program = replace(rated, calls=calls)
    placement = place(rated)
    layout = of_full_mesh(rated, placement, everywhere=True)
    lower, model = estimate(program, layout, costs), estimate(rated, layout, costs)
    for bound, adm in zip(lower.adms, model.adms, strict=True):
        bounds = [bound.cpu, *(hop.cpu for hop in bound.hops)]
        figures = [adm.cpu, *(hop.cpu for hop in adm.hops)]
        for least, figure in zip(bounds, figures, strict=True):
            assert least is not None
            assert figure is not None
            assert least.value <= figure.value + 40  # each part is rounded to the nano-core
            assert least.at_least or least.value == figure.value
    full = full_mesh(program, placement, costs).everywhere
    assert full.cpu.value <= full_mesh(rated, placement, costs).everywhere.cpu.value + 40
    assert full.cpu.at_least


def test_a_cost_of_bytes_depends_on_the_rate_too() -> None:
    def change(document: Document) -> None:
        for part in document["hops"][0]["parts"]:
            del part["latency"]["base"][1:]
        document["hops"][0]["parts"][0]["latency"]["per_byte"] = curve((5.0, 0.002), (1600.0, 0.001))

    text = ONE.replace("service web, api", "service web, app, api") + "call app -> api { size 100B }\n"
    (hop,) = only(overhead(text.replace("100B", "4KB"), profile(change))).hops
    assert {part.latency for part in hop.parts} == {None}


def test_no_rate_at_all() -> None:
    found = overhead(ONE.replace("rate 5/s  ", ""))
    (hop,) = only(found).hops
    assert hop.latency is not None
    assert (hop.latency.value, hop.latency.at_least) == (4_000, True)  # that of the policy is the same at all rates
    assert hop.base is not None
    assert (hop.base.value, hop.base.at_least) == (0, True)


def test_sizes_and_rates_outside_of_the_measured_ones() -> None:
    def subjects(text: str) -> set[tuple[str, str]]:
        return {(each.what, each.subject) for each in overhead(text).extrapolated}

    assert ("size", "http hop") not in subjects(ONE)
    assert ("size", "http hop") in subjects(ONE.replace("100B", "99B"))
    assert ("size", "http hop") in subjects(ONE.replace("100B", "65537B"))
    assert ("rate", "http hop") in subjects(ONE.replace("5/s", "4/s"))
    # the part `user` was measured up to 1,600/s, and the part `kernel` at 5/s alone
    assert ("rate", "http hop") not in subjects(ONE)
    assert ("rate", "http hop") in subjects(ONE.replace("5/s", "100/s"))


def test_bytes_without_a_slope_are_missing() -> None:
    text = ONE.replace("http 8080", "grpc 8080")
    assert (Lack.BYTES, "grpc hop") not in lacks(overhead(text, MESHINSIGHT))
    found = overhead(text.replace("100B", "1KB"), MESHINSIGHT)
    assert (Lack.BYTES, "grpc hop") in lacks(found)
    # a hop of http has its slope in a part of its own
    found = overhead(ONE.replace("100B", "1KB"), MESHINSIGHT)
    assert (Lack.BYTES, "http hop") not in lacks(found)


def test_a_saturated_sidecar_has_no_latency() -> None:
    """0.7 cores at 240 us of a request are a little less than 3,000/s."""
    found = overhead(ONE.replace("5/s", "3000/s"))
    assert found.saturated == ("api",)
    (hop,) = only(found).hops
    assert hop.latency is None
    assert [each.latency for each in hop.calls] == [None]
    assert [part.latency for part in hop.parts] == [None, None]
    assert found.totals.latency == Whole(0, 0, None, at_least=True)
    assert not found.totals.cpu.at_least
    assert overhead(ONE.replace("5/s", "2800/s")).saturated == ()
    # two replicas have twice the cores
    assert overhead(ONE.replace("8080 }", "8080  replicas 2 }").replace("5/s", "3000/s")).saturated == ()


def test_a_profile_of_latency_alone() -> None:
    found = overhead(ONE, built_in("flatproxy").profile)
    (hop,) = only(found).hops
    assert hop.base is not None
    assert (hop.base.value, hop.base.at_least) == (0, True)
    assert [part.cpu for part in hop.parts] == [None] * 6
    assert sum(part.latency for part in hop.parts if part.latency is not None) == 17_600


def _without_cpu(*names: str) -> Profile:
    def change(document: Document) -> None:
        for part in document["hops"][0]["parts"]:
            if part["name"] in names:
                part["cpu"] = None

    return profile(change)


@pytest.mark.parametrize(
    ("names", "subject"),
    [(("kernel",), "kernel of http hop: cpu"), (("user", "kernel"), "http hop: cpu")],
)
def test_missing_parts_are_said_together(names: tuple[str, ...], subject: str) -> None:
    found = overhead(ONE, _without_cpu(*names))
    assert [each.subject for each in found.missing if each.lack is Lack.HOP] == [subject]
    assert found.totals.cpu.at_least
    assert not found.totals.latency.at_least


def test_tcp_by_meshinsight() -> None:
    (hop,) = only(
        overhead(ONE.replace("http 8080", "tcp 8080").replace("request_count", "access_log"), MESHINSIGHT)
    ).hops
    assert hop.base is not None
    assert hop.base.value == nearest(3.25 / 30_000 * 5 * 10**9)


# ---- sums ----


def test_every_sum_is_the_sum_of_its_parts_to_the_last_digit() -> None:
    for seed in range(6):
        program = load_text(generate(60, 160, 40, seed))
        placement = place(program)
        for layout in (of_placement(program, placement), of_full_mesh(program, placement, everywhere=True)):
            found = estimate(program, layout, NODE)
            for adm in found.adms:
                for hop in adm.hops:
                    if hop.base is not None:
                        assert sum(part.cpu or 0 for part in hop.parts) == hop.base.value
                    at_hop = added((hop.base, *(each.cpu for each in hop.components)))
                    assert (hop.cpu.value, hop.cpu.at_least) == (at_hop.value, at_hop.at_least)
                    _within(hop.cpu, at_hop)
                assert adm.cpu == added((adm.idle, *(hop.cpu for hop in adm.hops)))
            assert found.totals.cpu == added(adm.cpu for adm in found.adms)
            assert found.totals.memory == added(adm.memory for adm in found.adms)
            assert found.totals.hops == sum(len(adm.hops) for adm in found.adms)


def _within(found: Whole, ends: Whole) -> None:
    """The interval of a sum is not wider than the sum of the ends, and there where that is."""
    assert (found.low is None, found.high is None) == (ends.low is None, ends.high is None)
    assert found.low is None or ends.low is None or ends.low <= found.low <= found.value
    assert found.high is None or ends.high is None or found.value <= found.high <= ends.high


def test_policies_with_one_figure_share_its_error() -> None:
    """Two policies of one component are wrong in the same direction; two of different components need not be."""
    of_one = only(overhead(ONE + "policy again = request_count() on web -> api\npin again at ingress\n"))
    (hop,) = of_one.hops
    base, error = 84_000, 2 * 400
    assert hop.latency == Whole(848_000, 848_000 - 84_004, 848_000 + 84_004)
    assert 84_003 < (base**2 + error**2) ** 0.5 < 84_004


def test_the_order_of_lines_means_nothing() -> None:
    text = generate(40, 100, 30, 3)
    lines = text.splitlines()
    fixed = [line for line in lines if line.startswith(("policy", "@"))]
    others = [line for line in lines if not line.startswith(("policy", "@"))]
    random.Random(1).shuffle(others)  # noqa: S311
    one, other = (load_text(each) for each in (text, "\n".join([*others, *fixed])))
    assert estimate(one, of_placement(one, place(one)), NODE) == estimate(
        other, of_placement(other, place(other)), NODE
    )


def test_a_full_mesh_has_all_hops_and_costs_more() -> None:
    program = load_text(generate(60, 160, 40, 1))
    placement = place(program)
    plan, can, everywhere = (
        estimate(program, layout, NODE).totals
        for layout in (
            of_placement(program, placement),
            of_full_mesh(program, placement),
            of_full_mesh(program, placement, everywhere=True),
        )
    )
    hosts = [service for service in program.services.values() if service.can_host]
    assert can.sidecars == sum(service.replicas for service in hosts)
    assert everywhere.sidecars == sum(service.replicas for service in program.services.values())
    assert plan.hops < can.hops <= everywhere.hops
    assert plan.cpu.value < can.cpu.value < everywhere.cpu.value
    inside = [call for call in program.calls if call.source in program.services]
    ports = {(call.destination, call.port.number) for call in program.calls if call.destination in program.services}
    assert everywhere.hops == len(inside) + len(ports)


@pytest.mark.parametrize("costs", [NODE, MESHINSIGHT, built_in("flatproxy").profile], ids=lambda costs: costs.name)
@pytest.mark.parametrize("unrated", [0, 1, 30])
@pytest.mark.parametrize("seed", range(3))
def test_totals_of_a_full_mesh_are_those_of_the_model(seed: int, unrated: int, costs: Profile) -> None:
    """Two ways to one sum: hop by hop, and all requests of a sidecar at once. They differ by rounding alone."""
    program = load_text(generate(60, 160, 40, seed))
    calls = tuple(call._replace(rate=None) if at < unrated else call for at, call in enumerate(program.calls))
    program = replace(program, calls=calls)
    placement = place(program)
    totals = full_mesh(program, placement, costs)
    for found, everywhere in ((totals.hosting, False), (totals.everywhere, True)):
        model = estimate(program, of_full_mesh(program, placement, everywhere=everywhere), costs).totals
        assert (found.sidecars, found.hops, found.memory) == (model.sidecars, model.hops, model.memory)
        assert abs(found.cpu.value - model.cpu.value) <= model.hops + 40
        assert found.cpu.at_least == model.cpu.at_least
        assert found.latency.at_least == model.latency.at_least
        # a latency is rounded to the nanosecond before it is weighted by a rate
        assert abs(found.latency.value - model.latency.value) <= 10_000 * model.hops


def test_bookinfo_in_a_full_mesh_by_meshinsight() -> None:
    """The paper's example: each call passes the sidecars of its sender and its receiver."""
    program = load_text(
        "app bookinfo\n"
        "external user\n"
        "service frontend, product, details, reviews, ratings { http 9080 }\n"
        "call user -> frontend { rate 1000/s  size 100B }\n"
        "call frontend -> product { rate 1000/s  size 100B }\n"
        "call product -> details, reviews { rate 1000/s  size 100B }\n"
        "call reviews -> ratings { rate 1000/s  size 100B }\n"
    )
    placement = place(program)
    assert placement.adms == ()
    found = estimate(program, of_full_mesh(program, placement), MESHINSIGHT)
    added_to = dict.fromkeys(range(5), 0)
    for hop in (hop for adm in found.adms for hop in adm.hops):
        for each in hop.calls:
            assert each.latency is not None
            added_to[each.call] += each.latency.value
    latencies = {(program.calls[index].source, program.calls[index].destination): v for index, v in added_to.items()}
    assert latencies.pop(("user", "frontend")) == 167_250
    assert set(latencies.values()) == {334_500}
    # 9 hops at 1,000/s, each 9.64 cores / 30
    assert abs(found.totals.cpu.value - nearest(9.64 / 30 * 9 * 10**9)) <= 9
    assert found.totals.latency.value == 1000 * 9 * 167_250


def test_no_adm_costs_nothing() -> None:
    found = overhead("service web, api { http 8080 }\ncall web -> api { rate 5/s  size 1KB }\n")
    assert found.adms == ()
    assert found.totals.cpu == Whole(0, 0, 0)


def test_sides() -> None:
    program, layout = placed(ONE.replace("at ingress", "at egress"))
    ((hop,),) = layout.values()
    assert (hop.service, hop.side, hop.destination) == ("web", Side.EGRESS, "api")
    assert estimate(program, layout, NODE).adms[0].service == "web"


def test_shares_of_a_rounded_sum() -> None:
    for seed in range(200):
        draw = random.Random(seed)  # noqa: S311
        parts = [draw.randrange(10**6) / draw.randrange(1, 999) for _ in range(draw.randrange(1, 9))]
        total = nearest(fsum(parts))
        found = shares(total, parts)
        assert sum(found) == total
        assert all(abs(share - part) < 1 for share, part in zip(found, parts, strict=True))


def test_shares_of_more_than_floats_tell_apart_add_up() -> None:
    parts = [1e30, 3.0, 1e17 + 16, 0.5]
    total = nearest(fsum(parts))
    assert sum(shares(total, parts)) == total
    assert shares(0, []) == []
