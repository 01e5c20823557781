"""What `configuration_only` says of an ADM, against the configuration that is emitted for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from admc.review.diff.compare import compared
from admc.review.diff.sides.take import Options, Side, sides
from admc.serve.compiling.snapshots import snapshots
from admc.serve.compiling.source import Source, State
from emitters.addresses import loopback
from emitters.envoy import Mode
from tests.review.diff.harness import MAIN, Case, cases, write_sides

if TYPE_CHECKING:
    from collections.abc import Iterator

LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
REPLICAS = "more-replicas"
"""Without redirection there is one process for each address, whatever is declared."""


def comparable(case: Case) -> bool:
    """Loopback addresses follow from the services, so both sides have the same."""
    broken = case.exit_code or case.name in (REPLICAS, "broken-base", "infeasible-base", "priced-broken-base")
    return not broken and not case.name.startswith("service-")


def _parameters() -> Iterator[object]:
    for index, case in enumerate(filter(comparable, cases())):
        yield pytest.param(case, id=case.name, marks=() if index % 4 == 0 else pytest.mark.long)


def emitted(side: Side) -> dict[str, frozenset[tuple[str, str, str]]]:
    """The resources of each ADM, but for listeners: a program's calls number the ports of its explicit listeners."""
    assert side.program is not None
    assert side.placement is not None
    source = Source(Path(MAIN), Mode.EXPLICIT)
    state = State(source, side.program, side.placement, loopback(side.program), "")
    return {
        service: frozenset(
            (kind, resource.name, resource.version)
            for kind, found in snapshot.collections.items()
            if kind != LISTENER
            for resource in found.resources.values()
        )
        for service, snapshot in snapshots(state).by_service.items()
    }


@pytest.mark.parametrize("case", list(_parameters()))
def test_exactly_the_adms_with_another_configuration_are_named(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sides(tmp_path, case)
    monkeypatch.chdir(tmp_path)
    base, head = sides(f"base/{MAIN}", f"head/{MAIN}", Options())
    found = compared(base, head, {}, causes=False, effort=None)
    before, after = emitted(base), emitted(head)
    staying = before.keys() & after.keys()
    different = {service for service in staying if before[service] != after[service]}
    assert set(found.rollout.configuration_only) == different
