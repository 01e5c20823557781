"""Plans and differences that the tests of the page share."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from admc.compile.plan.model import Plan
from admc.review.diff.sides.take import Options, side

ROOT: Final = Path(__file__).parents[3]
EXAMPLES: Final = ROOT / "examples"
PROFILE: Final = "profile shared_2core_envoy_1_40\n"
HOSTILE: Final = (
    "</script><script>document.title='run'</script>",
    "<img src=x onerror=\"document.title='run'\">",
    "javascript:document.title='run'",
    "\"'><svg onload=document.title='run'>",
    "<!--<script>",
    "]]>&lt;b&gt;&amp;\u2028\u2029\u202e",
    "@@DATA@@",
    "${document.title='run'}`+document.title",
)


@cache
def hotel() -> Plan:
    return side(str(EXAMPLES / "hotel_reservation" / "policies.adm"), Options()).known


def profiled(folder: Path) -> Path:
    """The example with a profile, in a folder of its own."""
    target = folder / "hotel"
    shutil.copytree(EXAMPLES / "hotel_reservation", target, ignore=shutil.ignore_patterns("*.plan.json"))
    program = target / "policies.adm"
    text = program.read_text(encoding="utf-8")
    program.write_text(text.replace("app hotel_reservation\n", f"app hotel_reservation\n{PROFILE}"), encoding="utf-8")
    return program


def hostile(plan: Plan) -> Plan:
    """The plan with names and texts that would be run if any of them were taken for markup or script."""
    assert plan.services is not None
    assert plan.calls is not None
    names = {service.name: HOSTILE[at % len(HOSTILE)] + str(at) for at, service in enumerate(plan.services)}
    names["*"] = "*"

    def new(name: str) -> str:
        return names.get(name, name)

    return replace(
        plan,
        app=HOSTILE[0],
        services=tuple(replace(service, name=new(service.name), namespace=HOSTILE[1]) for service in plan.services),
        calls=tuple(replace(call, source=new(call.source), destination=new(call.destination)) for call in plan.calls),
        policies=tuple(replace(policy, kind=HOSTILE[at % 8]) for at, policy in enumerate(plan.policies)),
        adms=tuple(
            replace(
                adm,
                service=new(adm.service),
                dataplane=HOSTILE[1],
                because=tuple(replace(because, text=HOSTILE[at % 8]) for at, because in enumerate(adm.because)),
            )
            for adm in plan.adms
        ),
        enforcements=tuple(
            replace(
                each,
                source=new(each.source),
                destination=new(each.destination),
                service=None if each.service is None else new(each.service),
            )
            for each in plan.enforcements
        ),
        closed=tuple(replace(closed, destination=new(closed.destination)) for closed in plan.closed),
        assumptions=tuple(replace(each, text=HOSTILE[at % 8]) for at, each in enumerate(plan.assumptions)),
    )
