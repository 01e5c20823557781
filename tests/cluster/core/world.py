"""A random cluster and its server, as `step` sees them: objects that come, change and go, and the answers of the shell.

World: objects in plain dictionaries, what a server would have compiled and stored
Walk: events of the world --Change, ProgramReading, Stored, InForce--> step
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import dsl
from admc.compile.facts import with_facts
from admc.kubernetes.cluster.core import step as steps
from admc.kubernetes.cluster.core import view as views
from admc.kubernetes.cluster.core.facts import FactState
from admc.kubernetes.cluster.core.state import (
    InForce,
    Inputs,
    Outputs,
    ProgramReading,
    State,
    Stored,
    StoredProgram,
)
from admc.kubernetes.cluster.core.view import View, merged
from admc.kubernetes.cluster.names import CONTROLLER
from admc.kubernetes.cluster.program.content import Content
from admc.kubernetes.cluster.program.reader import ProgramRead
from admc.kubernetes.cluster.program.spec import ProgramObject, read_spec
from admc.kubernetes.cluster.records import Key, Namespace, Service, ServicePort, Slice
from admc.serve.storage.position import Recipe
from dsl.diagnostics.diagnostic import Diagnostic, ProgramError, Severity
from emitters.health_probes import Probe
from tests.cluster.objects import pod, service

if TYPE_CHECKING:
    from collections.abc import Callable

    from admc.kubernetes.cluster.core.state import Wanted
    from admc.kubernetes.cluster.core.view import Change
    from admc.kubernetes.cluster.records import Pod
    from dsl.program import Program

OWN, OTHER = "main", "other"
SPACES = ("shop", "ops")
APPS = ("rate", "search", "geo")
TEXTS = (
    "app shop\nservice search { http 8080  namespace shop }\nservice rate { http 9000  namespace shop }\n",
    "app shop\nservice search { http 8080  namespace shop }\nservice geo { http 9000  namespace ops }\n",
    "app shop\nservice rate { http 9000  namespace shop  host_network }\n",
    "half of",
)
NAMES: tuple[dict[str, str], ...] = ({}, {"rate": "geo"})
"""`spec.services`."""
REASONS = ("", "NET_ADMIN", "hostPID")
PROBES = tuple(
    Probe(f"/probe/http/{port}/0123abcd/{name}", port, (), 10, 1) for port in (8080, 9000) for name in ("live", "ready")
)


@cache
def parsed(text: str) -> Program | tuple[Diagnostic, ...]:
    try:
        return dsl.load_text(text)
    except ProgramError as error:
        return tuple(error.diagnostics)


@dataclass
class World:
    """What there is."""

    pods: dict[Key, Pod] = field(default_factory=dict)
    services: dict[Key, Service] = field(default_factory=dict)
    slices: dict[Key, Slice] = field(default_factory=dict)
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    programs: dict[Key, ProgramObject] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    """The texts of which a ConfigMap is missing."""

    def change(self, view: View) -> Change:
        """From an empty picture: everything."""
        changes = []
        kinds: tuple[tuple[Any, Callable[..., Change]], ...] = (
            (self.namespaces, views.with_namespace),
            (self.services, views.with_service),
            (self.slices, views.with_slice),
            (self.pods, views.with_pod),
            (self.programs, views.with_program),
        )
        for records, change in kinds:
            for key, record in records.items():
                changes.append(change(view, key, record))
                view = changes[-1].view
        return merged(view, changes)

    def selected(self, key: Key) -> dict[Key, Pod]:
        """The pods of a Service, by its definition."""
        made = self.services.get(key)
        if made is None or not made.selector:
            return {}
        return {
            name: record
            for name, record in self.pods.items()
            if name.namespace == key.namespace and not record.is_over and made.selector.items() <= record.labels.items()
        }


class Compiled(NamedTuple):
    """A program that a server has compiled, with what the plan relies on."""

    program: Program
    wanted: Wanted


class Walk:
    """One server in a world, from its start to its end."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - no secret
        self.world = World()
        self.now = 1000.0
        self.uids = 0
        self.compiled: list[Compiled] = []
        """The plans that proxies may have, the newest one first."""
        self.given: Wanted | None = None
        """What the server compiles, or compiled last."""
        self.in_force = InForce()
        self.reading: ProgramReading | None = None
        self.stored: Stored | None = None
        self.state, self.outputs, self.deadline = State(), Outputs(), None
        self.view = View()
        self.changes: list[Change] = []
        self.events: list[str] = []
        self.has_stepped = False
        """Whether there was a step since this was set to False."""
        for name in SPACES:
            self.put("namespace", views.with_namespace, self.world.namespaces, name, Namespace(name, {CONTROLLER: OWN}))
        for name in APPS:
            self._service(name, self._namespace_of(name))
        self._program("one", TEXTS[0])
        self.advance()

    # ---- the server ----

    def advance(self) -> None:
        """One step. The answer to `to_read` comes later, by an event."""
        if self.in_force.programs and self.state.earlier != self.state.settled:
            self.in_force = InForce(*self.in_force)  # the server says again what is in force
        change, self.changes = merged(self.view, self.changes), []
        inputs = Inputs(change, self.reading, self.stored, self.in_force)
        self.state, self.outputs, self.deadline = steps.step(self.state, inputs, OWN, self.now)
        self.has_stepped = True

    def repeat(self) -> tuple[State, Outputs, float | None]:
        """The same step again, without any change."""
        inputs = Inputs(merged(self.view, []), self.reading, self.stored, self.in_force)
        return steps.step(self.state, inputs, OWN, self.now)

    def read(self) -> None:
        """Read the Program that the last step asked for."""
        object_ = self.outputs.to_read
        if object_ is None:
            return
        self.events.append(f"read {object_.name}")
        spec, findings = read_spec(object_.spec)
        assert spec is not None, findings
        text = (spec.files or {})["policies.adm"].decode()
        if text in self.world.late:
            late = (Diagnostic("ADM931", Severity.ERROR, "no ConfigMap", None),)
            self.reading = ProgramReading(object_, ProgramRead(spec, None, late, waits=True), None, late)
            return
        content = Content("policies.adm", {"policies.adm": text.encode()}, text)
        program = parsed(text)
        read = ProgramRead(spec, content, ())
        if isinstance(program, tuple):
            self.reading = ProgramReading(object_, read, None, program)
        else:
            self.reading = ProgramReading(object_, read, program, ())

    def give(self) -> None:
        """The server begins to compile the wanted program."""
        servable = self.state.servable
        if self.outputs.wanted is not None and servable is not None:
            self.events.append("give")
            self.given = self.outputs.wanted
            self.in_force = self.in_force._replace(given=servable.followed)
            self.advance()

    def compile(self) -> None:
        """The plan of the program that the server was given comes into force; up to two earlier ones are at some
        proxies."""
        wanted = self.given
        if wanted is None:
            return
        self.events.append("compile")
        # Each compile reads the program anew.
        program = parsed(wanted.files["policies.adm"].decode())
        assert not isinstance(program, tuple)
        program = copy(with_facts(program, wanted.facts))
        self.compiled = [Compiled(program, wanted), *self.compiled[:2]]
        self._put_in_force()

    def settle(self) -> None:
        """All proxies have the newest plan."""
        if len(self.compiled) > 1:
            self.events.append("settle")
            del self.compiled[1:]
            self._put_in_force()

    def _put_in_force(self) -> None:
        programs = tuple(compiled.program for compiled in self.compiled)
        self.in_force = InForce(programs, programs, self.in_force.given)

    def restart(self) -> Walk:
        """Another server begins with the stored state; it has read the Program before."""
        other = Walk.__new__(Walk)
        other.__dict__.update(self.__dict__)
        other.events = [*self.events, "restart"]
        other.view, other.changes = View(), []
        change = self.world.change(View())
        other.view, other.changes = change.view, [change]
        other.state, other.in_force, other.reading, other.stored = State(), InForce(), None, None
        other.given = None
        other.advance()
        other.read()
        other.advance()
        newest = self.compiled[0].wanted.facts if self.compiled else None
        other.stored = Stored(
            FactState.restored(newest, self.now), tuple(_stored(compiled) for compiled in self.compiled)
        )
        other.advance()
        return other

    # ---- the cluster ----

    def put(self, what: str, change: Callable[..., Change], records: dict[Any, Any], key: Any, record: Any) -> None:
        """An object comes, changes or goes (None)."""
        self.events.append(f"{what} {key} {'goes' if record is None else record}")
        if record is None:
            records.pop(key, None)
        else:
            records[key] = record
        self.changes.append(change(self.view, key, record))
        self.view = self.changes[-1].view

    def event(self) -> None:
        """One change of anything."""
        names = ("pod", "pod", "pod", "pod", "service", "slice", "namespace", "program", "late", "server", "server")
        name = self.random.choice(names)
        getattr(self, f"_any_{name}")()

    def pass_time(self) -> None:
        self.now += self.random.choice((0.05, 1.0, 2.5, 30.0, 299.0, 301.0))
        self.events.append(f"time {self.now}")

    def _any_pod(self) -> None:
        random, world = self.random, self.world
        key = Key(random.choice(SPACES), random.choice("pqrst"))
        old = world.pods.get(key)
        if old is None or random.random() < 0.1:  # a StatefulSet gives a name again
            self.uids += 1
            record = pod(
                key.name,
                random.choice(APPS),
                *random.sample(("10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"), random.choice((0, 1, 1, 1, 2))),
                namespace=key.namespace,
                uid=f"uid-{self.uids}",
                is_ready=random.random() < 0.8,
                host_network=random.random() < 0.1,
                untrusted=random.choice(REASONS) if random.random() < 0.3 else "",
                probes=tuple(random.sample(PROBES, random.choice((0, 0, 1, 2)))),
            )
        elif random.random() < 0.25:
            self.put("pod", views.with_pod, world.pods, key, None)
            return
        else:
            changes: tuple[dict[str, Any], ...] = (
                {"labels": {"app": random.choice(APPS)}},
                {"is_terminating": True, "is_ready": False},
                {"is_ready": not old.is_ready},
                {"is_over": True, "is_ready": False},
                {"addresses": (random.choice(("10.1.0.1", "10.1.0.2", "10.1.0.5")),)},
                {"untrusted": random.choice(REASONS)},
            )
            record = replace(old, **random.choice(changes))
        self.put("pod", views.with_pod, world.pods, key, record)

    def _any_service(self) -> None:
        name = self.random.choice(APPS)
        key = Key(self._namespace_of(name), name)
        if key in self.world.services and self.random.random() < 0.2:
            self.put("service", views.with_service, self.world.services, key, None)
        else:
            self._service(name, key.namespace, twist=True)

    def _service(self, name: str, namespace: str, *, twist: bool = False) -> None:
        selector, port, external = {"app": name}, 8080 if name == "search" else 9000, ""
        receivers: dict[str, str] = {}
        if twist and self.random.random() < 0.5:
            selector = self.random.choice(({"app": self.random.choice(APPS)}, {}, {"app": name, "tier": "web"}))
            port = self.random.choice((port, port, 7000))
            external = self.random.choice(("", "", "db.example"))
            receivers = self.random.choice(({}, {**selector, "tier": "web"} if selector else {}))
        record = service(
            name,
            f"10.96.0.{APPS.index(name) + 1}",
            namespace=namespace,
            selector=selector,
            ports=(ServicePort(port, port),),
            external_name=external,
        )
        record = replace(record, receivers=receivers)
        self.put("service", views.with_service, self.world.services, record.key, record)

    @staticmethod
    def _namespace_of(name: str) -> str:
        return "ops" if name == "geo" else "shop"

    def _any_slice(self) -> None:
        key = Key("shop", self.random.choice(("one", "two")))
        if key in self.world.slices and self.random.random() < 0.4:
            self.put("slice", views.with_slice, self.world.slices, key, None)
        else:
            address = self.random.choice(("10.1.0.1", "10.2.0.1"))
            record = Slice(key, self.random.choice(("rate", "search")), (address,), ())
            self.put("slice", views.with_slice, self.world.slices, key, record)

    def _any_namespace(self) -> None:
        name = self.random.choice(SPACES)
        labels = {CONTROLLER: OWN} if self.random.random() < 0.7 else {}
        self.put("namespace", views.with_namespace, self.world.namespaces, name, Namespace(name, labels))

    def _any_program(self) -> None:
        name = self.random.choice(("one", "two", "theirs"))
        if Key("", name) in self.world.programs and self.random.random() < 0.25:
            self.put("program", views.with_program, self.world.programs, Key("", name), None)
        else:
            self._program(name, self.random.choice(TEXTS))

    def _program(self, name: str, text: str) -> None:
        old = self.world.programs.get(Key("", name))
        self.uids += old is None
        spec: dict[str, Any] = {
            "controller": OTHER if name == "theirs" else OWN,
            "files": {"policies.adm": text},
            "mode": "Audit" if self.random.random() < 0.15 else "Enforce",
        }
        if names := self.random.choice((*NAMES, {})):
            spec["services"] = names
        status = {"namespaces": ["ops"]} if name == "theirs" else {}
        number = 1 if old is None else old.generation + 1
        uid, created = (f"uid-{self.uids}", str(self.uids)) if old is None else (old.uid, old.created)
        if name == "theirs" and old is None and self.random.random() < 0.5:
            created = "0"  # older than all
        record = ProgramObject(name, uid, created, str(number), number, spec, status)
        self.put("program", views.with_program, self.world.programs, Key("", name), record)

    def _any_late(self) -> None:
        text = self.random.choice(TEXTS)
        self.world.late ^= {text}
        self.events.append(f"late {sorted(self.world.late)}")

    def _any_server(self) -> None:
        self.random.choice((self.read, self.read, self.give, self.compile, self.settle))()


def _stored(compiled: Compiled) -> StoredProgram:
    main, files, names, facts = compiled.wanted
    recipe = Recipe(main, "pod", {**files, "facts": facts}, b"plan", None)
    return StoredProgram(recipe, Content(main, files, ""), names, compiled.program)
