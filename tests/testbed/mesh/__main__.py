"""One program in network namespaces, and what is seen there.

    python -m tests.testbed.mesh [PROGRAM] [--mode none|full|compiled|pod] [--keep DIR]

Says what it started, calls along every declared call by service address and pod address in both families, and shows
who answered and which ADMs took the connection. Ends with 1 where something is not as declared or cannot be started.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from admc.base.exits import CommandError
from admc.compile.pipeline import compile_program
from admc.testbed.facts import denies, is_split
from admc.testbed.findings import rejected
from admc.testbed.matching import meeting, policies_on
from dsl.selecting import holds
from emitters.errors import EmitError
from tests.testbed.mesh import Family, Mesh, MeshError, Mode, Way

if TYPE_CHECKING:
    from collections.abc import Sequence

    from admc.testbed.client import Reply, Request
    from dsl.program import Call

PROGRAM = Path("examples/hotel_reservation/policies.adm")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.testbed.mesh", description=__doc__.partition("\n")[0])
    parser.add_argument("program", nargs="?", type=Path, default=PROGRAM, help=f"default: {PROGRAM}")
    parser.add_argument("--mode", type=Mode, choices=list(Mode), default=Mode.COMPILED)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the emitted configuration and the logs in DIR")
    options = parser.parse_args(arguments)
    try:
        compiled = compile_program(options.program)
        with Mesh(compiled.program, compiled.placement, options.mode, folder=options.keep) as mesh:
            return _show(mesh)
    except (CommandError, EmitError) as error:
        for diagnostic in error.diagnostics:
            print(f"{diagnostic.code} {diagnostic.message}")
    except MeshError as error:
        print(f"the bed cannot run: {error}")
    return 1


def _show(mesh: Mesh) -> int:
    print(
        f"{mesh.program.app}, {mesh.mode}: {len(mesh.layout.places)} namespaces, {len(mesh.pods)} processes, "
        f"{len(mesh.proxies)} Envoys, up in {mesh.started:.1f} s"
    )
    for place in mesh.layout.places:
        proxy = "Envoy" if place.name in mesh.proxies else "-"
        print(f"  {place.name:<28} {proxy:<6} {' '.join(place.addresses)}")
    tried = right = 0
    for call in mesh.program.calls:
        request = meeting(mesh.program, call, None)
        assert request is not None  # any request will do
        for way in Way:
            for family in Family:
                ends = mesh.place(call.source), mesh.place(call.destination)
                if any(end.address(family) is None for end in ends):
                    continue  # an outside party may have one family only
                before = {name: mesh.redirected(name) for name in mesh.proxies}
                reply = mesh.request(
                    call.source, call.destination, request, port=call.port.number, way=way, family=family
                )
                took = [name for name, count in before.items() if mesh.redirected(name) > count]
                expected = _expected(mesh, call, request, reply)
                tried, right = tried + 1, right + expected
                who = f" from {reply.seen.service}" if reply.seen else ""
                through = f"redirected at {', '.join(took)}" if took else "direct"
                how = f"{call.source} -> {call.destination}:{call.port.number} by {way} ({family})"
                print(f"  {how}: {reply.label}{who}; {through}{'' if expected else '  NOT AS DECLARED'}")
    print(f"{right} of {tried} answered as declared")
    return 0 if right == tried else 1


def _expected(mesh: Mesh, call: Call, request: Request, reply: Reply) -> bool:
    guards = [each for each in policies_on(mesh.program, call) if holds(each.match, request)]
    if mesh.mode is not Mode.NONE and any(denies(each, call.source) for each in guards):
        return rejected(call, reply)
    right = reply.seen is not None and (reply.seen.service == call.destination or is_split(mesh.program, call))
    return reply.ok and right


if __name__ == "__main__":
    sys.exit(main())
