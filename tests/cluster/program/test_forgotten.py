"""What the server remembers of a `Program` goes with it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from admc.kubernetes.cluster.program.conditions import Condition, unknown
from admc.kubernetes.cluster.program.spec import ProgramObject, program_object
from admc.kubernetes.cluster.program.status import Report
from admc.kubernetes.cluster.program.status_writer import StatusWriter
from admc.kubernetes.cluster.reporting import Reporter


class Api:
    async def apply(self, path: str, body: dict[str, Any], *, subresource: str = "") -> dict[str, Any]:
        return body


def program(number: int) -> ProgramObject:
    made = program_object(
        {
            "metadata": {
                "name": "shop",
                "uid": f"u-{number}",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "resourceVersion": "1",
                "generation": 1,
            },
            "spec": {"controller": "main", "files": {"policies.adm": "app shop\n"}},
        }
    )
    assert made is not None
    return made


async def test_programs_that_are_gone_take_no_memory() -> None:
    api: Any = Api()
    unused: Any = None
    writer = StatusWriter(api, "main", "replica-1")
    there: dict[str, ProgramObject] = {}
    cluster: Any = SimpleNamespace(controller="main", programs=SimpleNamespace(items=there))
    programs: Any = SimpleNamespace(
        state=SimpleNamespace(candidate=None), restored=SimpleNamespace(is_set=lambda: True)
    )
    reporter = Reporter(cluster, programs, unused, unused, unused, unused, unused, unused, writer, lambda: True)
    report = Report(1, dict.fromkeys(Condition, unknown("NoPlan", "there is no plan yet")))
    for number in range(100):
        there.clear()
        there["shop"] = program(number)
        await reporter._write()
        assert await writer.write(there["shop"], report)
        assert not await writer.write(there["shop"], report), "the watch is behind"
    await reporter._write()
    assert writer._written.keys() == {"u-99"}
    there.clear()
    await reporter._write()
    assert writer._written == {}
