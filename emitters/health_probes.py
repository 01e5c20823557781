"""The probes of a kubelet that the ADM of a pod answers: the path that stands for one in a pod, and its document.

    probe of a captured port -> path(...) -> /probe/http/8080/5f3a9c02/healthz -> parse -> WrittenProbe

`admc inject` points such a probe at `PROBE_PORT`. The new path has the kind, port and path of the old probe, so
nothing else has to be stored to restore it, and a tag, by which probes of one path with other headers or times differ.
The server reads them back from the pods (`Probe`), and the ADM answers each from a health check of its own.
"""

from __future__ import annotations

import hashlib
import json
import re
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.documents import Count, PortNumber, plain, read, record

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_PROBES: Final = 32
"""The most different probes of one service that its ADMs answer. Each is a health check of its own in every pod."""
MAX_PATH: Final = 1_024
MAX_HEADERS: Final = 16
MAX_VALUE: Final = 1_024
MAX_PERIOD: Final = 2**31 - 1
"""The longest that Kubernetes takes."""
MAX_TIMEOUT: Final = 300
"""An ADM that starts beside a process that hangs has its listeners only when the first checks have ended."""
PERIOD: Final = 10
TIMEOUT: Final = 1
"""The defaults of Kubernetes, in seconds."""


class ProbeKind(StrEnum):
    HTTP = "http"
    HTTPS = "https"
    GRPC = "grpc"
    TCP = "tcp"


class WrittenProbe(NamedTuple):
    """The content of a path that `path` wrote."""

    kind: ProbeKind
    port: str
    """A number, or the name of a container's port."""
    rest: str | None
    """The path of an HTTP probe; a slash and the service of a gRPC probe. None if the probe has none."""


@record
class ProbeHeader:
    name: str
    value: str


@record
class Probe:
    """A probe in a pod that the pod's ADM answers."""

    path: str
    """The path at which the kubelet asks the ADM."""
    port: PortNumber
    headers: tuple[ProbeHeader, ...]
    period: Count
    """In seconds, as `timeout`."""
    timeout: Count


@record
class ServiceProbes:
    """The probes of the pods of a service, sorted by path."""

    address: str
    """The loopback address at which the process of a pod is reached."""
    probes: tuple[Probe, ...]


_PATH: Final = re.compile(
    r"/probe/(?P<kind>http|https|grpc|tcp)/(?P<port>[A-Za-z0-9-]{1,15})/(?P<tag>[0-9a-f]{8})(?P<rest>/.*)?",
    re.DOTALL,
)
_SAFE: Final = r"[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2}"
_HTTP_PATH: Final = re.compile(rf"/(?!/)(?:{_SAFE})*(?:\?(?:{_SAFE}|\?)*)?")
_GRPC_SERVICE: Final = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@/-]*")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?|")
_OF_CONNECTION: Final = frozenset(
    (
        "connection",
        "content-length",
        "expect",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
"""Headers about the connection or the body. A health check has a connection of its own, and no body."""


def path(
    written: WrittenProbe,
    number: int,
    headers: Sequence[ProbeHeader] = (),
    period: int = PERIOD,
    timeout: int = TIMEOUT,
) -> str:
    """The path that stands for a probe. `number` is the port with this number or name."""
    content = [*written, number, [[header.name, header.value] for header in headers], period, timeout]
    tag = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:8]
    return f"/probe/{written.kind}/{written.port}/{tag}{written.rest or ''}"


def parse(path: str) -> WrittenProbe | None:
    """The content of a path; None if `path` wrote no such one."""
    match = _PATH.fullmatch(path)
    return None if match is None else WrittenProbe(ProbeKind(match["kind"]), match["port"], match["rest"])


def fault(probe: Probe) -> str:
    """Why the ADM does not answer a probe; empty if it does.

    A kubelet rewrites a path that is no legal URL before it sends it, as Go does. Such a path is not accepted, so the
    health check sends exactly what the kubelet would send.
    """
    written = parse(probe.path)
    if written is None:
        return "its path is none that admc writes"
    rest = written.rest or ""
    if written.kind is ProbeKind.GRPC:
        if rest and not _GRPC_SERVICE.fullmatch(rest):
            return "its service has a character that is legal in no URL"
    elif written.kind is ProbeKind.TCP:
        if rest:
            return "a TCP probe has no path"
    elif rest and not _HTTP_PATH.fullmatch(rest):
        return (
            "its path does not begin with one `/`, or has a fragment, a `%` without two hexadecimal digits, or a "
            "character that is legal in no URL"
        )
    if len(probe.path) > MAX_PATH:
        return f"its path has more than {MAX_PATH:,} characters, with what admc adds"
    if not (0 < probe.period <= MAX_PERIOD and 0 < probe.timeout <= MAX_TIMEOUT):
        return f"its period is not positive, or its timeout is not between 1 and {MAX_TIMEOUT} s"
    return _fault_of_headers(probe.headers)


def _fault_of_headers(headers: Sequence[ProbeHeader]) -> str:
    if len(headers) > MAX_HEADERS:
        return f"it has more than {MAX_HEADERS} headers"
    for header in headers:
        if not _NAME.fullmatch(header.name):
            return "the name of a header is not legal in HTTP"
        if header.name.lower() in _OF_CONNECTION:
            return (
                f"the header `{header.name}` is about the connection or a body, and the ADM has a connection of its own"
            )
        if not _VALUE.fullmatch(header.value) or len(header.value) > MAX_VALUE:
            return (
                f"the header `{header.name}` has a value with other characters than printable ASCII, with a blank at "
                f"an end, or of more than {MAX_VALUE:,} characters"
            )
    return ""


def text_of(probes: ServiceProbes) -> str:
    """The document of a service's probes. The same probes have the same text."""
    return json.dumps(plain(probes), separators=(",", ":"))


@lru_cache(maxsize=1 << 12)
def probes_of(text: str) -> ServiceProbes:
    """The probes of a document. Cached, since most services keep theirs when others change. Raises `DocumentError`."""
    return read(ServiceProbes, text.encode())
