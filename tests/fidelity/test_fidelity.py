"""Real proxies against the judge: one kind at a time on every side, and two kinds in both orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.emitters.envoy.support import ENVOY
from tests.fidelity.known import reason
from tests.fidelity.runs import What
from tests.fidelity.store import groups

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fidelity.store import Group

pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")


def _parameters() -> Iterator[object]:
    for group in groups():
        for case in group.cases:
            for how in group.hows:
                why = reason(case.key, how)
                marks = [pytest.mark.xfail(reason=why, strict=True)] if why else []
                yield pytest.param(group, case.name, how, id=f"{how}-{case.label}-{case.name}", marks=marks)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """One for all processes of a test run."""
    base = tmp_path_factory.getbasetemp()
    return (base if worker_id == "master" else base.parent) / "fidelity"


@pytest.mark.parametrize(("group", "case", "how"), list(_parameters()))
def test_as_judged(group: Group, case: str, how: str, folder: Path) -> None:
    results = group.results(folder)
    found = results.get((case, how)) or results[case, "compiled"]
    assert found.what != What.DIFFERENT, f"\n{found.label}, {how}\n{found.detail}"
