"""From a verified placement to the files of its configuration, with the addresses that the user gives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from admc.collector import no_collection
from admc.exits import CommandError, Exit
from admc.files import read_bounded
from dsl.program import Program
from solver.placement import Placement

if TYPE_CHECKING:
    from emitters.addresses import Addresses

MAX_ENDPOINTS = 256_000_000


@no_collection()
def configuration(
    program: Program, placement: Placement, folder: str, endpoints: Path | None, *, redirect: bool
) -> dict[str, bytes]:
    """Relative path -> content. Raises `CommandError`: exit 1 for the endpoints file, 3 where Envoy cannot do it."""
    from emitters import output
    from emitters.envoy import Mode
    from emitters.errors import EmitError

    try:
        known = _addresses(program, endpoints)
        return output.files(program, placement, known, Mode.REDIRECT if redirect else Mode.EXPLICIT)
    except EmitError as error:
        raise CommandError(Exit.NO_PLACEMENT, error.diagnostics, folder) from error


def _addresses(program: Program, endpoints: Path | None) -> Addresses:
    from emitters.addresses import from_json, loopback
    from emitters.errors import EmitError

    if endpoints is None:
        return loopback(program)
    content = read_bounded(endpoints, MAX_ENDPOINTS, "the endpoints file")
    try:
        return from_json(content, program)
    except EmitError as error:  # the file is wrong, not what is asked of Envoy
        raise CommandError(Exit.INPUT, error.diagnostics, endpoints.parent.as_posix()) from error
