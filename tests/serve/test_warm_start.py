"""What a replica builds while it stands by is what the server that it becomes begins with: nothing is built twice."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from admc.base.exits import CommandError
from admc.serve.compiling.source import read as compiled
from admc.serve.compiling.worker import BuildState, RestoreState, UpdateAddresses, Worker, _Builder
from admc.serve.publication.plans import Planned
from admc.serve.reconciler import Reconciler
from admc.serve.rollout.model import StepName
from admc.serve.rollout.rollout_state import Holding, Label, RolloutState, begun
from admc.serve.storage.position import Position
from admc.serve.stored_plans import StoredPlans
from admc.serve.warm_start import WarmStart
from emitters.addresses import Addresses as EmittedAddresses
from tests.cluster.memory_api import MemoryApi
from tests.cluster.storage.secrets_of import replica
from tests.cluster.storage.test_restored import PROGRAM, FromSecrets, current_versions, until
from tests.serve.memory_environment import PODS, source_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from admc.serve.compiling.source import Source
    from admc.serve.storage.position import Recipe, StoredState

AT_INGRESS = PROGRAM.replace("egress", "ingress")


def source(text: str = PROGRAM) -> Source:
    found = source_of({"files": {"policies.adm": text}})
    assert found is not None
    return found


class Addresses:
    """`AddressSource`."""

    def __init__(self, cart: str = "10.1.0.3") -> None:
        self.move(cart)

    def move(self, cart: str) -> None:
        pods = {**PODS, "cart": {**PODS["cart"], "pods": [cart]}}
        self.content = json.dumps({"services": pods}).encode()

    async def current(self) -> bytes:
        return self.content

    async def changed(self) -> None:
        await asyncio.get_running_loop().create_future()


NO_ADDRESSES = EmittedAddresses()


class _Connection:
    """In the place of a worker's process, whose start takes a second: the same builder, in this process."""

    def __init__(self, asked: list[str]) -> None:
        self._asked, self._builder, self._replies = asked, _Builder(), iter(())

    def send(self, request: Any) -> None:
        self._asked.append(type(request).__name__)
        self._replies = self._builder.reply(request)

    def recv(self) -> Any:
        return next(self._replies)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of requests that workers got; no worker is a process."""
    found: list[str] = []

    def begin(self: Worker) -> None:
        self._connection = _Connection(found)  # type: ignore[assignment]
        self._reader, self._lock = ThreadPoolExecutor(max_workers=1), asyncio.Lock()
        self._addresses = NO_ADDRESSES

    async def end(self: Worker) -> None:
        self._reader.shutdown(wait=False)

    monkeypatch.setattr(Worker, "__init__", begin)
    monkeypatch.setattr(Worker, "end", end)
    monkeypatch.setattr(Worker, "alive", True)
    return found


BUILD, RESTORE, UPDATE = (each.__name__ for each in (BuildState, RestoreState, UpdateAddresses))


@asynccontextmanager
async def warm() -> AsyncIterator[WarmStart]:
    found = WarmStart()
    try:
        yield found
    finally:
        await found.close()


@asynccontextmanager
async def serving(api: MemoryApi, writer: str, text: str, addresses: Addresses, *warm: WarmStart) -> Any:
    environment = FromSecrets(replica(api, writer).storage)
    environment.addresses = addresses  # type: ignore[assignment]
    environment.programs.set(source(text))
    reconciler = Reconciler(environment, *warm)
    running = asyncio.create_task(reconciler.run())
    try:
        yield reconciler
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await reconciler.close()


async def stored(api: MemoryApi) -> StoredState:
    found: StoredState = (await replica(api, "reader").peek()).state
    return found


async def plan(text: str) -> tuple[str, Recipe]:
    read = compiled(source(text), (await Addresses().current(),), with_recipe=True)
    assert read.state is not None
    assert read.recipe is not None
    return Planned(read.state, read.recipe).digest, read.recipe


async def at_rest(api: MemoryApi, text: str = PROGRAM) -> None:
    """A server has stored its plan and was killed."""
    name, recipe = await plan(text)
    await replica(api, "one").store(Position(begun(name, bytes(32)), {name: recipe}, {}))


async def cold(api: MemoryApi, text: str, addresses: Addresses) -> dict[str, str]:
    """What a server publishes for which nothing was built before."""
    async with serving(api, "cold", text, addresses) as server:
        await until(lambda: server.counts.compiles)
        return current_versions(server)


# ---- the stored state and the compile ----


async def test_the_server_begins_with_what_was_built_before(asked: list[str]) -> None:
    api, addresses = MemoryApi(), Addresses()
    await at_rest(api)
    async with warm() as ahead:
        await ahead.prepare(await stored(api), source(), addresses)
        asked.clear()
        async with serving(api, "two", PROGRAM, addresses, ahead) as second:
            await until(lambda: second.config.ready)
            found = current_versions(second)
            assert second.counts.compiles == 1
            assert asked == []
    assert await cold(MemoryApi(), PROGRAM, addresses) == found


async def test_only_other_addresses_are_applied(asked: list[str]) -> None:
    api, addresses = MemoryApi(), Addresses()
    await at_rest(api)
    async with warm() as ahead:
        await ahead.prepare(await stored(api), source(), addresses)
        addresses.move("10.1.0.77")
        asked.clear()
        async with serving(api, "two", PROGRAM, addresses, ahead) as second:
            await until(lambda: second.config.ready)
            found = current_versions(second)
            assert set(asked) == {UPDATE}
            assert second.config.state.addresses.services["cart"].pods == ("10.1.0.77",)
    assert await cold(MemoryApi(), PROGRAM, addresses) == found


async def test_nothing_is_built_again_while_nothing_changes(asked: list[str]) -> None:
    api, addresses = MemoryApi(), Addresses()
    await at_rest(api)
    async with warm() as ahead:
        found = await stored(api)
        first = await ahead.prepare(found, source(), addresses)
        asked.clear()
        assert await ahead.prepare(found, source(), addresses) is first
        assert asked == []
        addresses.move("10.1.0.77")
        moved = await ahead.prepare(found, source(), addresses)
        assert asked == [UPDATE, UPDATE]
        assert moved is not None
        assert moved.newest.state.addresses.services["cart"].pods == ("10.1.0.77",)


async def test_another_program_is_compiled_by_the_server(asked: list[str]) -> None:
    api, addresses = MemoryApi(), Addresses()
    await at_rest(api)
    async with warm() as ahead:
        await ahead.prepare(await stored(api), source(), addresses)
        asked.clear()
        async with serving(api, "two", PROGRAM.replace("gold", "silver"), addresses, ahead) as second:
            await until(lambda: second.counts.compiles == 1 and second.config.ready)
            assert b"silver" in second.config.recipe.inputs["policies.adm"]
            assert BUILD in asked


async def in_a_move(api: MemoryApi) -> Label:
    """A server was killed at a step from the one plan to the other."""
    plans = dict([await plan(PROGRAM), await plan(AT_INGRESS)])
    base, goal = plans
    rest, step, both = Label(base), Label(base, goal, StepName.PREPARE, 1), frozenset({"web", "cart"})
    held = Holding(rest, both, proven=True), Holding(step, both)
    state = RolloutState(step, held, moves=1, secret=bytes(32))
    await replica(api, "one").store(Position(state, plans, {}))
    return step


async def test_a_rollout_goes_on_with_plans_that_were_built_before(asked: list[str]) -> None:
    api, addresses = MemoryApi(), Addresses()
    step = await in_a_move(api)
    async with warm() as ahead:
        prepared = await ahead.prepare(await stored(api), source(AT_INGRESS), addresses)
        assert prepared is not None
        assert set(prepared.plans) == {step.base, step.goal}
        asked.clear()
        async with serving(api, "two", AT_INGRESS, addresses, ahead) as second:
            await until(lambda: second.counts.compiles == 1)
            assert second.config.rollout.state.now == step
            assert asked == []
            versions = current_versions(second)
    assert await cold(api, AT_INGRESS, addresses) == versions


async def test_both_plans_of_a_rollout_go_to_other_addresses(asked: list[str]) -> None:
    api, addresses = MemoryApi(), Addresses()
    await in_a_move(api)
    async with warm() as ahead:
        found = await stored(api)
        await ahead.prepare(found, source(AT_INGRESS), addresses)
        addresses.move("10.1.0.77")
        moved = await ahead.prepare(found, source(AT_INGRESS), addresses)
        assert moved is not None
        assert len(moved.plans) == 2
        for each in moved.plans.values():
            assert each.state.addresses.services["cart"].pods == ("10.1.0.77",)


async def test_plans_that_the_stored_state_does_not_name_are_forgotten(asked: list[str]) -> None:
    addresses = Addresses()
    async with warm() as ahead:
        for text in (PROGRAM, PROGRAM.replace("gold", "silver")):
            other = MemoryApi()
            await at_rest(other, text)
            prepared = await ahead.prepare(await stored(other), source(text), addresses)
            assert prepared is not None
            assert len(prepared.plans) == len(ahead.plans._plans) == 1


# ---- errors, and what ends in the middle ----


async def test_a_program_with_errors_is_compiled_once_and_reported_by_the_server(asked: list[str]) -> None:
    addresses = Addresses()
    async with warm() as ahead:
        for _ in range(3):
            await ahead.prepare(None, source("half of"), addresses)
        assert asked == [BUILD]
        async with serving(MemoryApi(), "two", "half of", addresses, ahead) as second:
            await until(lambda: "program" in second.problems.current)
            assert asked == [BUILD]


async def test_addresses_that_do_not_fit_are_no_reason_to_keep_an_error(asked: list[str]) -> None:
    addresses = Addresses()
    good, addresses.content = addresses.content, b"{"
    async with warm() as ahead:
        await ahead.prepare(None, source(), addresses)
        addresses.content = good
        async with serving(MemoryApi(), "two", PROGRAM, addresses, ahead) as second:
            await until(lambda: second.config.ready)
            assert asked.count(BUILD) == 2


def workers(ahead: WarmStart) -> Iterator[Worker]:
    yield from (each for each in (ahead.stored._worker, ahead.compile._worker) if each is not None)


class Processes:
    """The workers of a test that are processes, and what they are asked."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.made: list[Worker] = []
        self.asked: list[str] = []
        init, ask = Worker.__init__, Worker._ask

        def begin(worker: Worker) -> None:
            init(worker)
            self.made.append(worker)

        async def recorded(worker: Worker, request: Any) -> Any:
            self.asked.append(type(request).__name__)
            return await ask(worker, request)

        patch.setattr(Worker, "__init__", begin)
        patch.setattr(Worker, "_ask", recorded)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    found = Processes(monkeypatch)
    yield found
    assert not [each for each in found.made if each.alive], "a worker was left behind"


@pytest.mark.long
@pytest.mark.parametrize("request_", [RESTORE, BUILD])
async def test_a_takeover_in_the_middle_of_a_build_begins_it_anew(request_: str, processes: Processes) -> None:
    api, addresses = MemoryApi(), Addresses()
    await at_rest(api)
    found = await stored(api)
    async with warm() as ahead:
        preparing = asyncio.create_task(ahead.prepare(found, source(), addresses))
        await until(lambda: request_ in processes.asked)
        preparing.cancel()
        await asyncio.gather(preparing, return_exceptions=True)
        assert preparing.cancelled()
        async with serving(api, "two", PROGRAM, addresses, ahead) as second:
            await until(lambda: second.counts.compiles == 1)
            assert second.config.ready


@pytest.mark.long
async def test_a_worker_that_has_ended_is_replaced(processes: Processes) -> None:
    api, addresses = MemoryApi(), Addresses()
    await at_rest(api)
    found = await stored(api)
    async with warm() as ahead:
        await ahead.prepare(found, source(), addresses)
        for each in tuple(workers(ahead)):
            each._process.kill()
            each._process.wait()
        async with serving(api, "two", PROGRAM, addresses, ahead) as second:
            await until(lambda: second.counts.compiles == 1 and second.config.ready)


async def test_no_worker_is_left_behind_by_a_program_with_errors(processes: Processes) -> None:
    addresses = Addresses()
    async with warm() as ahead:
        await ahead.prepare(None, source("half of"), addresses)
        async with serving(MemoryApi(), "two", "half of", addresses, ahead) as second:
            await until(lambda: second.problems.current)


async def test_a_plan_that_this_admc_compiles_to_another_is_refused(asked: list[str]) -> None:
    api, addresses = MemoryApi(), Addresses()
    await at_rest(api)
    found = await stored(api)
    assert found.position is not None
    ((name, recipe),) = found.position.plans.items()
    altered = recipe._replace(inputs={"policies.adm": PROGRAM.replace("gold", "silver").encode()})
    async with warm() as ahead:
        with pytest.raises(CommandError):
            await ahead.prepare(
                found._replace(position=found.position._replace(plans={name: altered})), source(), addresses
            )


async def test_the_app_of_a_stored_plan_is_compared_with_each_source(asked: list[str]) -> None:
    api, addresses = MemoryApi(), Addresses()
    await at_rest(api)
    found = await stored(api)
    stored_plans = StoredPlans(WarmStart().plans)
    try:
        assert await stored_plans.build(found, source(), addresses)
        with pytest.raises(CommandError):
            await stored_plans.build(found, source(PROGRAM.replace("app shop", "app other")), addresses)
    finally:
        await stored_plans.close()
