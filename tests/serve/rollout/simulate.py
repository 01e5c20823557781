"""A simulation of rollouts: random plans, proxies, kills and commands against the reducer.

    python -m tests.serve.rollout.simulate --examples N [--first SEED]

At every moment no request may meet what no plan enforces. In the end, once proxies are connected and connections have
closed, the newest plan is in force, or the plan before it if the operator aborted it.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass, field

from admc.serve.rollout.model import StepName
from admc.serve.rollout.reducer import Client, Command, CommandName, Observation, reduce
from admc.serve.rollout.rollout_state import Chain, Label, RolloutState, begun
from tests.serve.rollout.mesh import Plan, Proxy, World

VALUES = 3
STEPS = 500
LETS_GO = {
    (StepName.SENDERS, StepName.RECEIVERS),
    (StepName.RELEASE, StepName.RECEIVERS),
    (StepName.RECEIVERS, StepName.SENDERS),
}
"""From one step to the next, where receivers enforce less of some plan: its destinations have to be closed."""


def begins(old: Label, new: Label) -> bool:
    """Whether a move begins: the connections that it closes in `prepare` have to be older than the NetworkPolicies, or
    such as these admit. On the way back to the last step of a move, none is needed that is not there."""
    return old.goal is None and new.step is StepName.PREPARE


class ViolationError(AssertionError):
    """The reducer broke a promise."""


@dataclass
class Server:
    """What a server process has in memory; a new one begins with what is on disk."""

    state: RolloutState
    published: tuple[Label, int] | None = None
    served: set[str] = field(default_factory=set)
    """Services that may have received what is published."""
    everything: bool = True
    """After a start: any service may have."""
    effects: list[str] = field(default_factory=list)
    """What is still to be done, in order; a kill loses it."""


class Simulation:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self.world = self._world(seed)
        self.tables = self.chance.random() < 0.4
        """Some proxies refuse route tables on the way to some plans."""
        self.deadly = self.chance.choice((0.02, 0.003))
        """How often the server is killed."""
        self.most = self.chance.choice((4, 8))
        """How many proxies there may be."""
        self.busy = self.chance.choice((0.035, 0.015))
        """How often plans and commands come."""
        self.calm = self.chance.random() < 0.4
        """The mesh hardly changes, so that moves come to their end."""
        if self.calm:
            self.most, self.busy, self.deadly = 3, 0.015, 0.001
            self.world.bad.clear()
        self.nervous = self.chance.random() < 0.3
        """The operator turns moves often."""
        self.proxies: list[Proxy] = []
        self.ids = 0
        self.addresses = 0
        self.log: list[str] = []
        first = self._plan(first=True)
        self.disk = begun(first, b"secret")
        self.server: Server | None = Server(self.disk, effects=["publish"])
        self.newest = first
        self.aborted: str | None = None
        """The plan that has to be in force in the end, where the operator aborted a newer one."""
        self.before: dict[str, str] = {}
        """Plan -> the one that it replaced."""
        self.left: set[str] = set()
        """Plans from which the server went back to an earlier one, and that were not published since."""
        self.closing = self.chance.choice((0.2, 0.06))
        """How soon older connections close."""
        self.replacing: tuple[str, str] | None = None
        """The same of a plan that is not stored yet."""
        self.ready: set[int] = set()
        """Moves whose wait for redirection is over."""
        self.closed = True
        """Whether the destinations are closed that the plan closes to which a move goes."""
        self.returned = self.excused = False
        self.replaced = 0
        """Proxies that had to be replaced in the end, since they refused all that was published for them."""
        for service in self.world.services:
            for _ in range(1 if self.calm else self.chance.choice((1, 1, 2))):
                self._add(service)

    def _world(self, seed: int) -> World:
        chance = self.chance
        names = "abcd"[: chance.choice((2, 3, 4))]
        senders = {}
        for name in chance.sample(names, chance.choice((1, 1, 2))):
            others = [each for each in names if each != name]
            senders[name] = tuple(sorted(chance.sample(others, chance.randint(1, len(others)))))
        world = World(senders, seed=seed)
        if chance.random() < 0.6:
            hops = [hop for service in world.services for hop in world.hops(service)]
            world.bad = {(hop, 2) for hop in chance.sample(hops, chance.choice((1, 1, 2)) if len(hops) > 1 else 1)}
        return world

    def _plan(self, *, first: bool = False, good: bool = False) -> str:
        top = VALUES - 1 if first or good else VALUES
        values = {name: (self.chance.randrange(top), self.chance.randrange(top)) for name in self.world.senders}
        for plan in self.world.plans.values():
            if plan.values == values and not (good and plan.name in self.world.bad_goals):
                return plan.name
        name = f"p{len(self.world.plans)}"
        if not good and self.tables and self.chance.random() < 0.4:
            self.world.bad_goals.add(name)
        self.world.plans[name] = Plan(name, values)
        return name

    def _add(self, service: str) -> None:
        self.ids += 1
        self.proxies.append(Proxy(self.ids, service))

    # ---- the server ----

    def _seen(self, server: Server) -> Observation:
        now, version = server.state.now, server.published
        clients = []
        chains: dict[str, frozenset[str]] = {}
        for each in self.proxies:
            has = each.connected and each.acked == version and each.settled
            refuses = each.connected and each.nacked == version
            served = server.everything or each.service in server.served
            older = each.frozen(self.world, now) if each.connected else frozenset[str]()
            clients.append(Client(each.service, served, has, refuses, each.fresh, not each.connected, older))
        for name in self.world.services:
            chains[name] = frozenset(self.world.chain(now, hop) for hop in self.world.hops(name))
        involved = None if now.goal is None else self.world.changes(now.base, now.goal)
        missing = () if now.move in self.ready else ("a",)
        seen = Observation(tuple(clients), missing, self.world.moves, self.world.changes, involved, chains)
        return seen._replace(unclosed=() if self.closed else ("a",))

    def _control(self, command: Command | None = None) -> None:
        server = self.server
        if server is None or server.effects:
            return
        before = server.state
        after = reduce(before, self._seen(server), command)
        if after == before:
            return
        server.state = after
        self._note(before, after, command)
        if after.now != before.now:
            server.effects = ["store", "publish", "log"]
        elif command is not None or after.back != before.back or self.chance.random() < 0.3:
            server.effects = ["store"]

    def _note(self, before: RolloutState, after: RolloutState, command: Command | None) -> None:
        old, new = before.now, after.now
        if new != old:
            self.log.append(f"{old} -> {new} back={after.back} {command}")
        if new.goal is not None and new.step is not StepName.PREPARE and new.move not in self.ready:
            raise ViolationError(f"{new} was published before its redirection was loaded")
        if ((old.step, new.step) in LETS_GO or begins(old, new)) and not self.closed:
            raise ViolationError(f"{new} was published after {old} before destinations were closed")
        by_plan = before.queued == new.base and after.queued is None
        if old.goal is None and new.goal is None and old != new and by_plan:
            self.replacing = (new.base, old.base)
        if new != old and (by_plan or old.goal is not None):
            self.left.discard(new.base)
        elif old.goal is None and new != old and new.step is not StepName.PREPARE:
            self.left.add(old.base)

    def _effect(self) -> None:
        server = self.server
        if server is None or not server.effects:
            return
        effect = server.effects.pop(0)
        if effect == "store":
            self.disk = server.state
            if self.replacing is not None:
                self.before[self.replacing[0]], self.replacing = self.replacing[1], None
        elif effect == "publish":
            if self.disk.now != server.state.now:
                raise ViolationError("published before it was stored")
            self._publish(server)

    def _publish(self, server: Server) -> None:
        version = (server.state.now, self.addresses)
        if server.published is not None and server.published[0] != server.state.now:
            server.everything = False
            server.served = set()
            for each in self.proxies:
                each.fresh = each.fresh and each.sent is None
        server.published = version
        server.served |= {each.service for each in self.proxies if each.connected}

    def _command(self, command: Command) -> None:
        server = self.server
        if server is None or server.effects:
            return
        before = server.state
        self._control(command)
        after = server.state
        if server.effects:
            self._effect()  # the answer to a command comes when it is stored
        if command.name is CommandName.PLAN:
            if command.plan != self.newest:
                self.newest, self.aborted = command.plan, None
        elif command.name is CommandName.CONTINUE:
            self.aborted = None
        elif before.now.goal is not None:
            self.aborted = before.now.base
        elif after.now != before.now:
            self.aborted = after.now.base
            self._check_return(before, after)
        elif after.aborted is not None:
            self.aborted = after.now.base

    def _check_return(self, before: RolloutState, after: RolloutState) -> None:
        """An abort at rest goes to the plan that was replaced, or, if that was aborted before, to an earlier one."""
        self.returned = True
        replaced = self.before.get(before.now.base)
        if after.now.goal is None and replaced not in (None, after.now.base) and replaced not in self.left:
            raise ViolationError(f"an abort at {before.now} returned to {after.now}")

    # ---- what happens ----

    def step(self) -> None:
        chance, server = self.chance, self.server
        before = () if server is None else server.state.before
        if before and before[-1].goal is not None and chance.random() < 0.05:
            self._command(Command(CommandName.ABORT))  # soon after the end of a move
        elif self.nervous and server is not None and server.state.now.goal is not None and chance.random() < 0.08:
            self._command(Command(chance.choice((CommandName.ABORT, CommandName.CONTINUE))))
        proxy = chance.choice(self.proxies) if self.proxies else None
        roll = chance.random()
        if proxy is not None and roll < 0.66:
            self._proxy_step(proxy)
        elif roll < 0.88:
            self._control() if server is not None and not server.effects else self._effect()
        elif roll < 0.88 + self.deadly:
            self._kill()
        elif roll < 0.92:
            self._start()
        elif roll < 0.965 - self.deadly:
            self.ready |= {server.state.now.move} if server is not None and server.state.now.goal else set()
            self.closed = chance.random() < 0.7
        elif roll < 1 - self.busy:
            if not self.calm or chance.random() < 0.1:
                self._mesh_step(proxy)
        else:
            self._operator_step()
        self.check()

    def _proxy_step(self, proxy: Proxy) -> None:
        roll, server = self.chance.random(), self.server
        if not proxy.connected:
            if roll < 0.5 and server is not None and server.published is not None:
                self._connect(proxy, server)
        elif roll < 0.01:
            proxy.end_stream(self.world, self.chance)
        elif roll < 0.03:
            proxy.flaky = not proxy.flaky and not self.calm
        elif roll < 0.06 and proxy.nacked is not None:
            proxy.end_stream(self.world, self.chance)
        elif proxy.older and roll < self.closing:
            proxy.older.pop(self.chance.randrange(len(proxy.older)))
        else:
            self._exchange(proxy)

    def _connect(self, proxy: Proxy, server: Server) -> None:
        proxy.begin_stream()
        server.served.add(proxy.service)

    def _exchange(self, proxy: Proxy) -> None:
        """One step of the protocol: the server sends, the proxy takes it, the answer arrives, workers follow."""
        server = self.server
        if proxy.arriving is not None:
            version, proxy.arriving = proxy.arriving, None
            taken = proxy.take(self.world, version, self.chance)
            proxy.reply = (version, taken)
        elif proxy.reply is not None and server is not None:
            (version, taken), proxy.reply = proxy.reply, None
            proxy.acked, proxy.nacked = (version, None) if taken else (proxy.acked, version)
            proxy.settled = False
        elif proxy.acked is not None and not proxy.settled:
            proxy.settle()
            proxy.settled = True
        elif server is not None and server.published is not None and proxy.sent != server.published:
            proxy.sent = proxy.arriving = server.published
            proxy.acked, proxy.settled = None, False

    def _mesh_step(self, proxy: Proxy | None) -> None:
        roll, server = self.chance.random() * 1.5, self.server
        if roll < 0.3 and proxy is not None:
            proxy.restart(self.world, self.chance)
        elif roll < 0.5 and proxy is not None and sum(each.service == proxy.service for each in self.proxies) > 1:
            self.proxies.remove(proxy)
        elif roll < 0.7 and len(self.proxies) < self.most:
            self._add(self.chance.choice(self.world.services))
        elif roll < 1 and server is not None and server.published is not None and not server.effects:
            self.addresses += 1
            self._publish(server)

    def _operator_step(self) -> None:
        roll = self.chance.random()
        if roll < 0.5:
            plan = self._plan() if self.chance.random() < 0.7 else self.chance.choice(list(self.world.plans))
            self._command(Command(CommandName.PLAN, plan))
        elif roll < 0.6:
            self._command(Command(CommandName.PLAN, self.newest))
        elif roll < 0.85:
            self._command(Command(CommandName.ABORT))
        else:
            self._command(Command(CommandName.CONTINUE))

    def _kill(self) -> None:
        self.server = self.replacing = None
        for proxy in self.proxies:
            proxy.end_stream(self.world, self.chance)

    def _start(self) -> None:
        if self.server is None:
            self.server = Server(self.disk, effects=["publish"])
            self.log.append(f"started at {self.disk.now} back={self.disk.back}")

    # ---- promises ----

    def check(self) -> None:
        for destination, names in self.world.senders.items():
            sending = self._ends(destination, names)
            receiving = self._ends(destination, (destination,))
            for sender in sending:
                for receiver in receiving:
                    wrong = self.world.wrong(destination, sender, receiver)
                    if wrong:
                        raise ViolationError(wrong)
        if self.server is not None and self.server.published is not None and not self.server.effects:
            self._check_kept(self.server.state)

    def _ends(self, destination: str, services: tuple[str, ...]) -> set:
        return {
            (hop, label)
            for proxy in self.proxies
            if proxy.service in services
            for hop in self.world.hops(proxy.service)
            if hop.destination == destination
            for label in proxy.enforced(hop)
        }

    def _check_kept(self, state: RolloutState) -> None:
        for proxy in self.proxies:
            for name in proxy.frozen(self.world, state.now):
                if Chain(proxy.service, name) not in state.kept:
                    raise ViolationError(f"{proxy.service} lost {name}, which a connection uses, at {state.now}")

    def finish(self) -> None:
        """Let everything come to rest, and look whether it is where it has to be."""
        self._start()
        while self.server is not None and self.server.effects:
            self._effect()
        hops = [hop for name in self.world.services for hop in self.world.hops(name)]
        bad = self.newest in self.world.bad_goals or any(self.world.refuses(Label(self.newest), hop) for hop in hops)
        if self.aborted is None and bad:
            self._command(Command(CommandName.PLAN, self._plan(good=True)))
        for proxy in self.proxies:
            proxy.end_stream(self.world, self.chance)
            proxy.flaky = False
        self._quiet()
        if self.server is not None and self.server.state.now != self._wanted:
            for proxy in self.proxies:
                if proxy.nacked is not None:
                    self.replaced += 1
                    proxy.restart(self.world, self.chance)
            self._quiet()
        self._check_end()

    def _quiet(self) -> None:
        for _ in range(400):
            if self._quiet_round():
                return
        raise ViolationError("it does not come to rest")

    @property
    def _wanted(self) -> Label:
        return Label(self.newest if self.aborted is None else self.aborted)

    def _quiet_round(self) -> bool:
        server = self.server
        assert server is not None
        before = (server.state, [(each.acked, each.settled, list(each.older)) for each in self.proxies])
        for proxy in self.proxies:
            if not proxy.connected:
                self._connect(proxy, server)
            for _ in range(5):
                self._exchange(proxy)
                self.check()
            if proxy.older:
                proxy.older.pop()
        self.ready.add(server.state.now.move)
        self.closed = True
        self._control()
        while server.effects:
            self._effect()
            self.check()
        return before == (server.state, [(each.acked, each.settled, list(each.older)) for each in self.proxies])

    def _check_end(self) -> None:
        server = self.server
        assert server is not None
        state = server.state
        if state.now != self._wanted and self._is_excused(state):
            self.excused = True
            return
        if state.now != self._wanted:
            raise ViolationError(f"ends at {state.now} back={state.back} queued={state.queued}, not at {self._wanted}")
        if all(each.acked == server.published for each in self.proxies):
            if state.kept:
                raise ViolationError(f"keeps {sorted(state.kept)} that no connection uses")
            if len(state.may_have) > 1:
                raise ViolationError(f"takes proxies to have {state.may_have}")
        elif self.aborted is None:
            raise ViolationError("some proxy does not have the newest plan in the end")

    def _is_excused(self, state: RolloutState) -> bool:
        """Whether the operator went back to a plan that some proxies never took, and new ones refuse: a move from that
        has to wait for a plan that mends it without one."""
        refusing = [each for each in self.proxies if each.nacked is not None]
        return self.returned and state.now.goal is None and bool(refusing) and not any(each.has for each in refusing)


def run(seed: int, steps: int = STEPS) -> None:
    """One example. Raises `ViolationError`, with what led there as a note."""
    simulation = Simulation(seed)
    try:
        for _ in range(steps):
            simulation.step()
        simulation.finish()
    except ViolationError as error:
        error.add_note("\n".join([f"seed {seed}", str(simulation.world.plans.values()), *simulation.log[-14:]]))
        raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    for seed in range(options.first, options.first + options.examples):
        run(seed)
    print(f"{options.examples} examples without a violation")


if __name__ == "__main__":
    main()
