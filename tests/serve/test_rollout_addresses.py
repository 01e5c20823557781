"""Addresses that change in the middle of a rollout are applied at once, to the configuration that proxies have."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from contextlib import closing
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from envoy.config.listener.v3 import listener_pb2

from admc.serve.compiling import snapshots as groups
from admc.serve.compiling import source
from admc.serve.compiling.source import Source, State
from admc.serve.files.state_dir import open_state_dir
from admc.serve.publication import addresses
from admc.serve.publication.plans import Planned
from admc.serve.rollout.model import StepName
from admc.serve.rollout.rollout_state import Holding, Label, RolloutState
from admc.serve.storage.manifest import SECRET_BYTES
from admc.serve.storage.position import Position
from emitters.envoy import Mode
from tests.serve.always_ack import Agreeing, at, begun, close_all, following, hasten, planned_by
from tests.serve.server_process import served
from tests.serve.test_rollout_services import confirm_all
from tests.serve.test_server import ENDPOINTS_FILE, client, folder, write
from tests.serve.test_server import PROGRAM as SERVED
from xds_server.protocol.wire import ClientNode
from xds_server.resources.types import CLUSTER, ENDPOINTS, EXTENSION, LISTENER, TRIAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from xds_server.transport.client_registry import ClientView

pytestmark = pytest.mark.long

__all__ = ["folder"]

PROGRAM = """\
app shop
service web   { http 8080 }
service cart  { http 8081  replicas 2 }
service other { http 8082 }
service stock { http 8083 }
call web -> cart
call other -> stock
policy p = set_request_header(name: "x-tier", value: "gold") on web -> cart
policy q = set_request_header(name: "x-tier", value: "gold") on other -> stock
policy r = load_balancing(policy: round_robin) on other -> stock
pin p at SIDE
pin q at egress
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    hasten(monkeypatch)
    yield
    close_all()


class _Counted(Agreeing):
    """Each service has a given number of proxies."""

    def __init__(self) -> None:
        super().__init__()
        self.replicas = {"cart": 2}

    def views(self, groups: Iterable[str]) -> tuple[ClientView, ...]:
        return tuple(
            each._replace(node=ClientNode(f"{each.group}/{number}", each.group, "envoy"))
            for each in super().views(groups)
            for number in range(self.replicas.get(each.group, 1))
        )


def planned(folder: Path, side: str, cart: tuple[str, ...], stock: str = "10.1.0.6", value: str = "gold") -> Planned:
    services = {
        "web": {"pods": ["10.1.0.2"]},
        "cart": {"addresses": ["10.2.0.1"], "pods": cart},
        "other": {"pods": ["10.1.0.5"]},
        "stock": {"addresses": ["10.2.0.2"], "pods": [stock]},
    }
    path = folder / f"{side}-{value}.adm"
    path.write_text(PROGRAM.replace("SIDE", side).replace('"gold") on web', f'"{value}") on web'))
    read = source.read(Source(path, Mode.REDIRECT), (json.dumps({"services": services}).encode(),), with_recipe=True)
    assert read.state is not None, read.findings
    return Planned(read.state, read.recipe, groups.snapshots(read.state))


@pytest.mark.parametrize("with_the_plan", [True, False])
@pytest.mark.parametrize("back", [True, False])
def test_addresses_hold_in_the_middle_of_a_rollout(tmp_path: Path, with_the_plan: bool, back: bool) -> None:
    """`with_the_plan`: the addresses change together with a newer plan, or after it."""
    before, after = ("10.1.0.3", "10.1.0.4"), ("10.1.0.7",)
    ingress = planned(tmp_path, "ingress", before)
    newer = planned(tmp_path, "egress", before, value="bronze")
    moved = planned(tmp_path, "egress", after, "10.1.0.8", value="bronze")
    server = _Counted()
    folder = tmp_path / "state"

    def told(service: str) -> str:
        found = server.store.current(service)
        return "" if found is None else " ".join(str(it) for part in found.collections.values() for it in _texts(part))

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "egress", before), folder)
        async with following(rollout) as until:
            await rollout.accept(ingress)
            place = folder / "interception" / "cart"
            await until((place / "digest").exists)
            (place / "loaded").write_bytes((place / "digest").read_bytes())
            await until(lambda: at(rollout) == StepName.SENDERS)
            server.away = {"web"}
            if back:
                await rollout.abort()
            # One replica less, and another one: no other proxy acknowledges in its place.
            server.replicas["cart"] = 1
            if with_the_plan:
                await rollout.accept(moved)
            else:
                await rollout.accept(newer)
                await rollout.relocate(moved)
            assert at(rollout) in list(StepName)
            assert "10.1.0.7" in told("web")
            assert "10.1.0.3" not in told("web")
            # A service outside of the rollout gets the new addresses, too.
            assert "10.1.0.8" in told("other")
            server.away = set()

            def over() -> bool:
                confirm_all(folder)
                return at(rollout) == "egress-bronze.adm"

            await until(over)
            assert "10.1.0.7" in told("web")

    asyncio.run(run())


def test_addresses_that_come_with_a_forgotten_plan_hold_for_the_plans_that_are_there(tmp_path: Path) -> None:
    """The reconciler has a plan in force that the rollout has given up since, and sends its new addresses."""
    server = Agreeing()

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "egress", ("10.1.0.3",)), tmp_path / "state")
        forgotten = planned(tmp_path, "egress", ("10.1.0.7",), "10.1.0.8", value="bronze")
        async with following(rollout) as until:
            await until(lambda: not rollout.under_way)
            await rollout.relocate(forgotten)
            assert forgotten.digest not in rollout.plans
            assert at(rollout) == "egress-gold.adm"
            for service, after, before in (("web", "10.1.0.7", "10.1.0.3"), ("other", "10.1.0.8", "10.1.0.6")):
                found = server.store.current(service)
                assert found is not None
                texts = " ".join(text for part in found.collections.values() for text in _texts(part))
                assert after in texts
                assert before not in texts
                assert "bronze" not in texts

    asyncio.run(run())


def _texts(part: Any) -> Iterable[str]:
    return (str(resource.body) for resource in part.resources.values())


def test_a_restarted_server_serves_at_the_current_addresses_while_a_plan_waits(folder: Path) -> None:
    options = ("policies.adm", "--endpoints", "endpoints.json", "--state", "state")
    with served(folder, *options) as server:
        server.until_event("compiled")
        write(folder / "policies.adm", f"{SERVED}pin tier at ingress\n")
        # No proxy is connected that could acknowledge the first plan, so the second one waits.
        server.until(lambda: json.loads((folder / "state" / "state.json").read_text())["rollout"]["queued"])
        server.stop(signal.SIGKILL)
    moved = json.dumps(ENDPOINTS_FILE).replace("10.1.0.2", "10.1.0.77")
    write(folder / "endpoints.json", moved)
    # No compile follows that could correct it.
    write(folder / "policies.adm", "half of")
    with served(folder, *options) as server:

        def told() -> bytes:
            with client(server.xds, "web") as web, contextlib.suppress(grpc.RpcError):
                (found,) = web.ask(ENDPOINTS, ("egress/cart:8081/even",))
                return bytes(found.value)
            return b""  # it waits for the first compile, as long as that is bearable

        first = server.until(told)
        assert b"10.1.0.77" in first
        assert b"10.1.0.2" not in first


@pytest.mark.parametrize(("step", "back"), [(StepName.PREPARE, False), (StepName.RECEIVERS, True)])
def test_a_restarted_server_continues_a_step_at_the_current_addresses(folder: Path, step: StepName, back: bool) -> None:
    program = folder / "policies.adm"
    content = (json.dumps(ENDPOINTS_FILE).encode(),)
    plans = []
    for side in ("ingress", "egress"):
        write(program, f"{SERVED}pin tier at {side}\n")
        read = source.read(Source(program, Mode.REDIRECT), content, with_recipe=True)
        assert read.state is not None
        assert read.recipe is not None
        plans.append(Planned(read.state, read.recipe))
    old, new = (plan.digest for plan in plans)
    now, services = Label(old, new, step, 1), frozenset(("web", "cart"))
    held = (Holding(Label(old), services, proven=True), Holding(now, services))
    rollout = RolloutState(now, held, back=back, moves=1, secret=bytes(SECRET_BYTES))
    with closing(open_state_dir(folder / "state")) as state_dir:
        state_dir.save(Position(rollout, {plan.digest: plan.recipe for plan in plans if plan.recipe}, {}), {})
    write(folder / "endpoints.json", json.dumps(ENDPOINTS_FILE).replace("10.1.0.2", "10.1.0.77"))
    write(program, "half of")  # no compile follows that could correct it
    with served(folder, "policies.adm", "--endpoints", "endpoints.json", "--state", "state") as server:

        def told() -> bytes:
            with client(server.xds, "web") as web, contextlib.suppress(grpc.RpcError):
                (found,) = web.ask(ENDPOINTS, ("egress/cart:8081/even",))
                return bytes(found.value)
            return b""  # it waits for the first compile for some seconds

        first = server.until(told)
        assert b"10.1.0.77" in first
        assert b"10.1.0.2" not in first
        text = server.status()["server"]["rollout"]
        assert f"step `{step}`" in text
        assert ("which is taken back" in text) is back


GONE = (
    "external partner { http 80 }\nservice old { http 80 }\ncall partner, old -> web\npolicy g = deny() on old -> web\n"
)
NOW: dict[str, object] = {"services": {"web": {"pods": ["10.1.0.2"]}, "new": {"pods": ["10.1.0.3"]}}}
BEFORE = {
    "services": {"web": {"pods": ["10.1.0.2"]}, "old": {"pods": ["10.1.0.4", "10.1.0.5"]}},
    "externals": {"partner": {"addresses": ["10.1.0.3", "10.1.0.6", "10.1.0.8/31"]}, "client": {"addresses": []}},
}


def test_a_removed_service_keeps_no_address_that_another_party_has(tmp_path: Path) -> None:
    """Otherwise an earlier policy would admit, or refuse, the new party in place of the removed one."""
    now = {**NOW, "externals": {"client": {"addresses": ["10.1.0.5"]}}}
    shared = "app shop\nexternal client { http 80 }\nservice web { http 80 }\n"

    def state(name: str, text: str, endpoints: object) -> State:
        path = tmp_path / name
        path.write_text(shared + text)
        read = source.read(Source(path, Mode.REDIRECT), (json.dumps(endpoints).encode(),))
        assert read.state is not None, read.findings
        return read.state

    both = addresses.during(state("a.adm", GONE, BEFORE), state("b.adm", "service new { http 80 }\n", now)).addresses
    assert both.service_addresses("partner") == ("10.1.0.6", "10.1.0.8/31")
    assert both.pod_addresses("old") == ("10.1.0.4",)


def test_a_guard_in_a_frozen_chain_follows_addresses(tmp_path: Path) -> None:
    """A pod that the caller gets later is refused on older connections, too."""
    app = "app shop\nservice other { http 8082 }\nservice stock { http 8083 }\ncall other -> stock\n"
    guard = "policy g = deny() on other -> stock\npin g at ingress\n"
    more = 'policy m = set_response_header(name: "x-m", value: "1") on other -> stock\npin m at ingress\n'

    def plan(text: str, pod: str) -> Planned:
        places = {"other": {"pods": [pod]}, "stock": {"addresses": ["10.2.0.2"], "pods": ["10.1.0.6"]}}
        path = tmp_path / f"{len(text)}.adm"
        path.write_text(app + text)
        read = source.read(Source(path, Mode.REDIRECT), (json.dumps({"services": places}).encode(),), with_recipe=True)
        assert read.state is not None, read.findings
        return Planned(read.state, read.recipe, groups.snapshots(read.state))

    server = Agreeing()

    def guards() -> dict[str, bytes]:
        found = server.store.current("stock")
        assert found is not None
        return {
            name: each.body for name, each in found.of_type(EXTENSION).resources.items() if name.endswith("/g:deny")
        }

    async def run() -> None:
        rollout = await begun(server, plan(guard, "10.1.0.5"), None)
        (older,) = guards()
        server.older = {"stock": frozenset((older,))}
        async with following(rollout) as until:
            await rollout.accept(plan(guard + more, "10.1.0.5"))
            await until(lambda: not rollout.under_way)
            assert len(guards()) == 2, "the older chain is frozen"
            await rollout.relocate(plan(guard + more, "10.1.0.55"))
            assert older in guards()
            assert all(b"10.1.0.55" in body for body in guards().values())
            server.older = {}
            await until(lambda: older not in guards())

    asyncio.run(run())


REMOVALS = {
    "a sender": ("service a { http 80 }\ncall a, web -> cart\n", "call web -> cart\n"),
    "a call": ("call web -> book, cart\n", "call web -> cart\n"),
    "a call to what moves": ("call desk, web -> cart\n", "call web -> cart\n"),
    "a receiver": (
        "service a { http 8081 }\ncall web -> a, cart\n"
        'policy q = set_request_header(name: "x-q", value: "a") on web -> a\npin q at ingress\n'
        'policy r = set_request_header(name: "x-r", value: "a") on web -> a\npin r at egress\n',
        "call web -> cart\n",
    ),
}
"""What the old program has, and the new one in its place."""


@pytest.mark.parametrize("removed", REMOVALS)
@pytest.mark.parametrize("sides", [("egress", "ingress"), ("ingress", "egress")])
def test_without_redirection_a_removed_party_listens_where_no_other_adm_does(
    tmp_path: Path, removed: str, sides: tuple[str, str]
) -> None:
    """Loopback addresses go by position in the program, so another ADM has the address of the removed one."""
    shared = (
        "app shop\nservice book, cart { http 8081 }\nservice desk, web { http 8080 }\n"
        "call desk -> book\n"
        'policy p = set_request_header(name: "x-p", value: "a") on * -> cart\n'
        'policy o = set_request_header(name: "x-o", value: "a") on desk -> book\npin o at egress\n'
    )
    old, new = (
        planned_by(tmp_path / f"{side}.adm", f"{shared}{text}pin p at {side}\n")
        for side, text in zip(sides, REMOVALS[removed], strict=True)
    )
    server = Agreeing()
    seen: dict[str, set[tuple[str, int]]] = {}

    async def run() -> None:
        rollout = await begun(server, old, tmp_path / "state")
        async with following(rollout) as until:
            await rollout.accept(new)

            def over() -> bool:
                if at(rollout) in list(StepName):
                    seen[at(rollout)] = listening(server)
                return at(rollout) == f"{sides[1]}.adm" and not rollout.under_way

            await until(over)

    asyncio.run(run())
    assert seen.keys() == set(StepName)
    assert all(seen.values())


def listening(server: Agreeing) -> set[tuple[str, int]]:
    """The sockets of all ADMs."""
    found = [
        (address.socket_address.address, address.socket_address.port_value)
        for service in server.groups
        if (snapshot := server.store.current(service)) is not None
        for name, resource in snapshot.of_type(LISTENER).resources.items()
        if name != TRIAL
        for address in [listener_pb2.Listener.FromString(resource.body).address]
    ]
    assert len(found) == len(set(found)), sorted(found)
    return set(found)


def redirected(folder: Path, side: str, cart: tuple[str, ...]) -> State:
    return planned(folder, side, cart).state


def test_a_listener_of_earlier_addresses_refers_to_nothing_that_other_addresses_take_away(tmp_path: Path) -> None:
    """Connections use it for a whole drain, and nothing is kept for them while only addresses change."""
    seen = 0
    places = [("10.1.0.3",), ("10.1.0.4", "10.1.0.14"), ("fd00::3",), ("10.1.0.9",), ()]
    for side in ("egress", "ingress"):
        told = [groups.snapshots(redirected(tmp_path, side, pods)).by_service for pods in places]
        for before in told:
            for after in told:
                for service, snapshot in before.items():
                    there = after[service]
                    for listener in snapshot.of_type(LISTENER).resources.values():
                        for needed in listener.references:
                            known = needed.name in there.of_type(needed.type_url).resources
                            assert known or (needed.type_url == CLUSTER and needed.name in there.elsewhere), needed
                            seen += after is not before
    assert seen > 20
