"""What the judge of `tests/fidelity` says of one request: the policies that it meets, and the one that ends it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.fidelity.judge import Behaviour, Judge
from tests.fidelity.kinds import HANDLERS
from tests.fidelity.state import World

if TYPE_CHECKING:
    from dsl.program import Policy, Program
    from tests.fidelity.judge import Handler, Inner, Place, Run
    from tests.fidelity.message import Answer, Message, Sent, Sighting

_MET = "met "
_ENDS = "ends "


class Answered(NamedTuple):
    met: frozenset[str]
    by: str | None
    """The policy that refused or answered the request; None: a service answered."""


def answers(program: Program, sent: Sent, *, declared: bool, known: Collection[str] = ()) -> set[Answered]:
    """Every answer that is right. `known` are policies at the ingress of the destination, whose ADM knows the addresses
    of all their sources: also of those that do not declare the call."""
    if declared:
        return _answers(program, sent)
    found = set()
    # A service that calls itself may have the address of its node.
    sources = {sent.source, "node"} if sent.source == sent.destination else {sent.source}
    for more in (frozenset[str](), frozenset(known)):
        # Undeclared calls meet guards and policies for every caller (docs/language.md).
        applying = tuple(
            policy for policy in program.policies if policy.kind.guard or policy.open_sources or policy.name in more
        )
        for source in sources:
            found |= _answers(replace(program, policies=applying), sent._replace(source=source))
    return found


def _answers(program: Program, sent: Sent) -> set[Answered]:
    watch = _Watch()
    judge = Judge(program, _serve, {name: watch(each) for name, each in HANDLERS.items()})
    found = set()
    for outcome in judge.outcomes(World(), sent):
        met = frozenset(name.removeprefix(_MET) for name in outcome.counted if name.startswith(_MET))
        ended = {at: name for name, at in outcome.counted.items() if name.startswith(_ENDS)}
        refused = outcome.answer.by in (None, "judge")  # a refused caller receives the authorization service's answer
        last = ended[max(ended)].removeprefix(_ENDS) if ended and refused else None
        found.add(Answered(met, last))
    return found


def _serve(seen: Sighting, _count: int) -> Behaviour:
    """Every service answers at once; the authorization service refuses some requests."""
    refuses = seen.service == "judge" and ("x-in", "client") in seen.headers
    return Behaviour(403 if refuses else None)


class _Watch:
    """Notes in `Run.counted` which policies a request meets, and when one ends it. A copy of it is another request."""

    def __init__(self) -> None:
        self.clock = count(1)
        self.copying = False

    def __call__(self, handler: Handler) -> Handler:
        def watched(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
            if self.copying:
                return handler(run, policy, place, message, inner)
            run.counted[_MET + policy.name] += 1
            went_on: list[Message] = []

            def inside(changed: Message) -> Answer:
                went_on.append(changed)
                return self._switched(False, lambda: inner(changed))

            answer = self._switched(policy.kind.name == "mirror", lambda: handler(run, policy, place, message, inside))
            ended = answer.by in (None, "judge") and (answer.gave_up if policy.kind.name == "timeout" else not went_on)
            if ended and policy.kind.name != "split":
                run.counted[_ENDS + policy.name] = next(self.clock)
            return answer

        return watched

    def _switched(self, copying: bool, then: Callable[[], Any]) -> Any:
        before, self.copying = self.copying, copying
        try:
            return then()
        finally:
            self.copying = before
