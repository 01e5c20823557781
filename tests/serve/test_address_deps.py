"""The ADMs that changed addresses affect are all that change: compared with emitting everything."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dsl
from admc.base.exits import CommandError
from admc.serve.compiling import snapshots
from admc.serve.compiling.address_deps import AddressIndex, needed_by
from admc.serve.compiling.source import Source, State
from emitters.addresses import Addresses, ServiceAddresses
from emitters.envoy import Mode
from solver.place import place
from solver.placement import PlacementError
from tests.generate import generate

if TYPE_CHECKING:
    from dsl.program import Program
    from solver.placement import Placement

ROOT = Path(__file__).parents[2]
EXAMPLES = ("hotel_reservation", "payments_edge")
SEEDS = range(2)
ROUNDS = 6
TEXT = """\
app mixed
external internet
external office { cidr "10.0.0.0/8" }
external bank { tcp 443  host "bank.example" }
service front { http 80 -> 8080 }
service cart { http web 80 -> 8080  grpc admin 9000 }
service auth { http 8080 }
service canary { http 80 -> 8080 }
service db { tcp 5432 }
call internet, office -> front
call front -> cart:web, canary, auth
call office -> cart:admin
call front, cart, office -> db
call cart -> bank
policy stay   = split(to: canary, percent: 10%) on front -> cart:web
policy ask    = external_authorization(service: auth) on * -> front
policy some   = set_request_header(name: "x-a", value: "b") on office -> front
policy others = set_request_header(name: "x-b", value: "b") on internet -> front
policy few    = allow(callers: [office]) on * -> cart:admin
policy only   = allow(callers: [front, office]) on * -> db
policy slow   = connection_rate_limit(connections: 5, per: 1s) on cart -> db
policy spread = load_balancing(policy: round_robin) on front -> cart:web
policy out    = connection_rate_limit(connections: 5, per: 1s) on cart -> bank
"""

GUARDED = """\
app guarded
external internet
external office { cidr "10.0.3.0/24" }
external wide   { tcp 8080  cidr "10.0.0.0/8" }
service front { http 80 -> 8080  replicas 3 }
service cart  { http 8080  replicas 2 }
service geo   { grpc 8083 }
service admin { http 8080 }
service node  { http 9100  host_network }
service db    { tcp 5432 }
service cache { tcp 6379 }
call internet, office -> front
call front, geo, admin -> cart
call front, cart -> geo
call front -> wide
call front, cart, node -> cache
call front, cart, geo -> db
policy quota  = rate_limit(requests: 100, per: 1s) on * -> cart
policy mine   = set_request_header(name: "x-a", value: "b") on front -> cart
policy guard  = allow(callers: [front]) on * -> geo
policy known  = set_request_header(name: "x-known", value: "b") on * except {internet} -> front
policy never  = deny() on cart -> geo
policy conns  = connection_rate_limit(connections: 50, per: 1s) on front, cart -> db
policy listed = allow(callers: [front, geo]) on * -> db
policy out    = set_request_header(name: "x-out", value: "b") on admin -> cart
policy spread = load_balancing(policy: round_robin) on cart -> geo
pin mine at ingress
pin out at egress
"""


def _text(text: str) -> tuple[Program, Placement]:
    program = dsl.load_text(text)
    return program, place(program)


def _programs() -> dict[str, tuple[Program, Placement]]:
    found = {"mixed": _text(TEXT), "guarded": _text(GUARDED)}
    for name in EXAMPLES:
        program = dsl.load(ROOT / "examples" / name / "policies.adm")
        found[name] = program, place(program)
    for seed in SEEDS:
        try:
            found[f"seed {seed}"] = _text(generate(20, 50, 15, seed))
        except PlacementError:
            continue
    return found


def _addresses(program: Program, rng: random.Random) -> Addresses:
    """Some services are not listed, some have no address, and sometimes two share an address."""
    names = sorted({*program.services, *program.externals})

    def some(name: str, most: int, first: int) -> tuple[str, ...]:
        found = {
            f"10.0.{names.index(name if rng.random() < 0.995 else rng.choice(names))}.{first + number}"
            for number in range(rng.randrange(most))
        }
        return tuple(sorted(found))

    services = {
        name: ServiceAddresses(some(name, 2, 1), some(name, 4, 10))
        for name in sorted(program.services)
        if rng.random() < 0.9
    }
    externals = {name: some(name, 3, 1) for name in sorted(program.externals) if rng.random() < 0.5}
    return Addresses(services, externals)


def _changed(program: Program, before: Addresses, rng: random.Random) -> Addresses:
    after = _addresses(program, rng)
    services, externals = dict(before.services), dict(before.externals)
    for name in rng.sample(sorted(program.services), rng.randrange(3)):
        services.pop(name, None)
        if name in after.services:
            services[name] = after.services[name]
    for name in rng.sample(sorted(program.externals), min(len(program.externals), rng.randrange(2))):
        externals.pop(name, None)
        if name in after.externals:
            externals[name] = after.externals[name]
    for name in rng.sample(sorted(services), min(len(services), rng.randrange(3))):
        pods = services[name].pods
        unready, apart = (tuple(sorted(rng.sample(pods, rng.randrange(len(pods) + 1)))) for _ in range(2))
        services[name] = services[name]._replace(unready=unready, apart=apart)
    if rng.random() < 0.1:
        services[min(program.services)] = ServiceAddresses((), ("fd00::1",))
    return Addresses(services, externals)


def _versions(state: State) -> dict[str, str] | None:
    try:
        return {name: item.version for name, item in snapshots.snapshots(state).by_service.items()}
    except CommandError:
        return None


@pytest.mark.long
@pytest.mark.parametrize("name", ["mixed", "guarded", *EXAMPLES, *(f"seed {seed}" for seed in SEEDS)])
def test_every_adm_whose_configuration_changes_is_affected(name: str) -> None:
    program, placement = PROGRAMS[name]
    index = AddressIndex(program, placement)
    rng = random.Random(name)  # noqa: S311 - the same changes on every run
    source = Source(Path("policies.adm"), Mode.REDIRECT)
    spared = compared = 0
    for _ in range(ROUNDS):
        before = _addresses(program, rng)
        after = _changed(program, before, rng)
        old = _versions(State(source, program, placement, before, ""))
        new = _versions(State(source, program, placement, after, ""))
        affected = index.affected(before, after)
        if old is None or affected is None:
            continue
        if new is None:
            # Errors of the affected ADMs are found, too.
            with pytest.raises(CommandError):
                snapshots.snapshots(State(source, program, placement, after, ""), affected, index.hops)
            continue
        assert {service for service in new if old[service] != new[service]} <= affected
        part = snapshots.snapshots(State(source, program, placement, after, ""), affected, index.hops).by_service
        assert {service: item.version for service, item in part.items()} == {
            service: version for service, version in new.items() if service in affected
        }
        spared += len(new) - len(affected)
        compared += 1
    assert compared >= 2
    if name.startswith("seed"):
        assert spared > compared  # or there would be no point


@pytest.mark.parametrize("name", ["mixed", "guarded"])
def test_a_change_of_readiness_affects_only_adms_that_choose_among_the_pods(name: str) -> None:
    program, placement = PROGRAMS[name]
    index = AddressIndex(program, placement)
    source = Source(Path("policies.adm"), Mode.REDIRECT)
    located = {
        service: ServiceAddresses((), (f"10.5.{number}.1", f"10.5.{number}.2"))
        for number, service in enumerate(sorted(program.services))
    }
    before = Addresses(located)
    old = _versions(State(source, program, placement, before, ""))
    assert old is not None
    chosen = set()
    for service, where in located.items():
        after = Addresses(located | {service: where._replace(unready=where.pods[:1])})
        new = _versions(State(source, program, placement, after, ""))
        assert new is not None
        told = {each for each in new if old[each] != new[each]}
        affected = index.affected(before, after)
        assert affected is not None
        assert told <= affected
        assert index.affected(after, before) == affected
        # Its destinations are not affected.
        assert len(affected) < len(new) or len(new) < 3
        chosen |= told
    assert chosen


@pytest.mark.long
def test_while_one_caller_has_no_address_the_others_affect_the_adm() -> None:
    program, placement = PROGRAMS["guarded"]
    index = AddressIndex(program, placement)
    source = Source(Path("policies.adm"), Mode.REDIRECT)
    names = sorted(program.services)

    def told(missing: str, more: str = "") -> tuple[Addresses, dict[str, str]]:
        located = {
            name: ServiceAddresses(
                (f"10.96.0.{number}",), (f"10.5.0.{number}", *(["10.7.7.7"] if name == more else []))
            )
            for number, name in enumerate(names)
            if name != missing
        }
        versions = _versions(State(source, program, placement, Addresses(located), ""))
        assert versions is not None
        return Addresses(located), versions

    for missing in names:
        before, old = told(missing)
        for name in names:
            after, new = told(missing, name)
            affected = index.affected(before, after)
            assert affected is not None
            assert {service for service in new if old[service] != new[service]} <= affected, (missing, name)


@pytest.mark.long
@pytest.mark.parametrize("name", ["mixed", "guarded", *EXAMPLES, *(f"seed {seed}" for seed in SEEDS)])
def test_a_new_pod_changes_only_the_adms_that_need_its_address_and_its_own(name: str) -> None:
    program, placement = PROGRAMS[name]
    needed = needed_by(program, placement)
    source = Source(Path("policies.adm"), Mode.REDIRECT)
    located = {
        service: ServiceAddresses((f"10.96.{number}.1",), (f"10.5.{number}.1", f"10.5.{number}.2"))
        for number, service in enumerate(sorted(program.services))
    }
    office = {"office": ("10.5.0.0/16",)} if "office" in program.externals else {}
    old = _versions(State(source, program, placement, Addresses(located, office), ""))
    assert old is not None
    assert needed.keys() == program.services.keys()
    for service, where in located.items():
        more = where._replace(pods=(*where.pods, where.pods[0] + "00"))
        new = _versions(State(source, program, placement, Addresses(located | {service: more}, office), ""))
        assert new is not None
        assert {each for each in new if old[each] != new[each]} <= needed[service] | {service}
        assert needed[service] <= new.keys()
    if name != "mixed":  # there each ADM distinguishes all callers
        assert sum(len(each) for each in needed.values()) < len(needed) * len(old)


def test_the_adms_that_need_an_address() -> None:
    text = """app shop
external internet
external bank { tcp 443  host "bank.example" }
service web, cart, rate, log, job { http 80 -> 8080 }
service db { tcp 443 -> 5432 }
call internet -> web
call web, job -> cart
call cart -> rate, log, bank, db
@ingress
policy known = allow(callers: [web]) on * -> cart
@egress
policy again = retry(attempts: 3) on cart -> rate
policy every = rate_limit(requests: 9, per: 1s) on * -> web
policy out = connection_rate_limit(connections: 5, per: 1s) on cart -> bank
"""
    program = dsl.load_text(text)
    cart = frozenset({"cart"})
    # `known` distinguishes its caller, `again` its destination; `db` is dialled at the port of `out`. `every` is for
    # all callers, and no policy is about `log`.
    expected = {"web": cart, "rate": cart, "db": cart}
    assert {name: it for name, it in needed_by(program, place(program)).items() if it} == expected


PROGRAMS = _programs()
