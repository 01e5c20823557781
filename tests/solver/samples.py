"""Kinds, programs and placements that the tests of the verifier share, and ways to change a placement by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dsl.program import Element, Metric, Place, Port, Program, Protocol, Stage, Verb
from solver.placement import Costs, Decision, Placement, Rule
from solver.verify.verifier import verify
from tests.solver.build import EGRESS, INGRESS, Spec, effect, external, kind, placement, program, service, tasks

QUOTA = kind("quota", effects=[effect(Verb.COUNTS), effect(Verb.REJECTS)], state=True)
RETRY = kind("retry", ingress=None, egress=Stage.ROUTING, effects=[effect(Verb.REPEATS)])
TIMEOUT = kind("timeout", ingress=None, egress=Stage.ROUTING, effects=[effect(Verb.TIMES_OUT)])
DELAY = kind("delay", effects=[effect(Verb.DELAYS)])
COUNT = kind("count", effects=[effect(Verb.COUNTS)])
DENY = kind("deny", effects=[effect(Verb.REJECTS)], guard=True)
MIRROR = kind("mirror", ingress=None, egress=Stage.ROUTING, effects=[effect(Verb.COPIES)], takes={"to": "service"})
HEADER = kind("header", effects=[effect(Verb.WRITES, Element.HEADER, "x-a")])
MTLS = kind("mtls", effects=[], both=True)
REQUESTS = (Protocol.HTTP, Protocol.GRPC)
ONLY_HTTP = kind("only_http", effects=[], protocols=REQUESTS)

IN, OUT = INGRESS, EGRESS
Places = Mapping[str, Place]


def place(of: Program, places: Places, costs: Costs | None = None) -> Placement:
    """A placement by `policy@destination`, or by policy where it has one place everywhere."""
    chosen = {task.key: places.get("@".join(task.key), places.get(task.policy.name, IN)) for task in tasks(of)}
    return placement(of, chosen, costs)


def rules(of: Program, what: Placement, costs: Costs | None = None) -> set[Rule | None]:
    return {violation.rule for violation in verify(of, what, costs or Costs())}


# a, b and c call d; a calls e; the outside calls a. One quota for each destination, one retry.
SHOP = program(
    [service("a"), service("b", replicas=3), service("c"), service("d"), service("e"), external("internet")],
    [("a", "d"), ("b", "d"), ("c", "d"), ("a", "e"), ("internet", "a")],
    [
        Spec("limit", QUOTA, {"a"}, {"d", "e"}),
        Spec("again", RETRY, {"a"}, {"e"}),
        Spec("log", COUNT, "*", {"d"}),
        Spec("front", DENY, {"internet"}, {"a"}),
    ],
    objective=[Metric.ADMS, Metric.SIDECARS],
)
RIGHT = place(SHOP, {"limit": OUT, "again": OUT})


def change(what: Placement, policy: str, destination: str, **fields: object) -> Placement:
    """The placement with other fields in one decision; what follows from it is left as it was."""
    decisions = [
        replace(decision, **fields) if (decision.policy, decision.destination) == (policy, destination) else decision  # type: ignore[arg-type]
        for decision in what.decisions
    ]
    return replace(what, decisions=tuple(decisions))


def without(what: Placement, policy: str, destination: str) -> Placement:
    kept = [d for d in what.decisions if (d.policy, d.destination) != (policy, destination)]
    return replace(what, decisions=tuple(kept))


def decision(what: Placement, policy: str, destination: str) -> Decision:
    return next(d for d in what.decisions if (d.policy, d.destination) == (policy, destination))


TRUSTED = [service("a"), service("b"), service("d")]
PORTS = (Port(8080, Protocol.HTTP, 8080), Port(9000, Protocol.TCP, 9000))
TWO = [("a", "d"), ("b", "d")]
