"""Guesses which workload calls which host: by names of hosts in the texts that its pods are given.

    Mesh --texts of pods, names in them--> guesses

Texts are commands, arguments, values of the environment, and the ConfigMaps that a pod template refers to. Secrets are
never read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.istio.calls import Guess, Measured
from admc.istio.host_names import HostNames
from admc.istio.in_force.calls import Call, Calls
from admc.istio.in_force.registry import pod_spec
from admc.istio.in_force.selection import items, mapping
from admc.istio.mesh.model import Place, Workload
from admc.istio.mesh.presence import CONTAINER
from admc.manifests.documents import Where, at
from admc.manifests.places import line_within, spans_of

if TYPE_CHECKING:
    from admc.istio.mesh.model import Mesh
    from dsl.text import Span

MOST_TEXT: Final = 1 << 20
"""Characters of one text. A ConfigMap has no more bytes."""
_NAME: Final = re.compile(r"(?<![A-Za-z0-9_.-])[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?![A-Za-z0-9_-])")
_CERTIFICATE: Final = "-----BEGIN "
"""Lines of base 64 may have any short name."""
_OF_CONTROLLERS: Final = frozenset(("kube-root-ca.crt", "istio-ca-root-cert"))
"""ConfigMaps with certificates, which no manifest has and each pod may have."""


class _Text(NamedTuple):
    """A text of a pod, and its place."""

    text: str
    place: Place


class _Name(NamedTuple):
    """A name in a text, at its first line."""

    name: str
    line: int


def guess_calls(mesh: Mesh) -> Measured:
    """A workload calls each host that a text of its pods names, but its own Services.

    Without a namespace a name is one of the workload's own.
    """
    hosts, configs = HostNames(mesh), _Configs(mesh)
    guesses: dict[Call, Guess] = {}
    for workload in mesh.workloads:
        own = ((it, _named(it.text, workload.namespace, hosts)) for it in _of_containers(workload))
        given = ((it, configs.named(it, hosts)) for it in configs.of(workload))
        for text, named in (*own, *given):
            for name, host in named:
                if not hosts.is_own(workload, host):
                    call = Call(workload.namespace, workload.name, host)
                    guesses.setdefault(call, Guess(call, text.place, name.line))
    listed = tuple(guesses[call] for call in sorted(guesses))
    return Measured(Calls(frozenset(guesses)), configs.source(), None, 0, guesses=listed)


def spans_of_guesses(guesses: Iterable[Guess]) -> dict[Call, Span]:
    """The line of each guess. An object, and a text in it, are read once: many workloads may have one ConfigMap."""
    by_object: dict[int, list[Guess]] = defaultdict(list)
    for guess in guesses:
        by_object[id(guess.place.object)].append(guess)
    made = {}
    for listed in by_object.values():
        manifest = listed[0].place.object
        places = list(dict.fromkeys(it.place.where for it in listed))
        spans = dict(zip(places, spans_of(manifest.document, manifest.where, places), strict=True))
        lines = {where: str(at(manifest.data, where)).splitlines() for where in places}
        for it in listed:
            made[it.call] = line_within(spans[it.place.where], lines[it.place.where], it.line)
    return made


# ---- texts ----


def _template(workload: Workload) -> Where:
    manifest = workload.object
    return manifest.template if manifest.template is not None else ("spec", "template")


def _of_containers(workload: Workload) -> Iterator[_Text]:
    """Commands, arguments and environment of the containers that are the application's own."""
    for where, container in _containers(workload):
        for part in ("command", "args"):
            for index, text in enumerate(items(at(container, (part,)))):
                yield _Text(str(text)[:MOST_TEXT], Place(workload.object, (*where, part, index)))
        for index, entry in enumerate(items(at(container, ("env",)))):
            text = at(entry, ("value",))
            if text is not None:
                yield _Text(str(text)[:MOST_TEXT], Place(workload.object, (*where, "env", index, "value")))


def _containers(workload: Workload) -> Iterator[tuple[Where, Any]]:
    for part in ("containers", "initContainers"):
        for index, container in enumerate(items(at(pod_spec(workload), (part,)))):
            if at(container, ("name",)) != CONTAINER:
                yield (*_template(workload), "spec", part, index), container


class _Configs:
    """The ConfigMaps that pods refer to."""

    def __init__(self, mesh: Mesh) -> None:
        self._given = mesh.config_maps
        self._absent: set[tuple[str, str]] = set()
        self._named: dict[tuple[int, str], tuple[tuple[_Name, str], ...]] = {}

    def of(self, workload: Workload) -> Iterator[_Text]:
        """The texts that a workload's pods get of them, each once: many variables may refer to one ConfigMap."""
        whole: set[str] = set()
        seen: set[tuple[str, str]] = set()
        for reference in _references(workload):
            name = str(at(reference, ("name",)) or "")
            manifest = self._given.get((workload.namespace, name))
            if manifest is None:
                if name and name not in _OF_CONTROLLERS and not at(reference, ("optional",)):
                    self._absent.add((workload.namespace, name))
                continue
            if name in whole:
                continue
            data = mapping(manifest.data.get("data"))
            chosen = _keys(reference)
            if chosen is None:
                whole.add(name)
            for key in data if chosen is None else chosen:
                text = data.get(key)
                if isinstance(text, str) and (name, key) not in seen:
                    seen.add((name, key))
                    yield _Text(text[:MOST_TEXT], Place(manifest, ("data", key)))

    def named(self, text: _Text, hosts: HostNames) -> tuple[tuple[_Name, str], ...]:
        """The hosts that a text of a ConfigMap names, looked for once for all workloads that have it."""
        key = id(text.place.object), str(text.place.where[-1])
        if key not in self._named:
            self._named[key] = tuple(_named(text.text, text.place.object.namespace, hosts))
        return self._named[key]

    def source(self) -> str:
        number = len(self._absent)
        absent = "1 ConfigMap is" if number == 1 else f"{number} ConfigMaps are"
        texts = "the pods' commands, arguments, environment and ConfigMaps"
        return f"{texts} ({absent} not given)" if number else texts


def _references(workload: Workload) -> Iterator[Any]:
    """What refers to a ConfigMap, or to some of its keys."""
    for _, container in _containers(workload):
        yield from (at(it, ("configMapRef",)) for it in items(at(container, ("envFrom",))))
        yield from (at(it, ("valueFrom", "configMapKeyRef")) for it in items(at(container, ("env",))))
    for volume in items(at(pod_spec(workload), ("volumes",))):
        yield at(volume, ("configMap",))
        yield from (at(it, ("configMap",)) for it in items(at(volume, ("projected", "sources"))))


def _keys(reference: Any) -> Iterable[str] | None:
    """The keys that a reference chooses; None for all."""
    key, chosen = at(reference, ("key",)), items(at(reference, ("items",)))
    if key is not None:
        return (str(key),)
    return tuple(str(at(it, ("key",))) for it in chosen) or None


def _named(text: str, namespace: str, hosts: HostNames) -> Iterator[tuple[_Name, str]]:
    """Yield each host that a text names, with the name and its line."""
    if text.startswith(_CERTIFICATE):
        return
    known = set()
    for match in _NAME.finditer(text):
        name = match[0].lower()
        if name not in known:
            known.add(name)
            for host in hosts.of(name, namespace):
                yield _Name(name, text.count("\n", 0, match.start()) + 1), host
