"""The steps of a rollout are events of its `Program`."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.program.events import rollout_step
from admc.kubernetes.cluster.reporting import Reporter
from admc.serve.environment import BegunStep

if TYPE_CHECKING:
    from admc.kubernetes.cluster.program.events import Happening

CANDIDATE: Any = SimpleNamespace(object=SimpleNamespace(name="shop", uid="u-1"))


class Writer:
    def __init__(self) -> None:
        self.events: list[Happening] = []
        self.fails = False

    async def event(self, program: Any, happening: Happening) -> None:
        assert program is CANDIDATE.object
        if self.fails:
            raise ApiError(0, "Timeout", "the answer is lost")
        self.events.append(happening)


async def look(reporter: Reporter) -> None:
    """Make the reporter's write of steps, without the others."""
    for write in reporter._writes():
        if isinstance(write, partial) and write.func == reporter._write_steps:
            await write()


def reporter(serving: Any, writer: Any) -> Reporter:
    unused: Any = None
    cluster: Any = SimpleNamespace(controller="main", programs=SimpleNamespace(items={}))
    programs: Any = SimpleNamespace(
        state=SimpleNamespace(candidate=CANDIDATE), restored=SimpleNamespace(is_set=lambda: True)
    )
    return Reporter(cluster, programs, serving, unused, unused, unused, unused, unused, writer, lambda: True)


async def test_each_step_that_begins_is_one_event() -> None:
    writer, serving = Writer(), SimpleNamespace(rollout_steps=())
    reported = reporter(serving, writer)
    await look(reported)
    assert writer.events == []
    serving.rollout_steps = (BegunStep(1, "step `prepare`"), BegunStep(2, "step `senders`"))
    await look(reported)
    await look(reported)
    serving.rollout_steps = (BegunStep(2, "step `senders`"), BegunStep(3, "step `prepare`"))
    await look(reported)
    steps = ("prepare", "senders", "prepare")
    assert writer.events == [rollout_step(f"step `{step}`") for step in steps]


async def test_an_event_that_cannot_be_written_holds_up_no_other() -> None:
    writer, serving = Writer(), SimpleNamespace(rollout_steps=(BegunStep(1, "step `prepare`"),))
    reported = reporter(serving, writer)
    writer.fails = True
    with pytest.raises(ApiError):
        await look(reported)
    writer.fails = False
    serving.rollout_steps = (*serving.rollout_steps, BegunStep(2, "step `senders`"))
    await look(reported)
    assert writer.events == [rollout_step("step `senders`")]
