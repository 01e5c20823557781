"""The configuration files of a verified placement, with the addresses of the endpoints file, or of loopback without
one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from admc.base.exits import CommandError, Exit
from admc.base.files import read_bounded
from dsl.collector import no_collection
from dsl.program import Program
from solver.placement import Placement

if TYPE_CHECKING:
    from emitters.addresses import Addresses
    from emitters.envoy.bootstrap.xds_server import Server

MAX_ENDPOINTS = 256_000_000


@no_collection()
def configuration(
    program: Program,
    placement: Placement,
    folder: str,
    endpoints: Path | None,
    *,
    redirect: bool,
    xds: Server | None = None,
) -> dict[str, bytes]:
    """Return the files, by relative path.

    Raises `CommandError`: exit 1 for a wrong endpoints file, exit 3 if Envoy cannot express the placement.
    """
    from emitters import output
    from emitters.envoy import Mode
    from emitters.errors import EmitError

    try:
        known = _addresses(program, endpoints, redirected=redirect)
        return output.files(program, placement, known, Mode.REDIRECT if redirect else Mode.EXPLICIT, xds=xds)
    except EmitError as error:
        raise CommandError(Exit.NO_PLACEMENT, error.diagnostics, folder) from error


def _addresses(program: Program, endpoints: Path | None, *, redirected: bool) -> Addresses:
    from emitters.addresses import loopback

    if endpoints is None:
        return loopback(program)
    content = read_bounded(endpoints, MAX_ENDPOINTS, "the endpoints file")
    return addresses_of(program, content, redirected=redirected)


def addresses_of(
    program: Program,
    endpoints: bytes,
    *,
    redirected: bool,
    of_several: bool = False,
    before: Addresses | None = None,
) -> Addresses:
    """Return the addresses of an endpoints file. Raises `CommandError` (exit 1).

    `of_several`: the file may name services of other programs. `before`: the addresses of an earlier file.
    """
    from emitters.addresses import conflicts, from_json
    from emitters.errors import EmitError

    try:
        addresses = from_json(endpoints, program, of_several=of_several, before=before)
    except EmitError as error:  # the file has errors, not the program
        raise CommandError(Exit.INPUT, error.diagnostics) from error
    shared = conflicts.check(program, addresses, redirected=redirected)
    if shared:
        raise CommandError(Exit.INPUT, shared)
    return addresses
