"""Ports at which clients are likely to speak TLS, declared as `http` or `grpc`: an ADM would read it as HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsl.program import Protocol

if TYPE_CHECKING:
    from dsl.diagnostics.diagnostic import Diagnostics
    from dsl.graph.application import Application
    from dsl.program import Port

TLS_PORTS: Final = (443, 8443)
"""The registered port of HTTPS, and a usual second one."""


def warn_of_tls(application: Application, diagnostics: Diagnostics) -> None:
    """Warns once for each such port that a call leads to."""
    called: dict[tuple[str, Port], None] = {}
    for call in application.calls:
        if call.port.protocol is not Protocol.TCP and call.port.number in TLS_PORTS:
            called.setdefault((call.destination, call.port))
    for name, port in called:
        party = application.services.get(name) or application.externals[name]
        number = port.number
        diagnostics.warning(
            "ADM432",
            f"`{port.protocol} {number}` of `{name}` is HTTP without TLS, and clients mostly speak TLS at this port",
            party.span,
            cause="an ADM on a call to it would read the client's TLS as HTTP, and refuse the connection",
            hint=f"declare it `tcp {number}`, for policies about connections, or give the port of plain HTTP",
        )
