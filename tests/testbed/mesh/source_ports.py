"""Source ports for callers in a mesh that no proxy of their pod uses.

For 10 s the kernel remembers a connection that was reset, and redirects a new one from the same port to the same
address in the same way, also if the proxy opens it. The rules reset such a connection (docs/interception.md). A caller
connects again and again while its proxy restarts, and each attempt is reset. If caller and proxy used ports of one
range, the new proxy would soon choose one of these ports, and a request of a caller would fail.
"""

from __future__ import annotations

import errno
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

    from tests.testbed.mesh.mesh import Mesh

PORTS = range(20_000, 32_000)
"""By default the kernel chooses from 32768 upwards, and so do proxies."""
IN_USE = (errno.EADDRINUSE, errno.EADDRNOTAVAIL)


class SourcePorts:
    """Opens connections of the callers in all pods of one mesh. May be used from several threads."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._ports = itertools.cycle(PORTS)

    def connect(self, pod: str, address: str, port: int, timeout: float = 10.0) -> socket.socket:
        """A connection from a pod. Raises what `Mesh.connect` raises."""
        service, _, replica = pod.partition("/")
        for own in itertools.islice(self._ports, len(PORTS)):
            try:
                return self._mesh.connect(
                    service, address, port, replica=int(replica), source_port=own, timeout=timeout
                )
            except OSError as error:
                if error.errno not in IN_USE:
                    raise
        raise OSError(errno.EADDRNOTAVAIL, f"all {len(PORTS)} source ports of `{pod}` are in use")
