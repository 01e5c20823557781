"""Every enforcement of a plan is in the configuration of the service that it names, and nothing else is.

This knows how things are named in the configuration and where Envoy keeps them, and nothing of how the emitter gets
there. The programs are the examples and a hundred made at random.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import dsl
from admc.compile.plan.build import build
from dsl.diagnostics.diagnostic import ProgramError
from dsl.program import Program, Protocol, Side, Stage
from emitters.addresses import loopback
from emitters.envoy import Mode, emit
from emitters.envoy.bootstrap import static_json
from emitters.errors import EmitError
from solver.place import place
from solver.placement import PlacementError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.program import Policy
    from solver.placement import Placement

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/policies.adm"))
RANDOM = 100


class Place(NamedTuple):
    service: str
    hop: str
    destination: str
    protocol: Protocol
    side: Side


def planned(program: Program, placement: Placement) -> dict[Place, set[str]]:
    """Policies by hop: what the plan lists, and for open decisions all ports that they cover."""
    found: dict[Place, set[str]] = defaultdict(set)
    wanted = {
        (each.service, each.place.sides[0], each.destination, each.port, each.policy)
        for each in build(program, placement, None).enforcements
        if each.place.sides  # a NetworkPolicy alone has no hop
    }
    for decision in placement.decisions:
        if Side.INGRESS in decision.place.sides:
            where = decision.destination
            wanted |= {(where, Side.INGRESS, where, number, decision.policy) for number in decision.ports}
    for service, side, destination, number, policy in wanted:
        ports = (program.services.get(destination) or program.externals[destination]).ports
        protocol = next(port.protocol for port in ports if port.number == number)
        hop = f"ingress/{number}" if side is Side.INGRESS else f"egress/{destination}:{number}"
        found[Place(service, hop, destination, protocol, side)].add(policy)
    return found


class Configured:
    """One ADM's bootstrap, by what things are called."""

    def __init__(self, bootstrap: dict[str, Any]) -> None:
        resources = bootstrap.get("static_resources", {})
        self.listeners = {each["name"]: each for each in resources.get("listeners", [])}
        self.chains = {
            chain["name"]: chain["filters"]
            for listener in self.listeners.values()
            for chain in listener["filter_chains"]
        }
        self.clusters = {each["name"] for each in resources.get("clusters", [])}

    def hops(self) -> set[str]:
        """The hops that there are chains for: a hop's name has one `/`."""
        names = {"/".join(name.split("/")[:2]) for name in self.chains}
        return {name for name in names if not name.endswith("/passthrough")}

    def chains_of(self, hop: str) -> list[list[dict[str, Any]]]:
        return [filters for name, filters in self.chains.items() if name == hop or name.startswith(f"{hop}/")]


def inside(value: Any) -> Iterator[dict[str, Any]]:
    """Every object of a configuration."""
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from inside(item)
    elif isinstance(value, list):
        for item in value:
            yield from inside(item)


def in_clusters(found: Configured, hop: str, names: set[str]) -> set[str]:
    """The policies whose names are in the names of a hop's clusters."""
    rests = [name[len(hop) + 1 :] for name in found.clusters if name.startswith(f"{hop}/")]
    return {part for rest in rests if not rest.startswith("to:") for part in rest.split("/")} & names


def check_requests(program: Program, place: Place, policies: list[Policy], found: Configured) -> None:
    (filters,) = found.chains_of(place.hop)
    manager = filters[0]["typed_config"]
    # A filter is named `POLICY:KIND`.
    names = [each["name"].removeprefix(f"{place.hop}/").partition(":")[0] for each in manager["http_filters"]]
    # A second filter of a policy is named `POLICY:KIND:behind`.
    behind = [each["name"].endswith(":behind") for each in manager["http_filters"]]
    at = {stage: [policy for policy in policies if policy.kind.sides[place.side] is stage] for stage in Stage}
    in_filters = [policy.name for policy in at[Stage.FILTER]]
    first = [name for name, second in zip(names, behind, strict=True) if not second]
    listed = [name for name in first if name in program.policy_by_name and name not in marks(at[Stage.ROUTING])]
    assert [name for name in listed if name not in {p.name for p in at[Stage.CLUSTER]}] == in_filters, place
    configs = [(name, each["typed_config"]) for name, each in zip(names, manager["http_filters"], strict=True)]
    for policy in at[Stage.FILTER]:
        for config in (config for name, config in configs if name == policy.name):
            check_condition(program, place, policy, config)
    routes = [each["route"] for each in inside(manager["route_config"]) if "route" in each and "match" in each]
    retries = [route["retry_policy"] for route in routes if "retry_policy" in route]
    by_kind: dict[str, list[Policy]] = defaultdict(list)
    for policy in at[Stage.ROUTING]:
        by_kind[policy.kind.name].append(policy)
    timeouts = {float(route["timeout"][:-1]) for route in routes} - {0.0}
    timeouts |= {float(each["per_try_timeout"][:-1]) for each in retries if "per_try_timeout" in each}
    assert timeouts == {int(str(policy.arguments["after"])) / 1e6 for policy in by_kind["timeout"]}, place
    attempts = {1 + int(each["num_retries"]) for each in retries}
    assert attempts == {policy.arguments["attempts"] for policy in by_kind["retry"]}, place
    copies = {each["cluster"] for route in routes for each in route.get("request_mirror_policies", [])}
    versions = ("HTTP/2",) if place.protocol is Protocol.GRPC else ("HTTP/1.1", "HTTP/2")
    to = [f"{place.hop}/to:{policy.arguments['to']}" for policy in by_kind["mirror"]]
    assert copies == {f"{cluster}/{version}" for cluster in to for version in versions}, place
    shares = {
        each["name"]
        for route in routes
        for each in route.get("weighted_clusters", {}).get("clusters", [])
        if "/to:" in each["name"]
    }
    assert shares == {f"{place.hop}/to:{policy.arguments['to']}" for policy in by_kind["split"]}, place
    named = {route.get("cluster") for route in routes} | copies | shares
    assert named - {None} <= found.clusters
    clustered = {policy.name for policy in at[Stage.CLUSTER]}
    assert in_clusters(found, place.hop, set(program.policy_by_name)) == clustered, place


def check_condition(program: Program, place: Place, policy: Policy, config: dict[str, Any]) -> None:
    """A filter whose policy is about some callers or some requests only asks for them; others ask for no callers.

    It may ask more of requests than its policy does, such as that they are no tunnel.
    """
    matcher = config.get("xds_matcher", {})
    inputs = {each["input"]["typed_config"]["@type"].rpartition(".")[2] for each in inside(matcher) if "input" in each}
    parties = program.services.keys() | program.externals.keys()
    strangers = policy.open_sources or any(not each.cidrs for each in program.externals.values())
    some = policy.sources != parties or not strangers
    assert ("DirectSourceIPInput" in inputs) == (place.side is Side.INGRESS and some), (place, policy.name)
    assert policy.match is None or inputs - {"DirectSourceIPInput", "FilterStateInput"}, (place, policy.name)


def marks(routed: list[Policy]) -> set[str]:
    """Policies of the routing stage may have a filter, which tells the routes whether their match holds."""
    return {policy.name for policy in routed if policy.match is not None or not policy.open_sources}


def check_connections(program: Program, place: Place, policies: list[Policy], found: Configured) -> None:
    filters = [each for chain in found.chains_of(place.hop) for each in chain]
    objects = list(inside(filters))
    names = {each["name"] for each in filters} | in_clusters(found, place.hop, set(program.policy_by_name))
    refused = {
        each["stat_prefix"].removeprefix("refused/").split("/")[0]
        for each in objects
        if str(each.get("stat_prefix", "")).startswith("refused/")
    }
    configured = (names | refused) & set(program.policy_by_name)
    assert configured <= {policy.name for policy in policies}, place
    for policy in policies:
        if policy.kind.name == "deny":
            assert policy.name in refused, (place, policy.name)
            break  # no request may be left for the filters behind it
        if policy.kind.name == "allow":
            break
        assert policy.name in configured, (place, policy.name)


def check(program: Program, placement: Placement, mode: Mode, emitted: Placement | None = None) -> int:
    """The number of hops that were compared. `emitted` is what is configured, if not what is planned."""
    wanted = planned(program, placement)
    found = {
        resources.service: Configured(static_json(resources))
        for resources in emit(program, emitted or placement, loopback(program), mode)
    }
    by_service: dict[str, set[str]] = defaultdict(set)
    for place_ in wanted:
        by_service[place_.service].add(place_.hop)
    assert {name: adm.hops() for name, adm in found.items()} == dict(by_service)
    order = {policy.name: index for index, policy in enumerate(program.policies)}
    for place_, names in wanted.items():
        adm = found[place_.service]
        listener = place_.hop if mode is Mode.EXPLICIT else place_.side.value
        assert listener in adm.listeners
        if mode is Mode.REDIRECT:
            taken = {
                each["typed_config"].get("value")
                for each in inside(adm.listeners[listener]["filter_chain_matcher"])
                if each.get("name") == "chain"
            }
            assert any(name == place_.hop or str(name).startswith(f"{place_.hop}/") for name in taken), place_
        policies = [program.policy_by_name[name] for name in sorted(names, key=order.__getitem__)]
        compare = check_connections if place_.protocol is Protocol.TCP else check_requests
        compare(program, place_, policies, adm)
    return len(wanted)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_examples(path: Path, mode: Mode) -> None:
    program = dsl.load(path)
    assert check(program, place(program), mode) > 0


@pytest.mark.parametrize(
    "mode", [Mode.POD, *(pytest.param(each, marks=pytest.mark.long) for each in (Mode.EXPLICIT, Mode.REDIRECT))]
)
def test_whatever_is_left_out_or_added_is_noticed(mode: Mode) -> None:
    program = dsl.load(next(path for path in EXAMPLES if path.parent.name == "payments_edge"))
    placement = place(program)
    for index in range(len(placement.decisions)):
        less = replace(placement, decisions=(*placement.decisions[:index], *placement.decisions[index + 1 :]))
        for planned_, emitted in ((placement, less), (less, placement)):
            with pytest.raises(AssertionError):
                check(program, planned_, mode, emitted)


# ---- programs made at random ----

REQUESTS = ("http", "grpc")
EVERYTHING = (*REQUESTS, "tcp")
KINDS = (
    ("rate_limit(requests: {n}, per: 1s)", REQUESTS),
    ("connection_rate_limit(connections: {n}, per: 1s)", ("tcp",)),
    ("circuit_breaking(max_requests: {n})", REQUESTS),
    ("buffer_limit(max: {n}B)", ("http",)),
    ("allow(callers: [s0])", EVERYTHING),
    ("deny()", EVERYTHING),
    ("retry(attempts: {few})", REQUESTS),
    ("timeout(after: {n}ms)", REQUESTS),
    ("outlier_detection(consecutive_errors: {n})", EVERYTHING),
    ("load_balancing(policy: random)", EVERYTHING),
    ("mirror(to: s1)", REQUESTS),
    ("split(to: s1, percent: 10%)", REQUESTS),
    ('set_request_header(name: "x-k", value: "v")', REQUESTS),
    ('add_response_header(name: "x-r", value: "v")', REQUESTS),
    ('rewrite_path(prefix: "/a", to: "/b")', ("http",)),
    ("compression()", ("http",)),
    ("fault_delay(delay: {n}ms)", REQUESTS),
    ("access_log()", EVERYTHING),
    ("request_count()", REQUESTS),
)
MATCHES = (
    ' when path == "/a"',
    ' when not path == "/a"',
    ' when header("x-k") == "v"',
    ' when method != "POST"',
    ' when path matches "/[ab]"',
)


def made(seed: int) -> str:
    rng = random.Random(seed)  # noqa: S311 - reproducible, not secret
    count = rng.randint(3, 6)
    lines = ["app made"]
    ports: dict[str, dict[int, str]] = {}
    for index in range(count):
        name = f"s{index}"
        ports[name] = {80: rng.choice(["http", "http", "grpc", "tcp"])}
        if rng.random() < 0.3:
            ports[name][81] = rng.choice(["http", "tcp"])
        body = "  ".join(
            f"{protocol} {'more ' if number == 81 else ''}{number}" + rng.choice(["", "", f" -> {number + 8000}"])
            for number, protocol in ports[name].items()
        )
        extra = rng.choice(["", "", "", "\n  replicas 3", "\n  untrusted", "\n  no adm"])
        lines.append(f"service {name} {{\n  " + body.replace("  ", "\n  ") + extra + "\n}")
    lines.append("external net" + (' { cidr "10.99.0.0/16" }' if rng.random() < 0.5 else ""))
    names = list(ports)
    calls = {(rng.choice([*names, "net"]), destination) for destination in names for _ in range(rng.randint(1, 3))}
    declared = sorted({(source, to, rng.choice(list(ports[to]))) for source, to in calls})
    lines += [f"call {source} -> {to}:{number}" for source, to, number in declared]
    for index in range(rng.randint(1, 8)):
        text, protocols = rng.choice(KINDS)
        fitting = [call for call in declared if ports[call[1]][call[2]] in protocols]
        if not fitting:
            continue
        source, to, number = rng.choice(fitting)
        sources = rng.choice([source, "*", f"{{{source}, s0}}" if source != "s0" else source])
        match = rng.choice(["", "", *MATCHES]) if "tcp" not in protocols else ""
        kind = text.format(n=101 + index, few=2 + index)
        lines.append(f"policy p{index} = {kind} on {sources} -> {to}:{number}{match}")
    return "\n".join(lines) + "\n"


@pytest.mark.long
def test_programs_made_at_random() -> None:
    hops = refused = 0
    tried: dict[str, int] = defaultdict(int)
    for seed in range(RANDOM * 6):
        if tried["sound"] == RANDOM:
            break
        text = made(seed)
        try:
            program = dsl.load_text(text)
            placement = place(program)
        except (ProgramError, PlacementError):
            tried["unsound"] += 1
            continue
        tried["sound"] += 1
        for mode in Mode:
            try:
                hops += check(program, placement, mode)
            except EmitError:
                refused += 1
            except AssertionError as error:
                raise AssertionError(f"{mode}\n{text}") from error
    assert tried["sound"] == RANDOM, dict(tried)
    assert refused < RANDOM / 2
    assert hops > 2 * RANDOM
