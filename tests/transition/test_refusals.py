"""A real Envoy refuses a step: the old side holds, it is told who and why, and the next good plan goes on."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from admc.__main__ import main
from admc.testbed.envoys import envoy_binary
from admc.transition.model import Placed
from dsl import load
from solver.place import place
from tests.serve.server_process import served
from tests.serve.test_server import write
from tests.testbed.ports import free_port
from tests.transition.bed import Bed
from tests.transition.callers import Keeper
from tests.transition.move import PORT, phases

if TYPE_CHECKING:
    from pathlib import Path

    from tests.serve.server_process import Served

ENVOY = envoy_binary()
pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

PROGRAM = """
app move
service shop, till, cart, spare { http PORT }
call shop, till -> cart
call shop -> spare

// Envoy takes no number below 1, and no script that it cannot read.
@ingress @egress
kind slow_lane(kbps: int) for http template "lane.yaml"
@ingress
kind script() for http template "script.yaml"

policy once    = add_request_header(name: "x-once", value: "1") on {shop, till} -> cart
policy closed  = deny() on {shop, till} -> cart when header("x-out") == "1"
policy slow    = timeout(after: 20s) on {shop, till} -> cart
policy named   = script() on {shop, till} -> cart
policy rank    = set_request_header(name: "x-rank", value: "RANK") on {shop, till} -> cart
MORE
policy breaker = circuit_breaking(max_requests: 1000) on {shop, till} -> cart
pin once at SIDE
pin closed at SIDE
pin rank at ingress
"""
LANE = """
"@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
default_source_code: {inline_string: "assert(${kbps} > 0, 'too narrow')"}
"""
"""Without width it fails when it is run, which only an Envoy does."""
SCRIPT = """
"@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
default_source_code: {filename: "FOLDER/script.lua"}
"""
GOOD = 'function envoy_on_request(handle)\n  handle:headers():add("x-script", "1")\nend\n'
OPTIONS = ("policies.adm", "--mode", "explicit", "--state", "kept")
AMOUNT = 20


def text(side: str, rank: str = "1", more: str = "") -> str:
    written = PROGRAM.replace("SIDE", side).replace("RANK", rank).replace("MORE", more)
    return written.replace("PORT", str(PORT))


class Moved:
    """An application with a server, and callers whose every request has to meet `once` and `closed`."""

    def __init__(self, folder: Path, stack: ExitStack, capsys: pytest.CaptureFixture[str], more: str = "") -> None:
        self._capsys = capsys
        self.program = folder / "policies.adm"
        self.script = folder / "script.lua"
        (folder / "lane.yaml").write_text(LANE)
        (folder / "script.yaml").write_text(SCRIPT.replace("FOLDER", str(folder)))
        self.script.write_text(GOOD)
        self.program.write_text(text("ingress", more=more))
        loaded = load(self.program)
        port = free_port()
        assert ENVOY is not None
        self.server: Served = stack.enter_context(served(folder, *OPTIONS, xds=f"127.0.0.1:{port}"))
        self.bed = stack.enter_context(Bed(Placed(loaded, place(loaded)), folder, ENVOY, port))
        shop, till = self.bed.egress("shop", "cart"), self.bed.egress("till", "cart")
        self.passed = [Keeper(shop, {}), Keeper(till, {})]
        self.refused = [Keeper(shop, {"x-out": "1"}), Keeper(till, {"x-out": "1", "x-admc-met": "guess"})]
        self._away: dict[int, set[int]] = {id(keeper): set() for keeper in (*self.passed, *self.refused)}
        """Which answers came while a proxy was away that had to be passed."""
        for keeper in (*self.passed, *self.refused):
            stack.enter_context(keeper)
        self.more()

    def more(self) -> None:
        """Until every caller has asked some times more."""
        for keeper in (*self.passed, *self.refused):
            before = len(keeper.answers)
            self.server.until(lambda: len(keeper.answers) >= before + AMOUNT)  # noqa: B023 - it ends here

    def phases(self) -> list[str]:
        return phases(self.server)

    def write(self, program: str) -> int:
        """Another program, and how many steps were taken before it."""
        count = len(self.phases())
        write(self.program, program)
        return count

    def stops(self, service: str, since: int, phases: list[str], words: str) -> None:
        """A service's proxy refuses the last of these steps: it stays the last, and people can read why."""
        node = self.bed.envoys.running[service].node
        told: list[str] = []

        def is_told() -> bool:
            self._capsys.readouterr()
            status = main(["status", "--server", f"http://{self.server.ops}", "--detailed-exitcode"])
            told[:] = [self._capsys.readouterr().out]
            return status == 2 and "refused TypedExtensionConfig: " in told[0]

        self.server.until(lambda: self.phases()[since:] == phases)
        self.server.until(is_told)
        assert f"{service}  {node}" in told[0]
        assert words in told[0]
        assert f"step `{phases[-1]}`" in self.server.status()["server"]["why"]
        logged = self.server.events("refused")
        assert any(event["node"] == node and words in event["said"] for event in logged)
        self.more()
        assert self.phases()[since:] == phases
        self._restart(service)
        self.more()
        assert self.phases()[since:] == phases

    def _restart(self, service: str) -> None:
        """A new proxy comes up on what the one before it had, and its callers notice no more than that it was away."""
        keepers = [*self.passed, *self.refused]
        before = [len(keeper.answers) for keeper in keepers]
        self.bed.envoys.restart(service, self.program.parent / f"{service}.json")
        for keeper, first in zip(keepers, before, strict=True):
            # What was under way when the proxy was there again may have begun before.
            self._away[id(keeper)].update(range(first, len(keeper.answers) + 2))

    def judge(self, since: int, ranks: str) -> None:
        """`since` is how many requests had arrived when another plan ended what was refused in `final`: on connections
        that are older than it, what had moved may then be met twice."""
        for keepers, status in ((self.passed, 200), (self.refused, 403)):
            for keeper in keepers:
                away = self._away[id(keeper)]
                odd = [answer for at, answer in enumerate(keeper.answers) if answer[1] != status and at not in away]
                assert odd == []
                assert 200 not in {answer[1] for answer in keeper.answers} - {status}
        arrived = self.bed.services.record.all()
        names = [seen.header("x-echo-id") for seen in arrived]
        assert len(set(names)) == len(names)
        assert {seen.header("x-once") for seen in arrived[:since]} == {("1",)}
        assert {seen.header("x-once") for seen in arrived[since:]} <= {("1",), ("1", "1")}
        assert arrived[-1].header("x-once") == ("1",)
        assert {seen.header("x-script") for seen in arrived} == {("1",)}
        assert {seen.header("x-rank") for seen in arrived} == {(rank,) for rank in ranks}
        assert not any(seen.header("x-out") or seen.header("x-admc-met") for seen in arrived)


def test_a_step_that_a_proxy_refuses_is_the_last_until_a_good_plan_comes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        it = Moved(tmp_path, stack, capsys)

        # A sender refuses what it gets together with the order to mark requests, which the other one took.
        more = "policy lane = slow_lane(kbps: 0) on shop -> spare\npin lane at egress"
        since = it.write(text("egress", more=more))
        it.stops("shop", since, ["announce", "prepare", "senders"], "too narrow")

        # The next plan is not good either: what was done is taken back, and then the receiver refuses.
        more = "policy lane = slow_lane(kbps: 0) on {shop, till} -> cart\npin lane at ingress"
        since = it.write(text("egress", more=more))
        back = ["prepare", "announce"]
        it.stops("cart", since, [*back, "announce", "prepare"], "too narrow")

        # A good one goes on, up to a moment at which a proxy itself cannot take it: a file of its machine is broken.
        since = it.write(text("egress"))
        it.server.until(lambda: "release" in it.phases()[since:])
        it.script.write_text("function (\n")
        taken = ["announce", "announce", "prepare", "senders", "receivers", "release", "final"]
        it.server.until(lambda: it.phases()[since:] == taken)
        it.server.until(lambda: any(node["error"] for adm in it.server.status()["adms"] for node in adm["nodes"]))
        it.script.write_text(GOOD)  # or a proxy that starts now has nothing that it could take
        it.stops("cart", since, taken, "script load error")

        arrived = len(it.bed.services.record.all())
        since = it.write(text("egress", rank="2"))
        it.server.until_event("transition_over")
        assert it.phases()[since:] == ["final", "clean"]
        it.more()
        it.server.until(lambda: main(["status", "--server", f"http://{it.server.ops}", "--detailed-exitcode"]) == 0)
    it.judge(arrived, "12")


def test_a_receiver_refuses_to_let_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What changes in place at a receiver comes to it with the step in which it lets go: till then both sides hold."""
    lane = "policy lane = slow_lane(kbps: KBPS) on {shop, till} -> cart\npin lane at ingress"
    good, bad = lane.replace("KBPS", "9000"), lane.replace("KBPS", "0")
    with ExitStack() as stack:
        it = Moved(tmp_path, stack, capsys, good)
        since = it.write(text("egress", more=bad))
        stopped = ["announce", "prepare", "senders", "receivers"]
        it.server.until(lambda: it.phases()[since:] == stopped and bool(it.server.events("refused")))
        it.more()
        assert it.phases()[since:] == stopped
        assert "`cart`: 1 of 1 proxies refused it" in it.server.status()["server"]["why"]
        since = it.write(text("egress", rank="2", more=good))
        back = ["senders", "prepare", "announce"]
        it.server.until(lambda: it.phases()[since:][:5] == [*back, "announce", "prepare"])
        it.more()
    it.judge(len(it.bed.services.record.all()), "1")


def test_a_good_plan_that_moves_something_leaves_behind_what_was_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The way to it would begin with what is refused, so that is taken back first."""
    lane = "policy lane = slow_lane(kbps: 0) on {shop, till} -> cart\npin lane at ingress"
    with ExitStack() as stack:
        it = Moved(tmp_path, stack, capsys)
        since = it.write(text("ingress", more=lane))
        it.server.until(lambda: bool(it.server.events("refused")))
        it.more()
        assert it.phases()[since:] == ["final"]
        since = it.write(text("egress"))
        it.server.until_event("transition_over")
        forward = ["announce", "prepare", "senders", "receivers", "release", "final", "clean"]
        assert it.phases()[since:] == ["announce", *forward]
        it.more()
        it.server.until(lambda: main(["status", "--server", f"http://{it.server.ops}", "--detailed-exitcode"]) == 0)
    it.judge(len(it.bed.services.record.all()), "1")
