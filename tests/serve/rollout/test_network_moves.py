"""Guards that move to the network and away from it: in any rollout a request that arrives has met what one plan
enforces on it, from any caller, on any connection."""

from __future__ import annotations

from itertools import pairwise, product
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, assume, event, given, note
from hypothesis import strategies as st

from admc.serve.publication.closing import destinations
from admc.serve.rollout.diff import Diff
from admc.serve.rollout.enforcement import Frame
from admc.serve.rollout.model import Placed, StepName
from admc.serve.rollout.network import closings, relied_on
from admc.serve.rollout.steps import reasons, steps
from dsl import load_text
from dsl.diagnostics.diagnostic import ProgramError
from dsl.program import Side
from emitters.errors import EmitError
from solver.place import place
from solver.placement import PlacementError, admitted_parties
from tests.properties import examples
from tests.serve.rollout import walks
from tests.serve.rollout.walks import Judge, Leg, equal, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from admc.serve.rollout.model import Port
    from dsl.program import Policy
    from tests.serve.rollout.world import World

SLOW = [HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large]
CALLERS: Final = ("a", "b", "c", "office", "stranger")
APP: Final = """\
app walks
network_policies enforced
external office { cidr "CIDR" }
service a, b, c { http 80 }
service d { http web 80 -> 8080  http admin 81 -> ADMIN  http metrics 9100 }
call a -> d:web
"""
CALLS: Final = ("call b -> d:web\n", "call b -> d:admin\n", "call a -> d:admin\n")
CIDRS: Final = ("10.9.0.0/16", "10.9.0.0/16", "10.9.8.0/24")
LISTS: Final = ("[a, b]", "[a, b]", "[a]", "[a, c]", "[a, b, office]", "[a, b, c, office]")
SCOPES: Final = ("d", "d:web")
PLACES: Final = ("network", "network", "ingress", "egress", "")
OTHERS: Final = (
    "request_count() on * -> d:web",
    "request_count() on {a, b} -> d:web",
    'add_request_header(name: "x-a", value: "1") on a -> d:web',
    "access_log() on * -> d",
)


class Guard(NamedTuple):
    name: str
    callers: str
    scope: str
    place: str

    @property
    def text(self) -> str:
        return f"policy {self.name} = allow(callers: {self.callers}) on * -> {self.scope} accept drop\n"


class Line(NamedTuple):
    name: str
    text: str
    place: str


class Text(NamedTuple):
    """A program."""

    cidr: str
    admin: str
    calls: tuple[str, ...]
    guards: tuple[Guard, ...]
    others: tuple[Line, ...]

    def placed(self) -> Placed | None:
        """Its plan. A pin that its policy cannot have is left out; None if there is no plan without pins."""
        lines = [guard.text for guard in self.guards]
        lines += [f"policy {line.name} = {line.text}\n" for line in self.others]
        text = APP.replace("CIDR", self.cidr).replace("ADMIN", self.admin) + "".join((*self.calls, *lines))
        found = _placed(text)
        for item in (*self.guards, *self.others) if found is not None else ():
            pinned = f"{text}pin {item.name} at {item.place}\n"
            if item.place and (made := _placed(pinned)) is not None:
                text, found = pinned, made
        return found


def _placed(text: str) -> Placed | None:
    try:
        program = load_text(text)
        return Placed(program, place(program))
    except (ProgramError, PlacementError):
        return None


def guards(name: str) -> st.SearchStrategy[Guard]:
    return st.builds(Guard, st.just(name), st.sampled_from(LISTS), st.sampled_from(SCOPES), st.sampled_from(PLACES))


def others(name: str) -> st.SearchStrategy[Line]:
    return st.builds(Line, st.just(name), st.sampled_from(OTHERS), st.sampled_from(("ingress", "egress", "")))


@st.composite
def texts(draw: st.DrawFn) -> list[Text]:
    """Two or three programs of one application."""
    cidr, admin = draw(st.sampled_from(CIDRS)), draw(st.sampled_from(("8081", "8081", "8080")))
    calls = tuple(line for line in CALLS if draw(st.booleans()))
    found: list[Text] = []
    for _ in range(draw(st.integers(2, 3))):
        if draw(st.integers(0, 4)) == 0:
            cidr = draw(st.sampled_from(CIDRS))
        if draw(st.integers(0, 4)) == 0:
            calls = tuple(line for line in CALLS if draw(st.booleans()))
        names = draw(st.sampled_from((("g",), ("g",), ("g", "h"), ("h",))))
        lines = tuple(draw(others(name)) for name in draw(st.sampled_from(((), ("p",), ("p", "q")))))
        found.append(Text(cidr, admin, calls, tuple(draw(guards(name)) for name in names), lines))
    return found


class Strangers:
    """What requests of any caller meet, declared or not."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._judge = Judge(world)
        self._plans = world.plans.plans
        self._admitted = [admitted_parties(*placed) for placed in self._plans]

    def judge(self) -> None:
        targets = {port.target for placed in self._plans for port in placed.program.services["d"].ports}
        for caller, target in product(CALLERS, sorted(targets)):
            expected = [self._expected(plan, caller, target) for plan in range(len(self._plans))]
            in_place = self._judge.in_place(caller, "d", target)
            for plans, got, how in self._ways(caller, target):
                where = f"{caller} -> d at {target}: {[policy.name for policy in got]} at {how}"
                wanted = [met for plan in plans if (met := expected[plan]) is not None]
                assert any(equal(got, met, in_place) for met in wanted), (
                    f"{where}, not {[[policy.name for policy in met] for met in wanted]} of plans {sorted(plans)}"
                )
                # With policies of one plan, and arguments of either.
                admitting = [
                    plan for plan in plans if (met := expected[plan]) is not None and not _refusing(met, caller)
                ]
                assert admitting, f"{where}, and each of the plans {sorted(plans)} refuses it"

    def _expected(self, plan: int, caller: str, target: int) -> list[Policy] | None:
        """What a request of a caller meets under a plan, also where a policy refuses it; None if the NetworkPolicy does
        not let it arrive."""
        if not _admits(self._admitted[plan], caller, target):
            return None
        hops = self._world.plans.hops[plan]
        out = hops.get((caller, Side.EGRESS, "d", target))
        into = hops.get(("d", Side.INGRESS, "d", target))
        return self._met(caller, out.policies if out else (), into.policies if into else ())

    def _ways(self, caller: str, target: int) -> Iterator[tuple[set[int], list[Policy], object]]:
        """Plans of which a request that arrives may meet one, and what it meets."""
        labels = self._world.labels
        here = ("d", Side.INGRESS, "d", target)
        for now in range(len(labels)):
            outs = self._world.ends(now, (caller, Side.EGRESS, "d", target))
            intos = self._world.ends(now, here)
            for (out, sent), (into, received) in product(outs, intos):
                marked = out.marks and into.marked is not None
                there = into.marked if marked and into.marked is not None else into.unmarked
                met = self._met(caller, out.unmarked, there)
                if _refusing(met, caller):
                    continue
                # A connection is made while its proxy has a label, so while that or the next one is published.
                made = received[0]
                # Where no ADM is, none closes it.
                window = self._judge.window(now, None if here in labels[made].states else made)
                for closed in {id(it): it for label in labels[made : made + 2] for it in label.closed}.values():
                    if _admits(closed.admitted, caller, target):
                        # Of these plans the NetworkPolicies are in force for the connection.
                        yield {*window, *closed.plans}, met, (labels[now].said, sent, received, marked)

    def _met(self, caller: str, out: Iterable[Policy], into: Iterable[Policy]) -> list[Policy]:
        return [*out, *(policy for policy in into if self._judge.applies(policy, caller))]


def _refusing(met: Iterable[Policy], caller: str) -> bool:
    return any(policy.kind.name == "allow" and caller not in policy.named("caller") for policy in met)


def _admits(closed: Mapping[Port, frozenset[str]], caller: str, target: int) -> bool:
    return caller in closed.get(("d", target), frozenset((caller,)))


def judge(plans: Sequence[Placed], legs: Sequence[Leg]) -> None:
    world = walk(plans, legs)
    Strangers(world).judge()
    Judge(world).judge()


@examples(150, suppress_health_check=SLOW, phases=(Phase.generate, Phase.shrink))
@given(written=texts(), data=st.data())
def test_a_request_that_arrives_met_one_plan(written: list[Text], data: st.DataObject) -> None:
    plans = [plan for text in written if (plan := text.placed()) is not None]
    assume(len(plans) > 1)
    note(" ->\n".join(map(str, written)))
    turns = st.sampled_from((None, None, *StepName))
    legs = [Leg(number, data.draw(turns), aborted=data.draw(st.booleans())) for number in range(1, len(plans))]
    try:
        judge(plans, legs)
    except EmitError as error:
        event(f"refused: {error.diagnostics[0].message.partition('`')[2].partition('`')[2][:40]}")
        return
    diffs = [Diff(*pair) for pair in pairwise(plans)]
    event(f"moves: {any(diff.moved for diff in diffs)}")
    event(f"changes in the network: {any(diff.frame.network_changes for diff in diffs)}")


# ---- by hand ----


def plan(lines: str, cidr: str = "10.9.0.0/16") -> Placed:
    found = _placed(APP.replace("CIDR", cidr).replace("ADMIN", "8081") + lines)
    assert found is not None
    return found


G: Final = "policy g = allow(callers: [a, b]) on * -> d\n"
A: Final = "policy g = allow(callers: [a]) on * -> d\n"
H: Final = "policy h = allow(callers: [a, b]) on * -> d\n"
OFFICE: Final = "policy g = allow(callers: [a, office]) on * -> d\n"
LOG: Final = "policy l = access_log() on * -> d\npin l at ingress\n"


def at(name: str, where: str) -> str:
    return f"pin {name} at {where}\n"


MOVES: dict[str, tuple[str, str]] = {
    "to the network from ingress": (G + at("g", "ingress"), G + at("g", "network")),
    "to the network from egress": (G + at("g", "egress"), G + at("g", "network")),
    "to ingress": (G + at("g", "network"), G + at("g", "ingress")),
    "to egress": (G + at("g", "network"), G + at("g", "egress")),
    "under another name": (G + at("g", "ingress"), H + at("h", "network")),
    "narrower in the network, while the guard at ingress gets wider": (
        G + at("g", "network") + "policy h = allow(callers: [a]) on * -> d\n" + at("h", "ingress"),
        A + at("g", "network") + "policy h = allow(callers: [a, b]) on * -> d\n" + at("h", "ingress"),
    ),
}
TWO: Final = "policy g = allow(callers: [a, b]) on * -> d\npolicy h = allow(callers: [a, b]) on * -> d\n"
MOVES |= {
    "beside another guard in the network with the same callers": (
        TWO + at("g", "network") + at("h", "ingress"),
        TWO + at("g", "network") + at("h", "network"),
    ),
}
BOTH: Final = at("g", "egress") + at("h", "ingress")
EXCHANGES: Final = {
    "a guard at ingress goes, and one at egress refuses more": (
        G + "policy h = allow(callers: [a]) on * -> d\n" + BOTH,
        A + at("g", "egress"),
    ),
    "a guard at ingress comes, and one at egress refuses less": (
        A + at("g", "egress"),
        G + "policy h = allow(callers: [a]) on * -> d\n" + BOTH,
    ),
    "one refuses more, and one at the other end less": (
        G + "policy h = allow(callers: [a]) on * -> d\n" + BOTH,
        A + "policy h = allow(callers: [a, b]) on * -> d\n" + BOTH,
    ),
}
"""In each, both plans refuse `b`, and with the guards of one plan and the arguments of the other one it would pass."""
COUNT: Final = "policy p = request_count() on * -> d\n"
STAYS: Final = {
    "in the network alone": (G + at("g", "network") + LOG, A + at("g", "network") + LOG),
    "at ingress alone": (G + at("g", "ingress"), A + at("g", "ingress")),
    "renamed in the network": (G + at("g", "network"), H + at("h", "network")),
    "both refuse more": (TWO + BOTH, A + "policy h = allow(callers: [a]) on * -> d\n" + BOTH),
    "one refuses more, and a policy at the other end goes that refuses nothing": (
        G + at("g", "egress") + COUNT + at("p", "ingress"),
        A + at("g", "egress"),
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_it_is_a_move(name: str) -> None:
    plans = [plan(text) for text in MOVES[name]]
    assert Diff(*plans).moving
    for turn in (None, *StepName):
        judge(plans, [Leg(1, turn)])


@pytest.mark.parametrize("name", EXCHANGES)
def test_a_caller_that_both_plans_refuse_is_refused_in_between(name: str) -> None:
    old, new = (plan("call b -> d:web\n" + text) for text in EXCHANGES[name])
    for turn in (None, *StepName):
        judge([old, new], [Leg(1, turn)])
    assert ("d", 8080) in Diff(old, new).moving


@pytest.mark.parametrize("name", STAYS)
def test_it_is_none(name: str) -> None:
    plans = [plan(text) for text in STAYS[name]]
    assert not Diff(*plans).moving
    judge(plans, [Leg(1)])


def test_a_network_policy_that_the_old_plan_asked_for_has_to_be_in_force_too() -> None:
    """A plan that moves nothing does not wait for its NetworkPolicies, so the next one does."""
    texts = (
        H + at("h", "ingress"),
        H + COUNT + at("h", "ingress") + at("p", "egress"),
        H + COUNT + at("h", "network") + at("p", "egress"),
    )
    plans = [plan(text) for text in texts]
    moving = Diff(plans[1], plans[2]).moving
    assert not Diff(plans[0], plans[1]).moving
    assert closings(plans[1], plans[2]) == ()
    assert relied_on(plans[1], plans[2], moving) == relied_on(plans[2], plans[1], moving) == ("d",)
    judge(plans, [Leg(1), Leg(2)])


def test_a_call_that_goes_is_a_move_where_its_sender_loses_policies_and_the_network_refuses_it() -> None:
    lines = COUNT + at("p", "egress")
    old, new = plan("call b -> d:web\n" + lines), plan(lines)
    assert Diff(old, new).moving == {("d", 8080)}
    assert not Diff(new, old).moving  # the NetworkPolicy admits more once all proxies have the new plan
    judge([old, new], [Leg(1)])
    judge([new, old], [Leg(1)])


def test_a_policy_that_comes_while_the_addresses_of_an_external_change_in_the_network_is_a_move() -> None:
    header = 'policy h = add_request_header(name: "x-a", value: "1") on * -> d:web\npin h at ingress\n'
    old, new = plan(OFFICE + at("g", "network")), plan(OFFICE + at("g", "network") + header, "10.9.8.0/24")
    assert Diff(old, new).moving
    assert closings(old, new) == ("d",)
    assert not Diff(old, plan(OFFICE + at("g", "network") + header)).moving


def test_destinations_whose_network_policy_admits_fewer_are_relied_on() -> None:
    wide, narrow = plan(G + at("g", "network")), plan(A + at("g", "network"))
    opened = plan(G + at("g", "ingress"))
    assert (closings(wide, narrow), closings(narrow, wide)) == (("d",), ())
    assert (closings(opened, narrow), closings(narrow, opened)) == (("d",), ())


def test_only_addresses_that_both_plans_give_an_external_are_admitted_meanwhile() -> None:
    wide, narrow, other = (
        plan(OFFICE + at("g", "network"), cidr) for cidr in ("10.9.0.0/16", "10.9.8.0/24", "192.0.2.0/24")
    )

    def admitted(*plans: Placed) -> tuple[frozenset[str], tuple[str, ...]]:
        its = destinations(plans)["d"].admitted[8080]
        return its.parties, its.program.externals["office"].cidrs

    assert admitted(wide, narrow) == admitted(narrow, wide) == ({"a", "office"}, ("10.9.8.0/24",))
    assert admitted(narrow) == ({"a", "office"}, ("10.9.8.0/24",))
    assert admitted(wide, other)[0] == {"a"}


def test_a_party_that_is_a_service_in_one_plan_and_an_external_in_the_other_is_not_admitted_meanwhile() -> None:
    text = APP.replace("CIDR", "10.9.0.0/16").replace("ADMIN", "8081") + OFFICE + at("g", "network")
    old = _placed(text)
    new = _placed(text.replace('external office { cidr "10.9.0.0/16" }', "service office { http 80 }"))
    assert old is not None
    assert new is not None
    assert destinations([old, new])["d"].admitted[8080].parties == destinations([new, old])["d"].admitted[8080].parties
    assert destinations([old, new])["d"].admitted[8080].parties == {"a"}


def test_a_guard_that_changes_with_the_network_is_another_guard_to_older_connections() -> None:
    old, new = (plan(text) for text in MOVES["narrower in the network, while the guard at ingress gets wider"])
    frame = Frame(old, new)
    (key,) = {key for key in frame.keys if key.target == 8080}
    assert not list(frame.steady_guards(key))
    alone = Frame(plan(G + at("g", "network") + H + at("h", "ingress")), old)
    assert [policy.name for policy in alone.steady_guards(key)] == ["h"]


def test_the_reasons_name_the_network() -> None:
    there, ingress, egress = (plan(G + at("g", place)) for place in ("network", "ingress", "egress"))

    def said(old: Placed, new: Placed) -> tuple[str, ...]:
        assert steps(old, new, b"key")[StepName.PREPARE].reasons == reasons(Diff(old, new), ())
        return reasons(Diff(old, new), ())

    assert said(ingress, there) == ("`g` moves from the ingress of `d` to the network",)
    assert said(there, ingress) == ("`g` moves from the network to the ingress of `d`",)
    assert said(egress, there) == ("`g` moves from the egress of all that call `d` to the network",)


def test_a_move_that_does_not_wait_for_network_policies_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connections of a stranger that are older than the NetworkPolicy stay open beside it."""
    plans = [plan(text) for text in MOVES["to the network from ingress"]]
    judge(plans, [Leg(1)])
    monkeypatch.setattr(walks, "relied_on", lambda *plans: ())
    with pytest.raises(AssertionError, match=r"c -> d at 8080: \[\] at"):
        judge(plans, [Leg(1)])
