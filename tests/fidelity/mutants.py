"""`python -m tests.fidelity.mutants`: does the comparison notice a mistake in the emitted configuration?

    the suite's case -> emitted configuration -> one mistake -> real Envoys -> judge -> difference, or a survivor

All mutants run side by side in one application, each on a port of its own, and beside it the same case as it was
emitted: a mutant is caught where it differs and its twin does not. A survivor is a hole in the suite.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dsl.program import Place, Side
from solver.place import place
from tests.emitters.envoy.support import ENVOY
from tests.fidelity import mutants_mesh
from tests.fidelity.cases import FIRST_PORT, load, text
from tests.fidelity.compare import judged
from tests.fidelity.echo_services import echo
from tests.fidelity.harness import observe
from tests.fidelity.judge import Judge
from tests.fidelity.mutants_edits import NothingChangedError
from tests.fidelity.mutants_list import mutants
from tests.fidelity.own_kinds import ALL
from tests.fidelity.textbook import adms
from tests.testbed.mesh import missing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsl.program import Program
    from solver.placement import Placement
    from tests.fidelity.harness import Config
    from tests.fidelity.mutant import Mutant
    from tests.fidelity.mutants_edits import Edit, Json

ROUNDS = 3
NOTHING = "**nothing**"
WIDTH = 110
"""Letters of a difference that the table shows."""


class Caught(NamedTuple):
    """The result of one mutant: `seen` is the first difference, None where it survived."""

    mutant: Mutant
    seen: str | None
    twin: str | None
    """What the case differs in as it was emitted: nothing is proven then."""

    @property
    def proven(self) -> bool:
        return self.seen is not None and self.twin is None


def settled(chosen: Sequence[Mutant], folder: Path) -> list[Caught]:
    """What comes of each. Where nothing is proven it is tried again by itself: a busy machine is late now and then."""
    found = run(chosen, folder / "0")
    for number in range(1, ROUNDS):
        left = [index for index, each in enumerate(found) if not each.proven]
        again = run([chosen[index] for index in left], folder / str(number)) if left else []
        for index, each in zip(left, again, strict=True):
            found[index] = each
    return found


def run(chosen: Sequence[Mutant], folder: Path) -> list[Caught]:
    """All of them in one application."""
    changed = [replace(mutant.case, name=f"m{index}") for index, mutant in enumerate(chosen)]
    twins = {mutant.case.name: mutant.case for mutant in chosen}
    cases = [*changed, *twins.values()]
    (folder / "taps").mkdir(parents=True, exist_ok=True)
    program = load(text(cases, str(folder / "taps")))
    moved = {
        name: place_of
        for case, mutant in zip(changed, chosen, strict=True)
        for name, place_of in zip(case.names(), mutant.places, strict=False)
    }
    edits = {FIRST_PORT + index: mutant for index, mutant in enumerate(chosen) if mutant.edit is not None}
    placement = _moved(program, place(program), moved)
    seen = observe(program, placement, cases, folder, lambda emitted: mutated(emitted, edits))
    judge = Judge(program, echo, ALL)
    found = {case.name: judged(judge, case.protocol, seen[case.name], case.names()).differences for case in cases}
    first = {name: str(differences[0]) if differences else None for name, differences in found.items()}
    return [
        Caught(mutant, first[case.name], first[mutant.case.name]) for mutant, case in zip(chosen, changed, strict=True)
    ]


def mutated(emitted: Config, edits: Mapping[int, Mutant]) -> Config:
    """The bootstraps with one mistake for each port. Raises `NothingChangedError` where a mistake is none."""
    for port, mutant in edits.items():
        destination = mutant.case.destinations[0]
        hop = f"ingress/{port}" if mutant.at is Side.INGRESS else f"egress/{destination}:{port}"
        assert mutant.edit is not None
        touched = False
        for service, bootstrap in emitted.items():
            if service == destination or mutant.at is Side.EGRESS:
                try:
                    edited = _edited(bootstrap, hop, mutant.edit)
                except NothingChangedError:
                    raise NothingChangedError(f"{mutant.case.key}: {mutant.title}: nothing to change") from None
                touched = touched or edited is not bootstrap
                emitted = {**emitted, service: edited}
        if not touched:
            raise NothingChangedError(f"{mutant.case.key}: {mutant.title}: no ADM has the hop `{hop}`")
    return emitted


def _edited(bootstrap: Json, hop: str, edit: Edit) -> Json:
    resources = bootstrap["static_resources"]
    own = [each for each in resources["listeners"] if each["name"] == hop]
    if not own:
        return bootstrap
    clusters = [each for each in resources["clusters"] if f"{each['name']}/".startswith(f"{hop}/")]
    (listener,) = own
    after = edit({"listener": listener, "clusters": clusters})
    rest = [each for each in resources["clusters"] if each not in clusters]
    listeners = [after["listener"] if each is listener else each for each in resources["listeners"]]
    return {
        **bootstrap,
        "static_resources": {**resources, "listeners": listeners, "clusters": rest + after["clusters"]},
    }


def _moved(program: Program, placement: Placement, places: Mapping[str, Place | None]) -> Placement:
    decisions = [
        replace(each, place=at)
        for each in placement.decisions
        if (at := places.get(each.policy, each.place)) is not None
    ]
    return replace(placement, decisions=tuple(decisions), adms=tuple(adms(program, decisions)))


def table(found: Sequence[Caught]) -> list[str]:
    lines = ["| mistake | mutant | kind | side | protocol | what the suite saw |", "|---|---|---|---|---|---|"]
    for mutant, seen, twin in found:
        what = NOTHING if seen is None else seen
        if twin is not None:
            what = f"**differs as emitted, too**: {twin}"
        lines.append(_line(mutant.about, mutant.title, mutant.kinds, str(mutant.at), str(mutant.case.protocol), what))
    return lines


def _line(*cells: str) -> str:
    *told, what = (cell.replace("|", "/") for cell in cells)
    return f"| {' | '.join(told)} | {what if len(what) <= WIDTH else f'{what[:WIDTH]} ...'} |"


def main() -> int:
    if ENVOY is None:
        print("there is no Envoy for this platform, so no mutant can be tried")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        found = settled(mutants(), Path(folder))
    lines = table(found)
    survivors = sum(not each.proven for each in found)
    kinds = {kind.kind for each in found for kind in each.mutant.case.policies}
    about = {each.mutant.about for each in found}
    differing: list[str] = []
    if lacking := missing():
        print(f"mistakes in redirection are left out: this machine lacks {'; '.join(lacking)}", file=sys.stderr)
    else:
        noticed, differing = mutants_mesh.run()
        lines += [
            _line(each.about, each.title, each.shape.kind, each.shape.side, each.shape.protocol, seen or NOTHING)
            for each, seen in noticed
        ]
        survivors += sum(each.seen is None for each in noticed)
        about |= {each.mutant.about for each in noticed}
        for each in differing:
            print(f"differs as emitted, too: {each}", file=sys.stderr)
    print("\n".join(lines))
    total = len(lines) - 2
    print(f"\n{total} mutants of {len(about)} classes over {len(kinds)} kinds, {total - survivors} caught")
    return 1 if survivors or differing else 0


if __name__ == "__main__":
    sys.exit(main())
