"""The conditions of a `Program`: each is true only where it is so."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from admc.kubernetes.cluster.audit import Audit
from admc.kubernetes.cluster.program.conditions import Condition, Verdict
from admc.kubernetes.cluster.records import Key
from admc.kubernetes.cluster.redirection import PodRedirection
from admc.kubernetes.cluster.reporting import Reporter
from admc.serve.observe.problems import Problems
from admc.serve.rollout.model import Placed
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from emitters.interception.pod import PodCaptures
from tests.cluster.objects import pod
from tests.cluster.serve.shown import WITH_POLICY, Shown, compiled, shop, wanted_of
from tests.cluster.serve.test_program_source import next_source, running, source_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from admc.kubernetes.cluster.program_source import ClusterPrograms

AT_EGRESS = WITH_POLICY + "pin p at egress\n"
SEARCH = pod(
    "search-1",
    "search",
    "10.1.0.1",
    adm="shop/search",
    captures=PodCaptures(frozenset(), frozenset({9000})),
    is_redirected=True,
)


class Registry(dict[str, list[Any]]):
    def of(self, group: str) -> list[Any]:
        return self.get(group, [])


def stream(node: str, *, in_sync: bool = True) -> Any:
    return SimpleNamespace(node=SimpleNamespace(id=node), in_sync=in_sync)


class Reported:
    """A server at rest, with one ADM in sync."""

    def __init__(self, shown: Shown, wanted: ClusterPrograms) -> None:
        self.shown, self.wanted = shown, wanted
        self.registry = Registry(search=[stream("search-1")])
        self.closing = SimpleNamespace(findings=(), open=())
        self.serving: Any = SimpleNamespace(
            server=SimpleNamespace(registry=self.registry),
            state=None,
            recipe=None,
            placed=(),
            problems=Problems(),
            rollout_text="",
            rollout_steps=(),
        )
        self.redirection = PodRedirection(self.pods, self.pods)

    def pods(self, service: str) -> Any:
        found = self.wanted.state.published
        return found[0].selection.pods(service).values() if found and service in found[0].selection.keys else ()

    async def serve(self) -> None:
        source = await source_of(self.wanted)
        self.wanted.compiled({})
        state, recipe = compiled(self.wanted, source)
        placed = Placed(state.program, state.placement)
        self.serving.state, self.serving.recipe, self.serving.placed = state, recipe, (placed,)
        self.wanted.in_force([state.program], [state.program])
        self.redirection.begin(placed)

    def reporter(self) -> Reporter:
        return Reporter(
            self.shown,
            self.wanted,
            self.serving,
            self.redirection,
            self.closing,  # type: ignore[arg-type]
            SimpleNamespace(findings=(), guarded=None),  # type: ignore[arg-type]
            Audit(self.wanted),
            None,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            lambda: True,
        )

    def full_verdicts(self, reporter: Reporter) -> Mapping[Condition, Verdict]:
        self.wanted.advance()
        assert self.wanted.state.candidate is not None
        return reporter._report(self.wanted.state.candidate).verdicts

    @property
    def verdicts(self) -> dict[str, tuple[bool | None, str]]:
        """As a reporter says them that begins now."""
        found = self.full_verdicts(self.reporter())
        return {name.value: (each.status, each.reason) for name, each in found.items()}

    @property
    def programmed(self) -> tuple[bool | None, str]:
        return self.verdicts[Condition.PROGRAMMED.value]

    @property
    def accepted(self) -> tuple[bool | None, str]:
        return self.verdicts[Condition.ACCEPTED.value]


@contextlib.asynccontextmanager
async def reported() -> AsyncIterator[Reported]:
    shown = shop()
    shown.pod_is(SEARCH)
    shown.program_is(AT_EGRESS)
    wanted = wanted_of(shown)
    async with running(wanted):
        found = Reported(shown, wanted)
        assert found.accepted == (None, "Compiling")
        assert found.programmed[0] is False
        await found.serve()
        assert found.verdicts == {
            "Accepted": (True, "Accepted"),
            "Resolved": (True, "Resolved"),
            "Programmed": (True, "Programmed"),
        }
        yield found


def error(code: str) -> Diagnostic:
    return Diagnostic(code, Severity.ERROR, "wrong", None)


async def test_addresses_that_cannot_be_used_are_said() -> None:
    async with reported() as it:
        it.serving.problems.current["endpoints"] = (error("ADM724"),)
        assert it.programmed == (False, "NotProgrammed")


async def test_a_pod_that_cannot_be_read_is_said() -> None:
    """It has 100,000 labels, say. Nothing tells its service, and NetworkPolicies admit it all the same."""
    async with reported() as it:
        rejected = it.shown.pods._rejected
        rejected[Key("elsewhere", "many")] = "it has more than 10,000 labels"
        assert it.programmed == (True, "Programmed")
        rejected[Key("shop", "many")] = "it has more than 10,000 labels"
        assert it.programmed == (False, "PodsNotReady")


async def test_a_destination_that_is_open_is_said_at_rest_too() -> None:
    """Its NetworkPolicy cannot be written, say."""
    async with reported() as it:
        it.closing.open = ("rate",)
        assert it.programmed == (False, "Closing")


async def test_a_cluster_that_cannot_be_followed_is_said() -> None:
    async with reported() as it:
        it.shown.pods.problem = "403 Forbidden"
        assert it.programmed == (False, "NotFollowed")


async def test_each_pod_has_a_proxy_of_its_own_in_sync() -> None:
    async with reported() as it:
        it.registry["search"] = [stream("search-0")]  # of a pod that is gone
        assert it.programmed == (False, "NotInSync")
        it.registry["search"] = [stream("search-1", in_sync=False)]
        assert it.programmed == (False, "NotInSync")


async def test_a_pod_without_the_redirection_of_the_first_plan_is_said() -> None:
    async with reported() as it:
        it.shown.pod_is(pod("search-1", "search", "10.1.0.1", adm="shop/search", is_redirected=True))
        assert it.programmed == (False, "PodsNotReady")


@pytest.mark.parametrize(
    "change",
    [
        {"text": AT_EGRESS + "// another line\n"},
        {"text": {"policies.adm": AT_EGRESS, "other.adm": AT_EGRESS.replace("gold", "tin")}, "main": "other.adm"},
        {"text": AT_EGRESS, "services": {"rate": "rate-v2"}},
    ],
)
async def test_a_change_is_not_in_force_before_it_is_compiled_and_applied(change: dict[str, Any]) -> None:
    async with reported() as it:
        it.shown.service_is("rate-v2", "10.96.0.9", selector={"app": "rate"})
        it.shown.program_is(**change)
        await next_source(it.wanted)
        assert it.accepted[0] is None
        assert it.programmed[0] is False
        it.wanted.compiled({})
        assert it.programmed[0] is False  # it is not applied yet


async def test_a_plan_that_is_given_for_review_is_not_in_force_before_it_is_applied() -> None:
    async with reported() as it:
        plan = it.serving.recipe.plan.decode()
        it.shown.program_is({"policies.adm": AT_EGRESS, "policies.plan.json": plan})  # type: ignore[arg-type]
        await next_source(it.wanted)
        it.wanted.compiled({})
        assert it.programmed[0] is False
        await it.serve()
        assert it.programmed == (True, "Programmed")
        it.shown.program_is(AT_EGRESS)
        await next_source(it.wanted)
        it.wanted.compiled({})
        assert it.programmed[0] is False


async def test_a_program_that_does_not_fit_is_not_said_to_compile() -> None:
    async with reported() as it:
        it.shown.program_is(AT_EGRESS.replace("rate   { http 9000", "rate   { http 9001"))
        await asyncio.sleep(0.3)
        assert it.accepted == (None, "NotResolved")
        assert it.verdicts["Resolved"] == (False, "NotResolved")
        assert it.programmed == (False, "NotAccepted")


async def test_a_namespace_that_loses_its_label_changes_neither_plan_nor_what_is_said_of_it() -> None:
    async with reported() as it:
        it.shown.namespace_is("shop", None)
        found = it.verdicts
        assert (found["Accepted"], found["Resolved"][0], found["Programmed"][0]) == ((True, "Accepted"), False, False)
        # The next server says the same.
        again = wanted_of(it.shown)
        async with running(again, [it.serving.recipe]):
            other = Reported(it.shown, again)
            other.registry = it.registry
            await other.serve()
            assert other.verdicts == found


async def test_audit_says_that_an_earlier_plan_stays() -> None:
    async with reported() as it:
        it.shown.program_is(AT_EGRESS, mode="Audit")
        await asyncio.sleep(0.3)
        assert it.programmed == (False, "Audit")
        assert it.accepted == (None, "Compiling")


async def test_a_pod_whose_containers_were_altered_is_said_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    reason = "container `admc-proxy`: `env.LD_PRELOAD` is added"
    async with reported() as it:
        it.shown.pod_is(pod("search-1", "search", "10.1.0.1", unrecognised=reason))
        reporter = it.reporter()
        for _ in range(2):
            found = it.full_verdicts(reporter)
            assert (found[Condition.PROGRAMMED].status, found[Condition.PROGRAMMED].reason) == (False, "PodsNotReady")
            assert found[Condition.PROGRAMMED].message.startswith("pods that lack what the plan needs: `search-1`\n")
            assert found[Condition.RESOLVED].status is True
            for condition in (Condition.PROGRAMMED, Condition.RESOLVED):
                text = found[condition].message
                assert "policies.adm:2:9: ADM953: `search` has a pod with containers that have admc's names" in text
                assert f"({reason}); let webhooks leave" in text
        (logged,) = [record for record in caplog.records if record.message == "containers_not_recognised"]
        assert logged.services == 1  # type: ignore[attr-defined]
        assert reason in logged.why[0]  # type: ignore[attr-defined]
        it.shown.pod_is(SEARCH)
        assert it.programmed == (True, "Programmed")
