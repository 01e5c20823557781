"""What the kinds of the examples do that are not the prelude's. From `examples/own_kind/kinds.adm`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.fidelity import echo_services
from tests.fidelity.kinds import number, refusal, text
from tests.fidelity.message import Sighting, joined
from tests.fidelity.own_kinds import ALL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsl.program import Policy
    from tests.fidelity.judge import Behaviour, Handler, Inner, Place, Run
    from tests.fidelity.message import Answer, Message

CHANGING: Final = frozenset({"POST", "PUT", "DELETE", "PATCH"})


def same_site(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    """A write has to come from a page of this site, or of the one that is named."""
    origin = ",".join(message.values("origin") or message.values("referer"))
    own = f"{place.destination}:{place.port.number}"
    site = origin.partition("://")[2].partition("/")[0] or origin
    if message.method in CHANGING and site not in (own, text(policy, "also")):
        return refusal(place, 403)
    return inner(message)


def bandwidth(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    """Up to a second's worth may pass at once, the rest as fast as is said."""
    answer = inner(message)
    run.wait(max(0.0, answer.size / (number(policy, "kib_per_second") * 1024) - 1))
    run.late += 1
    return answer


HANDLERS: Final[Mapping[str, Handler]] = {**ALL, "same_site": same_site, "bandwidth": bandwidth}


def serve(seen: Sighting, arrival: int) -> Behaviour:
    """As `servers.echo`, with the padding that was asked for."""
    behaviour = echo_services.echo(seen, arrival)
    return behaviour._replace(size=behaviour.size + int(joined(seen.headers).get("x-echo-body", "0")))
