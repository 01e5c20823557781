"""A service behind the ADMs of both ends of a call, under policies that do nothing to requests."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from admc.testbed.client import Target
from admc.testbed.envoys import Envoys
from emitters.addresses import loopback
from emitters.addresses.dialing import binds, dials
from tests.emitters.envoy.support import ENVOY, load, private, serving, written

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from pathlib import Path

CALLS = """
service front { http 8000 }
service back { http 8001 -> 8002 }
service other { http 8003 }
call front -> back, other
"""
LEAVING = """
@egress
policy seen_leaving = request_count() on front -> back
"""
ARRIVING = """
@ingress
policy seen_arriving = request_count() on front -> back
"""
TEXT = CALLS + LEAVING + ARRIVING
GET = b"GET / HTTP/1.1\r\nHost: back\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 2\r\n\r\nok"


class Ways(NamedTuple):
    """The same service, directly and through both ADMs."""

    direct: Target
    through: Target
    envoys: Envoys


@contextmanager
def ways(
    folder: Path, handler: Callable[[socket.socket], None], text: str = TEXT, *, dialled: str = "back"
) -> Iterator[Ways]:
    """`handler` plays the service `back`. The way through the ADMs leads to the service `dialled`."""
    program, placement = load(text)
    addresses = private(loopback(program))
    (bind,) = [bind for bind in binds(program, placement, addresses) if bind.service == "back"]
    (dial,) = [dial for dial in dials(program, placement, addresses) if dial.destination == dialled]
    assert ENVOY is not None
    with serving(bind.address, bind.port, handler), Envoys(folder, ENVOY) as envoys:
        envoys.start(written(program, placement, addresses, folder))
        yield Ways(
            Target(dial.sender, bind.address, bind.port, "back"),
            Target(dial.sender, dial.address, dial.port, "back"),
            envoys,
        )
