"""Points the probes of redirected ports at the ADM, and restores those that an earlier injection pointed there.

    httpGet, tcpSocket or grpc of a port with policies at ingress --pointed--> httpGet of the ADM --restored--> before

The kubelet's connection to such a port would meet the policies of the port, as that of an unknown caller. The ADM
answers in place of the process, from a health check of its own (`emitters.envoy.health_checks`). All functions are
about one container of the user, and pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.kubernetes.inject.model import TemplateFinding
from admc.manifests.documents import Where
from dsl.diagnostics.diagnostic import Severity
from emitters.health_probes import (
    PERIOD,
    TIMEOUT,
    Probe,
    ProbeHeader,
    ProbeKind,
    WrittenProbe,
    fault,
    parse,
    path,
)
from emitters.ports import PROBE_PORT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emitters.interception.pod import PodCaptures

    Container = dict[str, Any]

PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_WAYS: Final = ("httpGet", "tcpSocket", "grpc")
"""The ways in which a kubelet connects to a pod. `exec` runs in the container."""
OTHER_PORT: Final = (
    "let it ask a port without policies at ingress, or make it an `exec` probe: it runs in the container, and what it "
    "opens on loopback passes no ADM"
)
_FIELDS: Final = {
    "httpGet": frozenset(("path", "port", "scheme", "httpHeaders")),
    "tcpSocket": frozenset(("port",)),
    "grpc": frozenset(("port", "service")),
}
_SCHEMES: Final = {"HTTP": ProbeKind.HTTP, "HTTPS": ProbeKind.HTTPS}


class _Refusal(NamedTuple):
    """Why a probe cannot be pointed at the ADM."""

    why: str
    where: Where
    """The place in the probe."""
    hint: str = OTHER_PORT


def restored(container: Container) -> Container:
    """The container with its probes as they were before an injection."""
    probes = {name: _restored(container[name]) for name in PROBES if is_pointed(container.get(name))}
    return {**container, **probes} if probes else container


def pointed(container: Container, captures: PodCaptures) -> Container:
    """The container with its probes of redirected ports pointed at the ADM. `findings` has no error about it."""
    probes = {
        name: new for name in PROBES if isinstance(new := _pointed(container, container.get(name), captures), dict)
    }
    return {**container, **probes} if probes else container


def findings(container: Container, where: Where, captures: PodCaptures) -> Iterator[TemplateFinding]:
    """Yield the findings about the probes of a container. `where` is its place in the template."""
    for name in PROBES:
        probe = container.get(name)
        whose = f"the {name} of container `{container.get('name')}`"
        refusal = _pointed(container, probe, captures)
        if isinstance(refusal, _Refusal):
            yield TemplateFinding(
                "ADM923",
                Severity.ERROR,
                f"{whose} cannot be answered by the ADM: {refusal.why}",
                (*where, name, *refusal.where),
                "connections to its port meet policies, and a kubelet is a caller that they do not know; so the ADM "
                f"answers its probes, at port {PROBE_PORT}",
                refusal.hint,
            )
        for way, asked in asked_by(probe).items():
            host = asked.get("host")
            if host and is_captured(container, asked, captures):
                yield TemplateFinding(
                    "ADM928",
                    Severity.WARNING,
                    f"{whose} asks the host `{host}`, and stays as it is",
                    (*where, name, way, "host"),
                    "the kubelet asks that host from its node: if it leads to this pod, the probe meets the policies "
                    "of the port, as an unknown caller",
                    "leave `host` out to ask the pod",
                )


def number_of(container: Container, port: object) -> int | None:
    """The number of a port, which may be the name of one of the container's own ports; None for an unknown name."""
    if type(port) is int:
        return port
    numbers = (own.get("containerPort") for own in container.get("ports") or () if own.get("name") == port)
    return next((number for number in numbers if type(number) is int), None) if isinstance(port, str) else None


def is_captured(container: Container, asked: dict[str, Any], captures: PodCaptures) -> bool:
    """Whether connections to the port that a probe or a hook asks are redirected."""
    number = number_of(container, asked.get("port"))
    return number is not None and number in captures.ingress


def is_pointed(probe: object) -> bool:
    """Whether an injection pointed a probe at the ADM."""
    get = probe.get("httpGet") if isinstance(probe, dict) else None
    return (
        isinstance(get, dict)
        and get.get("port") == PROBE_PORT
        and isinstance(get.get("path"), str)
        and parse(get["path"]) is not None
    )


def paths(container: Container) -> frozenset[str]:
    """The paths at which the probes of a container ask the ADM."""
    return frozenset(container[name]["httpGet"]["path"] for name in PROBES if is_pointed(container.get(name)))


def asked_by(probe: Any) -> dict[str, dict[str, Any]]:
    """What a probe or a hook asks over the network, by the way; empty for a value that is no probe."""
    if not isinstance(probe, dict):
        return {}
    return {way: probe[way] for way in _WAYS if isinstance(probe.get(way), dict)}


def _restored(probe: dict[str, Any]) -> dict[str, Any]:
    get = probe["httpGet"]
    written = parse(get["path"])
    assert written is not None  # noqa: S101 - `is_pointed`
    port = int(written.port) if written.port.isdecimal() else written.port
    if written.kind is ProbeKind.TCP:
        return _replaced(probe, "httpGet", "tcpSocket", {"port": port})
    if written.kind is ProbeKind.GRPC:
        service = {} if written.rest is None else {"service": written.rest[1:]}
        return _replaced(probe, "httpGet", "grpc", {"port": port, **service})
    own = {**get, "path": written.rest, "port": port}
    if written.rest is None:
        del own["path"]
    if written.kind is ProbeKind.HTTPS:
        own["scheme"] = "HTTPS"
    return {**probe, "httpGet": own}


def _replaced(probe: dict[str, Any], old: str, new: str, value: dict[str, Any]) -> dict[str, Any]:
    """The probe with another way in the place of one."""
    return {new if key == old else key: value if key == old else other for key, other in probe.items()}


def _pointed(container: Container, probe: Any, captures: PodCaptures) -> dict[str, Any] | _Refusal | None:
    """The probe as the ADM answers it, or why that is impossible. None if it stays as it is."""
    ways = asked_by(probe)
    for way, asked in ways.items():
        if asked.get("host"):
            continue
        number = number_of(container, asked.get("port"))
        if number is None:
            why = f"its port `{asked.get('port')}` is neither a number nor the name of a port of its container"
            return _Refusal(why, (way, "port"), "correct its port")
        if number == PROBE_PORT:
            return _Refusal(
                f"it asks port {PROBE_PORT} for a path that admc did not write", (way,), "let it ask the process"
            )
        if number not in captures.ingress:
            continue
        if len(ways) > 1 or "exec" in probe:
            return _Refusal("it has more than one way to ask", ())
        return _answered(probe, way, number)
    return None


def _answered(probe: dict[str, Any], way: str, number: int) -> dict[str, Any] | _Refusal:
    asked: dict[str, Any] = probe[way]
    for field, value in asked.items():
        if value is None or (value == "" and field != "service"):
            return _Refusal(f"its field `{field}` is empty", (way, field), f"leave `{field}` out, or give it a value")
        if field not in _FIELDS[way]:
            return _Refusal(f"admc does not know its field `{field}`", (way, field))
    times = {"periodSeconds": PERIOD, "timeoutSeconds": TIMEOUT}
    for field, default in times.items():
        if type(probe.get(field, default)) is not int:
            return _Refusal(
                f"its `{field}` is not a whole number", (field,), "write a number of seconds, or leave it out"
            )
        times[field] = probe.get(field, default) or default
    written = _written(way, asked)
    headers = _headers(asked.get("httpHeaders", []))
    if isinstance(written, _Refusal):
        return written
    if headers is None:
        return _Refusal(
            "its headers are not a list of names and values, all of them texts",
            (way, "httpHeaders"),
            "correct its headers",
        )
    period, timeout = times.values()
    own = path(written, number, headers, period, timeout)
    if why := fault(Probe(own, number, headers, period, timeout)):
        return _Refusal(why, (way,))
    if way != "httpGet":
        return _replaced(probe, way, "httpGet", {"path": own, "port": PROBE_PORT})
    get = {**asked, "path": own, "port": PROBE_PORT}
    if written.kind is ProbeKind.HTTPS:
        del get["scheme"]
    return {**probe, "httpGet": get}


def _written(way: str, asked: dict[str, Any]) -> WrittenProbe | _Refusal:
    port = str(asked["port"])
    if way == "tcpSocket":
        return WrittenProbe(ProbeKind.TCP, port, None)
    if way == "grpc":
        service = asked.get("service")
        if type(asked["port"]) is not int or not isinstance(service, str | None):
            return _Refusal("its port is not a number, or its service is not a text", (way,), "correct these")
        return WrittenProbe(ProbeKind.GRPC, port, None if service is None else f"/{service}")
    scheme, rest = asked.get("scheme", "HTTP"), asked.get("path")
    kind = _SCHEMES.get(scheme) if isinstance(scheme, str) else None
    if kind is None:
        return _Refusal("its scheme is neither `HTTP` nor `HTTPS`", (way, "scheme"), "correct its scheme")
    if rest is not None and not (isinstance(rest, str) and rest.startswith("/")):
        return _Refusal("its path does not begin with `/`", (way, "path"), "write the path that the process expects")
    return WrittenProbe(kind, port, rest)


def _headers(listed: object) -> tuple[ProbeHeader, ...] | None:
    if not isinstance(listed, list) or not all(_is_header(item) for item in listed):
        return None
    return tuple(ProbeHeader(item["name"], item.get("value", "")) for item in listed)


def _is_header(item: object) -> bool:
    return (
        isinstance(item, dict)
        and {"name"} <= item.keys() <= {"name", "value"}
        and all(isinstance(text, str) for text in item.values())
    )
