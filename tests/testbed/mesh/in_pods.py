"""ADMs as the pods of a cluster have them: captures by port, and an Envoy without a privilege."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from emitters.envoy import Mode, emit
from emitters.envoy.bootstrap import static_json
from emitters.envoy.messages.typed import to_yaml
from emitters.hops import hops
from emitters.interception.pod import arguments, pod_captures

if TYPE_CHECKING:
    from dsl.program import Program
    from emitters.addresses import Addresses
    from emitters.interception.pod import PodCaptures
    from solver.placement import Placement


def files(program: Program, placement: Placement, addresses: Addresses) -> dict[str, bytes]:
    """What `emitters.output.files` is for a placement, without rules. Raises `EmitError`."""
    made = emit(program, placement, addresses, Mode.POD)
    return {f"{each.service}/bootstrap.yaml": to_yaml(static_json(each)) for each in made}


def commands(program: Program, placement: Placement) -> dict[str, list[str]]:
    """By service, what the rules container of its pods runs."""
    return {
        service: command(f"{program.app}/{service}", pod_captures(enforced))
        for service, enforced in hops(program, placement).items()
    }


def command(service: str, captures: PodCaptures) -> list[str]:
    """What a rules container runs. `service` is `APP/SERVICE`."""
    return [sys.executable, "-m", "admc.pod", "rules", *arguments(service, captures)]
