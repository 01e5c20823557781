"""Policies change sides under traffic beside others: guards, copies, attempts, and names that go to others.

Each has a service of its own, and all move in one walk.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import pytest

from admc.testbed.envoys import envoy_binary
from admc.transition.marker import MARKER
from admc.transition.model import Placed
from admc.transition.steps import steps
from dsl import load_text
from solver.place import place
from tests.transition.bed import Bed
from tests.transition.callers import Keeper, answered
from tests.transition.move import KEY, PORT, walk

if TYPE_CHECKING:
    from pathlib import Path

    from admc.testbed.echo import Seen

ENVOY = envoy_binary()
pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

PROGRAM = """
app move
service shop, guarded, copied, spare, repeated, renamed { http PORT }
call shop -> guarded, copied, spare, repeated, renamed

policy slow    = timeout(after: 20s) on shop -> {guarded, renamed}

policy spoof   = deny() on shop -> guarded when header("x-inner") == "1"
policy inner   = set_request_header(name: "x-inner", value: "1") on shop -> guarded
pin spoof at SIDE
pin inner at SIDE

policy counted = request_count() on shop -> copied
policy copies  = mirror(to: spare) on shop -> copied
policy seen    = access_log() on shop -> copied
pin counted at SIDE
pin seen at ingress

policy again   = retry(attempts: 3) on shop -> repeated
policy once    = add_request_header(name: "x-once", value: "1") on shop -> repeated
pin once at SIDE

policy moved   = request_count() on shop -> renamed
policy nameNOW = add_request_header(name: "x-once", value: "1") on shop -> renamed
policy outNOW  = deny() on shop -> renamed when header("x-out") == "1"
pin moved at SIDE
pin nameNOW at ingress
pin outNOW at ingress

// Without redirection listeners have to be there before what moves to them: they are instead of the service's own.
policy breaker = circuit_breaking(max_connections: 1000) on shop -> {guarded, copied, repeated, renamed}
"""
PAUSE_SECONDS = 0.03


class Moves(NamedTuple):
    """What came of a walk."""

    passed: dict[str, list[Keeper]]
    """The callers of each service whose requests may pass."""
    refused: dict[str, list[Keeper]]
    seen: list[Seen]
    secrets: frozenset[str]
    logs: Path

    def arrived(self, service: str) -> list[Seen]:
        return [each for each in self.seen if each.service == service]


def placed(side: str, number: int) -> Placed:
    written = PROGRAM.replace("PORT", str(PORT)).replace("SIDE", side).replace("NOW", str(number))
    program = load_text(written)
    return Placed(program, place(program))


@pytest.fixture(scope="module", params=[("ingress", "egress"), ("egress", "ingress")], ids="-".join)
def moves(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Moves:
    folder = tmp_path_factory.mktemp("moves")
    old, new = (placed(side, number) for number, side in enumerate(request.param))
    secrets = steps(old, new, KEY)[0].secrets
    # Whoever knows what it is, of this service or of another, may spell it otherwise.
    spelt = [{MARKER.upper(): secret} for secret in secrets]
    spelt += [{MARKER.title(): f"{secret},{secret}"} for secret in secrets]
    may: dict[str, list[dict[str, str]]] = {
        "guarded": [{}],
        "copied": [{}, {MARKER: ""}, *spelt],
        "repeated": [{"x-echo-status": "503,200"}],
        "renamed": [{}],
    }
    must_not = {"guarded": [{"x-inner": "1"}], "renamed": [{"x-out": "1"}]}
    assert ENVOY is not None
    with Bed(old, folder, ENVOY) as bed:
        with ExitStack() as stack:

            def callers(asked: dict[str, list[dict[str, str]]]) -> dict[str, list[Keeper]]:
                made = {
                    service: [Keeper(bed.egress("shop", service), each, PAUSE_SECONDS) for each in headers]
                    for service, headers in asked.items()
                }
                for keeper in chain(*made.values()):
                    stack.enter_context(keeper)
                return made

            passed, refused = callers(may), callers(must_not)
            walk(bed, (old, new), list(chain(*passed.values(), *refused.values())))
        return Moves(passed, refused, list(bed.services.record.all()), secrets, folder / "logs")


def test_what_is_harmless_by_itself_is_not_with_another(moves: Moves) -> None:
    """Met twice, the guard would refuse what the other policy wrote the first time."""
    assert len(moves.arrived("guarded")) == len(answered(moves.passed["guarded"], 200))
    answered(moves.refused["guarded"], 403)
    assert {each.header("x-inner") for each in moves.arrived("guarded")} == {("1",)}


def test_no_copy_and_no_log_has_the_marker(moves: Moves) -> None:
    answered(moves.passed["copied"], 200)
    # What an application sends under the name may pass where nothing moves, but no ADM's own value ever does.
    own = set(answered(moves.passed["copied"][:2], 200))
    for service in ("copied", "spare"):
        arrived = [each for each in moves.arrived(service) if own & set(each.header("x-echo-id"))]
        assert arrived
        assert not any(any(each.header(MARKER)) for each in arrived)
    logs = [path.read_text(errors="replace") for path in moves.logs.rglob("*") if path.is_file()]
    assert logs
    assert len(moves.secrets) == len(moves.passed)
    assert not any(secret in log for log in logs for secret in moves.secrets)


def test_every_attempt_meets_it_once(moves: Moves) -> None:
    assert len(moves.arrived("repeated")) == 2 * len(answered(moves.passed["repeated"], 200))
    assert {each.header("x-once") for each in moves.arrived("repeated")} == {("1",)}


def test_a_policy_gets_another_name_where_another_moves(moves: Moves) -> None:
    assert len(moves.arrived("renamed")) == len(answered(moves.passed["renamed"], 200))
    answered(moves.refused["renamed"], 403)
    assert {each.header("x-once") for each in moves.arrived("renamed")} == {("1",)}
