"""`admc status`: the versions and the NACKs of the proxies of a running server."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from admc.base.exits import CommandError, wrong_usage
from admc.base.terminal import visible
from admc.cli.options import OPS

if TYPE_CHECKING:
    import http.client

    from admc.serve.observe.status import Status

SERVER: Final = f"http://{OPS}"
SECONDS: Final = 10.0
"""For the whole response."""
MAX_BYTES: Final = 128_000_000


class StatusFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def status(
    server: Annotated[
        str, typer.Option("--server", metavar="URL", help="The address of the server's `--ops`.")
    ] = SERVER,
    format_: Annotated[StatusFormat, typer.Option("--format", help="The format of the status.")] = StatusFormat.TEXT,
    detailed_exitcode: Annotated[
        bool,
        typer.Option(
            "--detailed-exitcode", help="Exit with 2 unless every ADM is in sync, without a problem or a rollout."
        ),
    ] = False,
) -> int:
    """Show the proxies of a running server.

    One line for each proxy, with its versions, the errors of its NACKs, and what the server waits for.
    """
    from admc.base.exits import Exit
    from admc.cli.output import write_out
    from admc.serve.observe.status import to_json

    fleet = status_of(server)
    if format_ is StatusFormat.JSON:
        write_out(to_json(fleet).decode("ascii"))
    else:
        from admc.serve.observe.status_text import render

        write_out(render(fleet, server))
    return Exit.CHANGES if detailed_exitcode and not fleet.settled else Exit.DONE


def status_of(server: str) -> Status:
    """The status of a server. Raises `CommandError`."""
    from admc.serve.observe.status import StatusFormatError, from_json

    try:
        return from_json(fetched(server))
    except StatusFormatError as error:
        raise no_admc(server, str(error)) from error


def no_admc(server: str, cause: str) -> CommandError:
    return wrong_usage(
        "ADM824",
        f"the server at `{visible(server)}` is not an `admc serve`",
        cause=cause,
        hint="give the address that the server logs as `ops` when it starts",
    )


def fetched(server: str) -> bytes:
    """The body of the status of a server. Raises `CommandError`."""
    import http.client

    talk, path = connection(server)
    try:
        talk.request("GET", path, headers={"Accept": "application/json", "Connection": "close"})
        response = talk.getresponse()
        if response.status != http.client.OK:
            raise unreachable(server, f"the response has HTTP status {response.status}")
        return read(server, response)
    except (OSError, http.client.HTTPException) as error:
        raise unreachable(server, failure(error)) from error
    finally:
        talk.close()


def connection(server: str, document: str = "/status.json") -> tuple[http.client.HTTPConnection, str]:
    import http.client
    from urllib.parse import urlsplit

    try:
        url = urlsplit(server)
        host, port = url.hostname, url.port
        fine = url.scheme in {"http", "https"} and host and not (url.query or url.fragment or "@" in url.netloc)
        if not fine or host is None or not server.isascii() or not server.isprintable():
            raise ValueError
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        return kind(host, port, timeout=SECONDS), url.path.rstrip("/") + document
    except (ValueError, http.client.HTTPException) as error:
        raise wrong_usage(
            "ADM801",
            f"`{visible(server[:200])}` is not the address of a server",
            hint=f"it is a URL such as `{SERVER}`",
        ) from error


def read(server: str, response: http.client.HTTPResponse) -> bytes:
    parts: list[bytes] = []
    size, deadline = 0, time.monotonic() + SECONDS
    while part := response.read1(1 << 16):
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            raise unreachable(server, f"the response has more than {MAX_BYTES // 1_000_000} MB")
        if time.monotonic() > deadline:
            raise unreachable(server, f"the response takes more than {SECONDS:.0f} seconds")
    return b"".join(parts)


def unreachable(server: str, cause: str) -> CommandError:
    return wrong_usage(
        "ADM823",
        f"the server at `{visible(server)}` does not answer",
        cause=cause,
        hint="check that `admc serve` runs there, and that this is the address of its `--ops`",
    )


def failure(error: Exception) -> str:
    """The cause of an error, without names from Python."""
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted here: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return "the server does not speak TLS; `--ops` is plain HTTP"
    if isinstance(error, TimeoutError):
        return f"no response within {SECONDS:.0f} seconds"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    return "the server does not speak HTTP"
