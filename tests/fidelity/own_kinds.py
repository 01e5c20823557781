"""What scripts, modules and templates of the samples do: the judge cannot read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.fidelity.kinds import HANDLERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsl.program import Policy
    from tests.fidelity.judge import Handler, Inner, Place, Run
    from tests.fidelity.message import Answer, Message


def lua(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    return inner(message.plus("x-lua", "asked")).plus("x-lua", "answered")


def wasm(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    return inner(message.plus("x-wasm", "yes"))


def mine(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    return inner(message.plus("x-mine", str(policy.arguments["value"])))


ALL: Final[Mapping[str, Handler]] = {**HANDLERS, "lua": lua, "wasm": wasm, "mine": mine}
