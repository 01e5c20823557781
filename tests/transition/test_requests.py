"""The same question from the side of the requests: whom each filter is about is asked anew, and policies have no names.

Whoever meets a policy under either plan meets one that does the same in every step; and where one guard is replaced by
another, one of the two. Callers are all that either program knows, whether they are declared to call or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from admc.transition.older import names, renamed
from admc.transition.steps import steps
from dsl.program import Side
from tests.transition.test_walks import Line, placed
from tests.transition.world import moments, ways

if TYPE_CHECKING:
    from admc.transition.model import Placed
    from dsl.program import Policy, Port

APP = """
app requests
service s, t, w { http 80 }
service d { http web 80  http admin 81 }
call s, t -> d:web
call t -> d:admin
"""
APPS = (APP, APP, APP + "service n { http 80 }\ncall n -> d:web\n", APP.replace("call t -> d:admin\n", ""))
GUARDS = ("deny()", "allow(callers: [s])", "allow(callers: [s, t])")
KINDS = (*GUARDS, *GUARDS, "rate_limit(requests: 5, per: 1s)", "rate_limit(requests: 7, per: 1s)", "request_count()")
SCOPES = ("s -> d:web", "t -> d:web", "{s, t} -> d:web", "* except d -> d:web", "* except {s, d} -> d:web", "* -> d")
LINES = st.builds(
    Line,
    st.sampled_from("abc"),
    st.sampled_from(KINDS),
    st.sampled_from(SCOPES),
    st.just(""),
    st.sampled_from(("ingress", "egress")),
)
ENDS = st.lists(LINES, min_size=1, max_size=3, unique_by=lambda line: line.name)


class Sent(NamedTuple):
    """A request: all that `ways` looks at of a call."""

    source: str
    destination: str
    port: Port


What = tuple[str, tuple[tuple[str, str], ...]]


def what(policy: Policy) -> What:
    """What it does, whatever it is called and whoever it is about."""
    return policy.kind.name, tuple((name, str(value)) for name, value in policy.arguments.items())


def known(plan: Placed) -> frozenset[str]:
    return frozenset((*plan.program.services, *plan.program.externals))


def meant(policy: Policy, caller: str, parties: frozenset[str]) -> bool:
    """Whether its filter at a receiver is about a caller, where these are known."""
    return caller in policy.sources if caller in parties else policy.open_sources


def enforced(plan: Placed, sent: Sent) -> list[Policy]:
    found = []
    for decision in plan.placement.decisions:
        policy = plan.program.policy_by_name[decision.policy]
        calls = [plan.program.calls[index] for index in decision.calls]
        numbers = {call.port.number for call in calls} | set(decision.ports)
        here = sent.port.number in numbers and meant(policy, sent.source, known(plan))
        own = any((call.source, call.port.number) == (sent.source, sent.port.number) for call in calls)
        if decision.destination == sent.destination and (here if Side.INGRESS in decision.sides else own):
            found.append(policy)
    return found


def judge(old: Placed, new: Placed) -> None:
    following = renamed(new, names({}, old, new))
    walk = moments(steps(old, following, b"key"), old)
    # Where a plan stands alone its own program says who is known, and so does a policy's home between two plans.
    alone = {id(policy): known(plan) for plan in (old, following) for policy in plan.program.policies}
    both = known(old) | known(new)

    def parties(policy: Policy) -> frozenset[str]:
        home = policy.home
        return alone.get(id(policy), both) if home is None else frozenset((*home.services, *home.externals))

    for port in old.program.services["d"].ports:
        for caller in sorted({*old.program.services, *new.program.services} - {"d"}):
            sent = Sent(caller, "d", port)
            before, after = enforced(old, sent), enforced(new, sent)
            kept = {what(policy) for policy in before} & {what(policy) for policy in after}
            went = {what(policy) for policy in before if policy.kind.guard} - kept
            came = {what(policy) for policy in after if policy.kind.guard} - kept
            for way in ways(walk, sent):
                met = {
                    what(each.content)
                    for side, each in way.policies
                    if side is Side.EGRESS or meant(each.content, caller, parties(each.content))
                }
                at = f"{walk[way.moment].phase} {way.how}, `{caller}` to {port.number}: {met}"
                assert kept <= met, f"a gap of {kept - met} at {at}"
                if not {"d"} & (set(old.placement.closed) | set(new.placement.closed)):
                    assert all(one in met or other in met for one in went for other in came), f"no guard at {at}"


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(ends=st.tuples(ENDS, ENDS), apps=st.tuples(st.sampled_from(APPS), st.sampled_from(APPS)))
def test_nobody_is_left_out(ends: tuple[list[Line], list[Line]], apps: tuple[str, str]) -> None:
    old, new = placed(ends[0], apps[0]), placed(ends[1], apps[1])
    assume(old is not None and new is not None)
    assert old is not None
    assert new is not None
    note(" ->\n".join(app + "".join(line.text for line in each) for each, app in zip(ends, apps, strict=True)))
    judge(old, new)
    judge(new, old)
