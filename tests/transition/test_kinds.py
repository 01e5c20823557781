"""Kinds of all sorts change sides under traffic: connections, programs, guards, and what meets at one hop."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from admc.transition.marker import MARKER
from admc.transition.model import Placed
from admc.transition.steps import steps
from dsl import load
from emitters.dial import sender
from solver.place import place
from tests.testbed.envoys import envoy_binary
from tests.transition.bed import Bed, Keeper
from tests.transition.test_moves import KEY, PORT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.transition.bed import Dial

ENVOY = envoy_binary()
pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
SIDES = pytest.mark.parametrize("sides", [("ingress", "egress"), ("egress", "ingress")])
AMOUNT = 15
"""Requests in each step."""


def walk(bed: Bed, ends: tuple[Placed, Placed], callers: list[Keeper]) -> None:
    """Take all steps, each for some requests of every caller."""
    for step in steps(*ends, KEY):
        bed.publish(step)
        until = time.monotonic() + 30
        for caller in callers:
            before = len(caller.answers)
            while len(caller.answers) < before + AMOUNT:
                assert time.monotonic() < until
                time.sleep(0.01)


HEAD = """
app move
service shop { http PORT }
service till { http PORT }
service cart { http PORT  tcp raw RAW }
service spare { http PORT }
call shop -> cart:PORT, cart:raw, spare
call till -> cart:PORT, cart:raw
policy spread  = load_balancing(policy: random) on {shop, till} -> cart:raw
"""
FOOT = """
policy breaker_web = circuit_breaking(max_connections: 1000) on {shop, till} -> cart:web
policy breaker_raw = circuit_breaking(max_connections: 1000) on {shop, till} -> cart:raw
"""
"""Without redirection listeners have to be there before what moves to them: they are instead of the service's own."""


def ends(text: str, sides: tuple[str, str], folder: Path) -> tuple[Placed, Placed]:
    """Both programs; `SIDE` and `OTHER` are where something is pinned in each, `NOW` is the number of the program."""
    found = []
    for number, side in enumerate(sides):
        other = {"ingress": "egress", "egress": "ingress"}[side]
        replaced = {"PORT": str(PORT), "RAW": str(PORT + 1), "SIDE": side, "OTHER": other, "NOW": str(number)}
        written = HEAD.replace("cart:PORT", "cart:web").replace("http PORT  tcp", "http web PORT  tcp") + text + FOOT
        for word, value in replaced.items():
            written = written.replace(word, value)
        path = folder / f"{number}.adm"
        path.write_text(written)
        program = load(path)
        found.append(Placed(program, place(program)))
    return found[0], found[1]


MANY = """
policy first   = request_count() on shop -> cart:web
policy script  = lua(script: "count.lua") on shop -> cart:web
policy spoof   = deny() on shop -> cart:web when header("x-inner") == "1"
policy inner   = set_request_header(name: "x-inner", value: "1") on shop -> cart:web
policy follows = add_request_header(name: "x-follows", value: "1") on shop -> cart:web when header("x-inner") == "1"
policy stays   = add_request_header(name: "x-stays", value: "1") on shop -> cart:web when header("x-inner") == "1"
policy wait    = fault_delay(delay: 1ms) on shop -> cart:web
policy seen    = access_log() on shop -> cart:web
pin first at egress
pin script at SIDE
pin spoof at SIDE
pin inner at SIDE
pin follows at SIDE
pin stays at ingress
"""
SCRIPT = """
function envoy_on_request(handle)
  handle:headers():add("x-script", "1")
end
"""


@SIDES
def test_what_meets_at_one_hop_moves_together_and_in_order(sides: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "count.lua").write_text(SCRIPT)
    both = ends(MANY, sides, tmp_path)
    assert ENVOY is not None
    with Bed(both[0], tmp_path, ENVOY) as bed:
        dial = bed.egress("shop", "cart")
        with Keeper(dial, {}) as passed, Keeper(dial, {"x-inner": "1"}) as refused:
            walk(bed, both, [passed, refused])
        assert {answer[1] for answer in passed.answers} == {200}
        assert {answer[1] for answer in refused.answers} == {403}
        arrived = [each for each in bed.services.record.all() if each.service == "cart"]
        assert len(arrived) == len(passed.answers)
        for name in ("x-script", "x-inner", "x-follows", "x-stays"):
            assert {each.header(name) for each in arrived} == {("1",)}, name


GUARDS = """
policy slow    = timeout(after: 20s) on {shop, till} -> cart:web
policy spoof = deny() on shop -> cart:web when header("x-inner") == "1"
policy inner = set_request_header(name: "x-inner", value: "1") on shop -> cart:web
pin spoof at SIDE
pin inner at SIDE
"""


@SIDES
def test_what_is_harmless_by_itself_is_not_with_another(sides: tuple[str, str], tmp_path: Path) -> None:
    """Met twice, the guard would refuse what the other policy wrote the first time."""
    both = ends(GUARDS, sides, tmp_path)
    assert ENVOY is not None
    with Bed(both[0], tmp_path, ENVOY) as bed:
        dial = bed.egress("shop", "cart")
        with Keeper(dial, {}) as passed, Keeper(dial, {"x-inner": "1"}) as refused:
            walk(bed, both, [passed, refused])
        assert {answer[1] for answer in passed.answers} == {200}
        assert {answer[1] for answer in refused.answers} == {403}


COPIES = """
policy counted = request_count() on shop -> cart:web
policy copies  = mirror(to: spare) on shop -> cart:web
policy seen    = access_log() on shop -> cart:web
pin counted at SIDE
pin seen at ingress
"""


@SIDES
def test_no_copy_and_no_log_has_the_marker(sides: tuple[str, str], tmp_path: Path) -> None:
    both = ends(COPIES, sides, tmp_path)
    assert ENVOY is not None
    walked = steps(*both, KEY)
    (secret,) = walked[0].secrets
    with Bed(both[0], tmp_path, ENVOY) as bed:
        dial = bed.egress("shop", "cart")
        # What an application sends under the name may pass where nothing moves, but no ADM's own value ever does.
        spelt: list[dict[str, str]] = [
            {},
            {MARKER: ""},
            {MARKER.upper(): secret},
            {MARKER.title(): f"{secret},{secret}"},
        ]
        callers = [Keeper(dial, headers) for headers in spelt]
        with callers[0], callers[1], callers[2], callers[3]:
            walk(bed, both, callers)
        assert {answer[1] for caller in callers for answer in caller.answers} == {200}
        seen = bed.services.record.all()
        assert {each.service for each in seen} == {"cart", "spare"}
        own = {answer[0] for caller in callers[:2] for answer in caller.answers}
        assert not any(any(each.header(MARKER)) for each in seen if own & set(each.header("x-echo-id")))
    logs = [path.read_text(errors="replace") for path in (tmp_path / "logs").rglob("*") if path.is_file()]
    assert logs
    assert not any(secret in log for log in logs)


REPEATED = """
policy again = retry(attempts: 3) on shop -> cart:web
policy once  = add_request_header(name: "x-once", value: "1") on shop -> cart:web
pin once at SIDE
"""


@SIDES
def test_every_attempt_meets_it_once(sides: tuple[str, str], tmp_path: Path) -> None:
    both = ends(REPEATED, sides, tmp_path)
    assert ENVOY is not None
    with Bed(both[0], tmp_path, ENVOY) as bed:
        with Keeper(bed.egress("shop", "cart"), {"x-echo-status": "503,200"}) as caller:
            walk(bed, both, [caller])
        assert {answer[1] for answer in caller.answers} == {200}
        arrived = bed.services.record.all()
        assert len(arrived) == 2 * len(caller.answers)
        assert {each.header("x-once") for each in arrived} == {("1",)}


RENAMED = """
policy slow    = timeout(after: 20s) on {shop, till} -> cart:web
policy moved   = request_count() on shop -> cart:web
policy nameNOW = add_request_header(name: "x-once", value: "1") on shop -> cart:web
policy outNOW  = deny() on shop -> cart:web when header("x-out") == "1"
pin moved at SIDE
pin nameNOW at ingress
pin outNOW at ingress
"""


@SIDES
def test_a_policy_gets_another_name_where_another_moves(sides: tuple[str, str], tmp_path: Path) -> None:
    both = ends(RENAMED, sides, tmp_path)
    assert ENVOY is not None
    with Bed(both[0], tmp_path, ENVOY) as bed:
        dial = bed.egress("shop", "cart")
        with Keeper(dial, {}) as passed, Keeper(dial, {"x-out": "1"}) as refused:
            walk(bed, both, [passed, refused])
        assert {answer[1] for answer in passed.answers} == {200}
        assert {answer[1] for answer in refused.answers} == {403}
        assert {each.header("x-once") for each in bed.services.record.all()} == {("1",)}


class Connections:
    """A caller that opens one connection after the other."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._stop = threading.Event()
        self.answers: list[bool] = []
        """Whether each was answered."""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Connections:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with self._dial() as wire:
                    wire.sendall(b"hello\n")
                    self.answers.append(bool(wire.recv(100)))
            except ConnectionError:
                self.answers.append(False)
            self._stop.wait(0.02)


TCP = """
policy who   = allow(callers: [shop]) on {shop, till} -> cart:raw
policy seen  = access_log() on {shop, till} -> cart:raw
policy moved = request_count() on shop -> cart:web
pin who at SIDE
pin seen at SIDE
pin moved at OTHER
"""


@SIDES
def test_connections_are_guarded_throughout(sides: tuple[str, str], tmp_path: Path) -> None:
    both = ends(TCP, sides, tmp_path)
    said = [reason for step in steps(*both, KEY) for reason in step.reasons]
    assert any("connections" in reason and "`seen` meet it twice" in reason for reason in said)
    assert ENVOY is not None
    with Bed(both[0], tmp_path, ENVOY) as bed:
        address, own = bed.addresses.egress["shop", "cart"], sender(bed.addresses, "shop")
        other, its = bed.addresses.egress["till", "cart"], sender(bed.addresses, "till")
        with (
            Connections(lambda: socket.create_connection((address, PORT + 1), 10, (own, 0))) as passed,
            Connections(lambda: socket.create_connection((other, PORT + 1), 10, (its, 0))) as refused,
        ):
            for step in steps(*both, KEY):
                bed.publish(step)
                before, until = len(refused.answers), time.monotonic() + 30
                while len(refused.answers) < before + AMOUNT:
                    assert time.monotonic() < until
                    time.sleep(0.01)
        assert set(passed.answers) == {True}
        assert set(refused.answers) == {False}
