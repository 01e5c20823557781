"""The plans of the random walk, and what takes the place of the clock, the disk and Envoy's configuration."""

from __future__ import annotations

import hashlib
import json
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest import mock

from admc.serve.compiling import source as feed
from admc.serve.compiling.snapshots import SnapshotSet
from admc.serve.compiling.source import Source, State
from admc.serve.files.redirection import Rules
from admc.serve.rollout import diff
from admc.serve.rollout.captures import captures
from admc.serve.rollout.model import Placed
from admc.serve.rollout.retention import steady_guards
from emitters.envoy import Mode
from tests.serve.walk_config import nothing, resting, stepping

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from admc.serve.rollout.model import Step
    from admc.serve.storage.position import Recipe
    from emitters.addresses import Addresses
    from tests.serve.random_walk import World
    from xds_server.resources.snapshot import Snapshot

REPLICAS: Final = {"web": 2, "till": 1, "cart": 1, "stock": 1}
CALLS: Final = (("web", "cart"), ("till", "cart"), ("web", "stock"))

HEAD: Final = """\
app walk
service web   { http 80  replicas 2 }
service till  { http 80 }
service cart  { http 80 }
service stock { http 80 }
call web, till -> cart
call web -> stock
"""
SIDES: Final = ("ingress", "egress")
VALUES: Final = ("1", "2")
THIRD: Final = (
    "",
    'policy r = set_request_header(name: "x-r", value: "gold") on web -> stock\npin r at egress\n',
    'policy r = set_request_header(name: "x-r", value: "gold") on web -> stock\npin r at ingress\n',
    'policy r = set_request_header(name: "x-r", value: "iron") on web -> stock\npin r at egress\n',
    'policy s = set_request_header(name: "x-r", value: "gold") on web -> stock\npin s at egress\n',
    "service extra { http 80 }\n",
    "policy g = allow(callers: [web, till]) on * -> cart\n",
    "policy g = allow(callers: [web]) on * -> cart\n",
    'policy g = allow(callers: [web]) on * -> cart when header("x-key") == "1"\n',
)


class Which(NamedTuple):
    """One of the plans of a walk."""

    p: str
    """Where `p` is; empty: there is no such policy."""
    q: str
    value: str
    """An argument of `p`."""
    third: int
    """What becomes of a third policy, or of a service that only some plans have."""


PLANS: Final = tuple(
    Which(p, q, value, third)
    for p, q, value, third in product(("", *SIDES), ("", *SIDES), VALUES, range(len(THIRD)))
    if p or value == VALUES[0]
)
PLACES: Final = (1, 2)
"""Where the pods of `cart` are: the only addresses that change."""


class KilledError(BaseException):
    """The server process is killed here."""


class Plan(NamedTuple):
    """A plan, compiled at some addresses."""

    state: State
    recipe: Recipe
    groups: SnapshotSet

    @property
    def placed(self) -> Placed:
        return Placed(self.state.program, self.state.placement)


class Disk:
    """What becomes of writing: the server is killed at the effect with number `fuse`; `full` is where nothing fits."""

    def __init__(self) -> None:
        self.fuse: int | None = None
        self.full = ""
        self.dead = False

    def touch(self, path: Path | None = None) -> None:
        if self.dead:
            raise KilledError
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                self.dead, self.fuse = True, None
                raise KilledError
        objects = path is not None and path.parent.name == "objects"
        if path is not None and (self.full == "all" or (self.full == "objects" and objects)):
            raise OSError(28, "No space left on device")


# ---- plans ----


@cache
def compiled(folder: Path, which: Which, place: int) -> Plan:
    path = folder / "policies.adm"
    p = f'policy p = add_request_header(name: "x-p", value: "{which.value}") on {{web, till}} -> cart\n'
    q = 'policy q = deny() on {web, till} -> cart when header("x-out") == "1"\n'
    text = HEAD
    text += f"{p}pin p at {which.p}\n" if which.p else ""
    text += f"{q}pin q at {which.q}\n" if which.q else ""
    path.write_text(text + THIRD[which.third])
    services: dict[str, Any] = {
        "web": {"pods": ["10.1.0.1", "10.1.0.2"]},
        "till": {"pods": ["10.1.0.3"]},
        "cart": {"addresses": ["10.2.0.1"], "pods": [f"10.1.1.{place}"]},
        "stock": {"addresses": ["10.2.0.2"], "pods": ["10.1.0.5"]},
    }
    if "service extra" in THIRD[which.third]:
        services["extra"] = {"addresses": ["10.2.0.3"], "pods": ["10.1.0.6"]}
    endpoints = json.dumps({"services": services}).encode()
    read = feed.read(Source(path, Mode.REDIRECT), (endpoints,), with_recipe=True)
    assert read.state is not None, read.findings
    assert read.recipe is not None
    return Plan(read.state, read.recipe, resting(read.state))


_RESTORED: dict[object, State] = {}


def restored(source: Source, recipe: Recipe) -> State:
    key = (tuple(recipe.inputs.items()), recipe.plan, recipe.endpoints)
    if key not in _RESTORED:
        _RESTORED[key] = feed.restored(source, recipe)
    return _RESTORED[key]


# ---- what is not the server's own ----


def _wanted(placed: Placed, services: Collection[str], addresses: Addresses) -> dict[str, Rules]:
    """In the place of `redirection.wanted`: rules that are names of captures."""
    found = {}
    for service, names in captures(placed).items():
        if service in services:
            text = "\n".join((*sorted(names), *sorted(addresses.pod_addresses("cart")))) + "\n"
            digest = hashlib.sha256("\n".join(text.splitlines() * 2).encode()).hexdigest()
            found[service] = Rules({"iptables.rules": text, "ip6tables.rules": text}, digest)
    return found


def _by_versions(function: Callable[..., Any]) -> Callable[..., Any]:
    """A pure function of two plans, computed once for each pair of all walks."""
    known: dict[object, Any] = {}

    def found(old: Placed, new: Placed, *rest: Any) -> Any:
        key = (diff.version(old), diff.version(new), *rest)
        if key not in known:
            known[key] = function(old, new, *rest)
        return known[key]

    return found


_STEPS: dict[object, dict[str, Snapshot]] = {}


class _Emitted:
    """In the place of `resources.Emitted`."""

    def __init__(self, step: Step, addresses: Addresses, mode: Mode, only: Any = None) -> None:
        self._addresses, self._mode, self._only = addresses, mode, only

    def at(self, step: Step) -> dict[str, Snapshot]:
        plans, at = (diff.version(step.old), diff.version(step.new)), self._addresses.pod_addresses("cart")
        key = (plans, step.name, step.secrets, at, self._only)
        if key not in _STEPS:
            _STEPS[key] = stepping(step, self._addresses, self._mode, self._only)
        return _STEPS[key]


_DIFF, _GUARDS = (_by_versions(each) for each in (diff.Diff, steady_guards))
UNLINK: Final = Path.unlink
_REPLACE: Final = Path.replace


@contextmanager
def simulated(world: Callable[[], World | None]) -> Iterator[None]:
    """The clock, the disk and the content of configuration are those of a world."""

    async def at_once(what: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return what(*arguments, **named)

    def checked(before: Callable[..., Any]) -> Callable[..., Any]:
        def touch(path: Path, *arguments: Any, **named: Any) -> Any:
            here = world()
            if here is not None and here.folder in path.parents:
                here.disk.touch(None if before is UNLINK else path)
            return before(path, *arguments, **named)

        return touch

    def clock() -> float:
        here = world()
        return 0.0 if here is None else here.now

    with ExitStack() as stack:
        for name, new in (
            ("admc.serve.publication.plans.Emitted", _Emitted),
            ("admc.serve.publication.plans.snapshot", lambda found: found),
            ("admc.serve.publication.plans.snapshots", resting),
            ("admc.serve.publication.plans.passthrough", lambda program, addresses, mode: nothing()),
            ("admc.serve.publication.plans.changed", lambda before, after: resting(after)),
            ("admc.serve.publication.plans.Diff", _DIFF),
            ("admc.serve.publication.plans.steady_guards", _GUARDS),
            ("admc.serve.files.redirection.wanted", _wanted),
            ("admc.serve.stored_plans.restored", restored),
            ("admc.serve.publication.controller.time", SimpleNamespace(monotonic=clock)),
            ("admc.serve.publication.publisher.time", SimpleNamespace(monotonic=clock)),
            ("asyncio.to_thread", at_once),
            ("os.fsync", lambda _: None),
            ("pathlib.Path.unlink", checked(UNLINK)),
            ("pathlib.Path.replace", checked(_REPLACE)),
        ):
            stack.enter_context(mock.patch(name, new))
        yield
