"""From a verified placement to the files of its configuration, with the addresses that the user gives."""

from __future__ import annotations

from pathlib import Path

from admc.exits import CommandError, Exit, wrong_usage
from admc.files import read_bounded
from dsl.program import Program
from solver.placement import Placement

MAX_ENDPOINTS = 256_000_000


def configuration(
    program: Program, placement: Placement, folder: str, endpoints: Path | None, *, redirect: bool
) -> dict[str, bytes]:
    """Relative path -> content. Raises `CommandError`: exit 1 for the endpoints file, 3 where Envoy cannot do it."""
    from emitters import addresses, output
    from emitters.envoy import Mode
    from emitters.errors import EmitError

    if endpoints is None:
        known = addresses.Addresses.loopback(program)
    else:
        content = read_bounded(endpoints, MAX_ENDPOINTS, "the endpoints file")
        try:
            known = addresses.Addresses.from_json(content)
        except ValueError as error:
            raise wrong_usage("ADM806", f"`{endpoints}` is not an endpoints file", cause=str(error)) from error
    try:
        return output.files(program, placement, known, Mode.REDIRECT if redirect else Mode.EXPLICIT)
    except EmitError as error:
        raise CommandError(Exit.NO_PLACEMENT, error.diagnostics, folder) from error
