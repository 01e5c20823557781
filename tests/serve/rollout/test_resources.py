"""The route tables of a step have requests meet what the step says, in either mode; and each step can be published."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from envoy.config.route.v3 import route_components_pb2
from hypothesis import HealthCheck, Phase, assume, given, settings

from admc.serve.compiling.snapshots import snapshot
from admc.serve.rollout.chains import HttpChain
from admc.serve.rollout.diff import Diff
from admc.serve.rollout.marker import MARKER
from admc.serve.rollout.model import Placed, StepName
from admc.serve.rollout.resources import Emitted
from admc.serve.rollout.steps import steps
from dsl import load, load_text
from dsl.diagnostics.diagnostic import ProgramError, Severity
from dsl.program import Side, Stage
from emitters.addresses import Addresses, ServiceAddresses, loopback
from emitters.envoy import Mode, emit
from emitters.envoy import check as expressible
from emitters.envoy.names import filter_name, second_filter_name
from emitters.errors import EmitError
from emitters.hops import hops
from solver.place import place
from solver.placement import PlacementError
from tests.serve.rollout.cases import CASES, FILES
from tests.serve.rollout.cases import program as every_kind
from tests.serve.rollout.programs import Line, chains, placed
from tests.serve.rollout.world import Plans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.serve.rollout.model import Step
    from dsl.program import Policy
    from emitters.envoy import AdmResources
    from emitters.hops import Hop

TABLES = int(os.environ.get("ADMC_TABLES", "12"))
VARIANTS = int(os.environ.get("ADMC_VARIANTS", "2"))
STILL = frozenset(("hotel_database_limits",))
"""Examples all of whose policies have one place."""
SLOW = [HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large]


def known(*plans: Placed) -> Addresses:
    names = sorted({name for plan in plans for name in plan.program.services})
    return Addresses(
        services={
            name: ServiceAddresses(
                (f"10.96.{number // 250}.{number % 250 + 1}",), (f"10.1.{number // 250}.{number % 250 + 1}",)
            )
            for number, name in enumerate(names)
        }
    )


def routes(host: Any) -> Iterator[Any]:
    """All routes of a virtual host or of the outcome of a matcher."""
    yield from host.routes
    if host.HasField("matcher"):
        yield from of_matcher(host.matcher)


def of_matcher(matcher: Any) -> Iterator[Any]:
    for on_match in (*(each.on_match for each in matcher.matcher_list.matchers), matcher.on_no_match):
        if on_match.HasField("matcher"):
            yield from of_matcher(on_match.matcher)
        elif on_match.HasField("action"):
            found = route_components_pb2.RouteList()
            assert on_match.action.typed_config.Unpack(found)
            yield from found.routes


def branches(table: Any) -> tuple[list[Any], list[Any]]:
    """The routes of requests without the marker, and with it."""
    (host,) = table.virtual_hosts
    matchers = host.matcher.matcher_list.matchers
    if not matchers or MARKER not in str(matchers[0].predicate):
        return list(routes(host)), list(routes(host))
    marked = matchers[0].on_match
    unmarked = host.matcher.on_no_match
    found = []
    for each in (unmarked, marked):
        if each.HasField("matcher"):
            found.append(list(of_matcher(each.matcher)))
        else:
            content = route_components_pb2.RouteList()
            assert each.action.typed_config.Unpack(content)
            found.append(list(content.routes))
    return found[0], found[1]


def met(chain: HttpChain, route: Any) -> list[str]:
    """The filters of policies that a request meets, without the name of their chain."""
    disabled = {
        name
        for name, config in route.typed_per_filter_config.items()
        if config.type_url.endswith("envoy.config.route.v3.FilterConfig")
    }
    names = [name.rpartition("/")[2] for name in chain.filters if name not in disabled]
    return [name for name in names if ":" in name and not name.endswith(":reached")]


WITH_SECOND_FILTER = {"buffer_limit"}
IN_ROUTES = {"timeout", "retry", "mirror", "split"}


def routing(found: list[Any]) -> set[str]:
    """The kinds of routing that some of these routes have."""
    has = {
        "timeout": lambda action: action.timeout.ToNanoseconds() or action.retry_policy.per_try_timeout.ToNanoseconds(),
        "retry": lambda action: action.HasField("retry_policy"),
        "mirror": lambda action: len(action.request_mirror_policies),
        "split": lambda action: len(action.weighted_clusters.clusters),
    }
    return {name for name, test in has.items() if any(test(route.route) for route in found)}


def filter_names(hop: str, policy: Policy) -> tuple[str, ...]:
    """All filters of a policy in a hop."""
    name = filter_name(hop, policy)
    return (name, second_filter_name(name)) if policy.kind.name in WITH_SECOND_FILTER else (name,)


def wanted(hop: Hop, policies: tuple[Policy, ...]) -> list[str]:
    return [
        name.lstrip("/")
        for policy in policies
        if hop.stage(policy) is Stage.FILTER
        for name in filter_names("", policy)
    ]


def check(old: Placed, new: Placed, step: Step, made: dict[str, AdmResources]) -> None:
    plans = Plans([old, new])
    states = plans.step(0, 1, step)
    for service, parts in step.parts.items():
        hops = tuple(part.hop for part in parts)
        found = {chain.name: chain for each in made[service].listeners.values() for chain in each.filter_chains}
        for hop in hops:
            if (service, hop.name) not in step.overlays:
                continue
            table = states[service, hop.side, hop.destination, hop.port.target].table
            chain = HttpChain.of(found[hop.name])
            assert chain is not None
            unmarked, marked = branches(made[service].routes[chain.table])
            assert unmarked
            assert routing(unmarked) == {each.kind.name for each in table.unmarked} & IN_ROUTES, (step.name, hop.name)
            for route in unmarked:
                own = [name for name in met(chain, route) if not is_route_mark(name, hops)]
                assert own == wanted(hop, table.unmarked), (step.name, service, hop.name)
            for route in marked:
                own = [name for name in met(chain, route) if not is_route_mark(name, hops)]
                assert own == wanted(hop, table.unmarked if table.marked is None else table.marked)
            for branch in (unmarked, marked):
                tunnels = [route for route in branch if route.match.HasField("connect_matcher")]
                assert tunnels
                assert tunnels == [route for route in branch if route.direct_response.status == 405]
            for route in (*unmarked, *marked):
                weighted = route.route.weighted_clusters.clusters
                stay = [each for each in weighted if "/to:" not in each.name] if weighted else [route]
                headers = {header.header.key for each in stay for header in each.request_headers_to_add}
                assert (MARKER in headers) is table.marks
                others = (each for each in weighted if each not in stay)
                assert not any(header.header.key == MARKER for each in others for header in each.request_headers_to_add)
                assert all(
                    MARKER in each.request_headers_to_remove for each in (*weighted, *([] if weighted else [route]))
                )


def is_route_mark(name: str, hops: tuple[Hop, ...]) -> bool:
    """Whether a filter only tells the route table which requests a policy of routes is about."""
    kinds = ("timeout", "retry", "split", "mirror", "circuit_breaking", "load_balancing", "outlier_detection")
    return name.partition(":")[2] in kinds


@pytest.mark.long
@settings(max_examples=TABLES, deadline=None, suppress_health_check=SLOW, phases=(Phase.generate, Phase.shrink))
@given(written=chains(1, 1))
def test_tables_say_what_the_step_says(written: list[tuple[str, list[Line]]]) -> None:
    plans = [placed(*each) for each in written]
    old, new = plans
    assume(old is not None and new is not None)
    assert old is not None
    assert new is not None
    assume(Diff(old, new).moved)
    assume(not any(problem.severity is Severity.ERROR for plan in (old, new) for problem in expressible(*plan)))
    try:
        found = steps(old, new, b"key")
    except EmitError:
        return
    for name in StepName:
        frame = found[name].merged.program
        for mode, addresses in ((Mode.REDIRECT, known(old, new)), (Mode.EXPLICIT, loopback(frame))):
            made = Emitted(found[name], addresses, mode).at(found[name])
            for each in made.values():
                snapshot(each).check()
            check(old, new, found[name], made)


EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*/policies.adm"))


def variants(path: Path) -> list[Placed]:
    """An example, and the same with each of its policies pinned at either side, where that can be."""
    text = path.read_text()
    program = load(path)
    found = [Placed(program, place(program))]
    for policy in program.policies:
        for side in Side:
            try:
                other = load_text(
                    f"{text}\npin {policy.name} at {side}\n", read=lambda name: (path.parent / name).read_bytes()
                )
                found.append(Placed(other, place(other)))
            except (ProgramError, PlacementError):
                continue
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=() if path.parent.name == "bookinfo" else pytest.mark.long, id=path.parent.name)
        for path in EXAMPLES
    ],
)
def test_each_example_moves_its_policies(path: Path) -> None:
    """From the example to each variant, and back. Each step can be published for every ADM."""
    base, *others = variants(path)
    moving = [other for other in others if Diff(base, other).moved][:VARIANTS]
    for other in moving:
        for old, new in ((base, other), (other, base)):
            for step in steps(old, new, b"key").values():
                made = Emitted(step, known(old, new), Mode.REDIRECT).at(step)
                assert made.keys() == step.parts.keys()
                for each in made.values():
                    snapshot(each).check()
                check(old, new, step, made)
    assert moving or path.parent.name in STILL


LIMIT = """
app limits
service s, d { http 80 }
call s -> d
policy counted = request_count() on s -> d
policy small = buffer_limit(max: 10B) on s -> d
pin counted at egress
pin small at SIDE
"""


@pytest.mark.parametrize("sides", [("ingress", "egress"), ("egress", "ingress")])
def test_a_route_that_skips_a_limit_skips_both_of_its_filters(sides: tuple[str, str]) -> None:
    old, new = (Placed(program, place(program)) for program in (load_text(LIMIT.replace("SIDE", it)) for it in sides))
    met_by_step = []
    for step in steps(old, new, b"key").values():
        made = Emitted(step, known(old, new), Mode.REDIRECT).at(step)
        check(old, new, step, made)
        for service, hop in (("s", "egress/d:80"), ("d", "ingress/80")):
            every = (chain for each in made[service].listeners.values() for chain in each.filter_chains)  # type: ignore[attr-defined]
            chain = HttpChain.of(next(each for each in every if each.name == hop))
            assert chain is not None
            assert sum("/small:" in name for name in chain.filters) == 2
            unmarked, _ = branches(made[service].routes[chain.table])
            met_by_step += [len([name for name in met(chain, each) if name.startswith("small:")]) for each in unmarked]
    assert set(met_by_step) == {0, 2}


@pytest.mark.parametrize("side", ["ingress", "egress"])
def test_a_policy_has_one_filter_and_a_limit_of_bodies_two(side: str, tmp_path: Path) -> None:
    """Of every kind that can change sides."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    path = tmp_path / "every.adm"
    path.write_text(every_kind(side, 8080, str(tmp_path)))
    program = load(path)
    plan = Placed(program, place(program))
    emitted = {each.service: each for each in emit(*plan, loopback(program), Mode.EXPLICIT)}
    tried = set()
    for service, held in hops(*plan).items():
        expected: set[str] = set()
        chosen: set[str] = set()
        for hop in (hop for hop in held if hop.carries_requests):
            filters = [policy for policy in hop.policies if hop.stage(policy) is Stage.FILTER]
            tried.update(policy.kind.name for policy in filters)
            expected.update(name for policy in filters for name in filter_names(hop.name, policy))
            # A policy that works in a cluster or a route may have a filter that chooses it.
            chosen.update(filter_name(hop.name, policy) for policy in hop.policies if policy not in filters)
        assert expected == emitted[service].extensions.keys() - chosen
    assert {case.kind for case in CASES} - {"inner"} <= tried
