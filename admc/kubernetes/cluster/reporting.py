"""Reports the state of a `Program` to the cluster: its status, its events, and its plan in ConfigMaps.

ClusterPrograms, the server, pods --report--> StatusWriter, PlanStore --> cluster
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.compile.facts import FACTS
from admc.kubernetes.cluster.api.backoff import Backoff
from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.core.mismatches import UNRECOGNISED
from admc.kubernetes.cluster.program import choice, conditions
from admc.kubernetes.cluster.program.conditions import Condition, Names, Progress, Verdict
from admc.kubernetes.cluster.program.debounce import Debounce
from admc.kubernetes.cluster.program.events import rollout_step
from admc.kubernetes.cluster.program.owner import Owner
from admc.kubernetes.cluster.program.status import Report
from dsl.diagnostics.diagnostic import Severity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from admc.kubernetes.cluster.audit import Audit
    from admc.kubernetes.cluster.closing.policies import ClusterClosing
    from admc.kubernetes.cluster.core.followed import FollowedProgram
    from admc.kubernetes.cluster.core.state import Candidate
    from admc.kubernetes.cluster.follow import Cluster
    from admc.kubernetes.cluster.injections.writer import InjectionWriter
    from admc.kubernetes.cluster.program.plan_objects import PlanReference
    from admc.kubernetes.cluster.program.plan_store import PlanStore
    from admc.kubernetes.cluster.program.spec import ProgramObject
    from admc.kubernetes.cluster.program.status_writer import StatusWriter
    from admc.kubernetes.cluster.program_source import ClusterPrograms
    from admc.kubernetes.cluster.redirection import PodRedirection
    from admc.kubernetes.cluster.webhook.configuration import WebhookConfiguration
    from admc.serve.environment import Serving
    from dsl.diagnostics.diagnostic import Diagnostic

LOG: Final = logging.getLogger("admc.cluster")
LOOK_SECONDS: Final = 1.0
BUG: Final = "ADM901"


class InForce(NamedTuple):
    """The parts of a plan that the status shows."""

    plan: bytes
    adms: frozenset[str]
    facts: bytes | None
    """The document of facts that the plan relies on."""


class Reporter:
    """Computes the status once a second, and writes it if it differs from the status in the cluster."""

    def __init__(
        self,
        cluster: Cluster,
        programs: ClusterPrograms,
        serving: Serving,
        redirection: PodRedirection,
        closing: ClusterClosing,
        injections: InjectionWriter,
        audit: Audit,
        plans: PlanStore,
        writer: StatusWriter,
        may_write: Callable[[], bool],
        webhook: WebhookConfiguration | None = None,
    ) -> None:
        self._cluster, self._programs, self._serving = cluster, programs, serving
        self._redirection, self._closing, self._audit = redirection, closing, audit
        self._injections, self._plans, self._writer, self._may_write = injections, plans, writer, may_write
        self._webhook = webhook
        self._put: tuple[bytes, str] | None = None
        """The plan that was last put into the cluster, and the uid of its Program."""
        self._reference: PlanReference | None = None
        self._step = 0
        """The number of the last rollout step that an event was for."""
        self._problem = ""
        self._altered: tuple[Diagnostic, ...] = ()
        """The findings about altered containers of admc that were logged last."""
        self._lacking, self._out_of_sync = Debounce(), Debounce()
        self._debounced_plan = b""
        """The plan to which the two belong."""

    async def run(self) -> None:
        """Report until cancelled."""
        backoff = Backoff()
        while True:
            pause = LOOK_SECONDS
            if self._may_write():
                try:
                    await self._write()
                    self._problem = ""
                    backoff.reset()
                except ApiError as error:
                    if str(error) != self._problem:
                        LOG.warning("the status or the plan cannot be written: %s", error)
                    self._problem = str(error)
                    pause = max(pause, backoff.seconds(error.retry_after))
            await asyncio.sleep(pause)

    async def _write(self) -> None:
        """Make each write independently of the others: the account may lack the right to one of them."""
        self._writer.forget_all_but({program.uid for program in self._own_programs()})
        failed: list[ApiError] = []
        for write in self._writes():
            try:
                await write()
            except ApiError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def _writes(self) -> Iterator[Callable[[], Awaitable[object]]]:
        candidate = self._programs.state.candidate
        if not self._programs.restored.is_set():
            yield self._write_problem
        elif candidate is not None:  # else each write would be removed, as the plan is, with its Program
            yield partial(self._write_plan, candidate)
            yield partial(self._write_status, candidate)
            yield partial(self._write_steps, candidate)
            for program in self._own_programs():
                if program.uid != candidate.object.uid:
                    yield partial(self._writer.write, program, _other(program, candidate.object))
            if self._put is not None and self._put[1] == candidate.object.uid:  # else its owner is gone
                yield self._plans.sync

    async def _write_status(self, candidate: Candidate) -> None:
        await self._writer.write(candidate.object, self._report(candidate))

    async def _write_steps(self, candidate: Candidate) -> None:
        """Write an event for each rollout step that has begun since the last look. One that cannot be written is left
        out, as those of transitions are."""
        for step in tuple(self._serving.rollout_steps):
            if step.number > self._step:
                self._step = step.number
                await self._writer.event(candidate.object, rollout_step(step.text))

    async def _write_problem(self) -> None:
        """Report why the cluster cannot be read. Before it has been read, there is nothing else to report."""
        problem, program = self._cluster.problem, choice.served(self._own_programs(), self._cluster.controller)
        if problem and program is not None:
            verdict = conditions.unknown("NotFollowed", f"the cluster cannot be followed at present: {problem}")
            await self._writer.write(program, Report(program.generation, dict.fromkeys(Condition, verdict), keeps=True))

    def _own_programs(self) -> list[ProgramObject]:
        controller = self._cluster.controller
        return [program for program in self._cluster.programs.items.values() if program.controller == controller]

    async def _write_plan(self, candidate: Candidate) -> None:
        in_force = self._in_force
        if in_force is None or self._put == (in_force.plan, candidate.object.uid):
            return
        owner = Owner(candidate.object.name, candidate.object.uid)
        self._reference = await self._plans.put(in_force.plan, owner, in_force.facts)
        self._put = in_force.plan, candidate.object.uid

    @property
    def _in_force(self) -> InForce | None:
        """The plan that the status is about; in mode `Audit`, the plan that would be served."""
        if self._programs.state.is_audit:
            audited = self._audit.result
            return None if audited is None else InForce(audited.plan, audited.adms, audited.facts)
        state, recipe = self._serving.state, self._serving.recipe
        if state is None or recipe is None:
            return None
        return InForce(recipe.plan, frozenset(adm.service for adm in state.placement.adms), recipe.inputs.get(FACTS))

    # ---- the report ----

    def _report(self, candidate: Candidate) -> Report:
        in_force, followed = self._in_force, self._programs.state.of_candidate
        now = time.monotonic()
        if in_force is not None and in_force.plan != self._debounced_plan:
            self._debounced_plan = in_force.plan
            self._lacking.begin(now)
            self._out_of_sync.begin(now)
        lacking = Names.of(self._lacking.of(self._pods_lacking(), now))
        out_of_sync = Names.of(self._out_of_sync.of(self._services_out_of_sync(), now))
        return Report(
            candidate.object.generation,
            self._verdicts(candidate, lacking, out_of_sync),
            adms=None if in_force is None else len(in_force.adms),
            services=None if followed is None else len(followed.program.services),
            pods=None if followed is None else _pods(followed),
            lacking=lacking,
            guarded=self._injections.guarded,
            plan=self._reference,
            namespaces={
                service.namespace for placed in self._serving.placed for service in placed.program.services.values()
            },
            keeps=not self._has_plan,
        )

    def _verdicts(self, candidate: Candidate, lacking: Names, out_of_sync: Names) -> Mapping[Condition, Verdict]:
        mismatches = self._programs.mismatches
        altered = tuple(item for item in mismatches if item.code == UNRECOGNISED)
        self._log_altered(altered)
        compiled = self._compiled(candidate)
        verdicts = {Condition.ACCEPTED: self._accepted(candidate, compiled, mismatches)}
        if candidate.followed is None:
            verdicts[Condition.RESOLVED] = conditions.unknown("NotAccepted", "the program has errors")
        else:
            webhook = () if self._webhook is None else self._webhook.findings
            verdicts[Condition.RESOLVED] = conditions.resolved((*mismatches, *webhook))
        if self._programs.state.is_audit:
            verdicts[Condition.PROGRAMMED] = conditions.audited(has_plan=self._has_plan)
        elif _errors(candidate.findings, compiled or (), mismatches) or not self._is_in_force(candidate):
            what = "an earlier plan is in force" if self._has_plan else "no plan is in force"
            verdicts[Condition.PROGRAMMED] = Verdict(False, "NotAccepted", what)
        else:
            verdicts[Condition.PROGRAMMED] = conditions.programmed(self._progress(lacking, out_of_sync, altered))
        return verdicts

    def _log_altered(self, altered: tuple[Diagnostic, ...]) -> None:
        """Log the findings about altered containers of admc when they change."""
        if altered and altered != self._altered:
            reasons = [conditions.finding_text(item) for item in altered[: conditions.SHOWN]]
            LOG.warning("containers_not_recognised", extra={"services": len(altered), "why": reasons})
        self._altered = altered

    @property
    def _has_plan(self) -> bool:
        return self._serving.state is not None

    def _accepted(
        self, candidate: Candidate, compiled: tuple[Diagnostic, ...] | None, mismatches: tuple[Diagnostic, ...]
    ) -> Verdict:
        if compiled is None and not candidate.findings:
            if _errors(mismatches):
                return conditions.unknown("NotResolved", "it is compiled once its Services and namespaces fit")
            return conditions.unknown("Compiling", "its plan is being made")
        problems = self._problems("kept") if compiled is None else compiled  # a stored state that cannot be used
        return conditions.accepted((*candidate.findings, *problems), has_plan=self._has_plan)

    def _compiled(self, candidate: Candidate) -> tuple[Diagnostic, ...] | None:
        """Return the findings of the candidate's compile; None until it has been compiled."""
        if self._programs.state.is_audit:
            return self._audit.findings_of(candidate)
        if candidate.followed is None:
            return None
        if not self._programs.is_compiled(candidate):
            # A worker that ended, or met a bug, has no result, and another one tries again.
            return tuple(item for item in self._problems("program") if item.code == BUG) or None
        return self._problems("program", "warnings", "kept")

    def _problems(self, *subjects: str) -> tuple[Diagnostic, ...]:
        current = self._serving.problems.current
        return tuple(item for subject in subjects for item in current.get(subject, ()))

    def _is_in_force(self, candidate: Candidate) -> bool:
        recipe, wanted = self._serving.recipe, self._programs.outputs.wanted
        if recipe is None or wanted is None or not self._programs.is_compiled(candidate):
            return False
        if wanted.main not in recipe.inputs:
            return False  # a reviewed plan, or another main file, that was not there before
        source = self._programs.source_of(wanted)
        notes = dict(source.notes)
        files = {**(source.files or {}), FACTS: source.facts, **notes}
        return notes.keys() <= recipe.inputs.keys() and all(
            files.get(path) == content for path, content in recipe.inputs.items()
        )

    def _progress(self, lacking: Names, out_of_sync: Names, altered: tuple[Diagnostic, ...]) -> Progress:
        return Progress(
            self._serving.rollout_text,
            lacking,
            out_of_sync,
            Names.of(self._closing.open),
            (*self._closing.findings, *self._injections.findings, *self._problems("endpoints")),
            self._cluster.problem,
            altered,
        )

    def _pods_lacking(self) -> list[str]:
        """Return the pods that lack redirection of the plan in force. Malformed pods are among them, because such a pod
        may belong to any service of its namespace."""
        namespaces = {
            service.namespace for placed in self._serving.placed for service in placed.program.services.values()
        }
        unreadable = [key.name for key in sorted(self._cluster.pods.rejected) if key.namespace in namespaces]
        return [*(pod for lacking_pods in self._redirection.lacking.values() for pod in lacking_pods.pods), *unreadable]

    def _services_out_of_sync(self) -> list[str]:
        """Return the services with an ADM that have at least one pod without a proxy in sync."""
        state, registry, program = self._serving.state, self._serving.server.registry, self._programs.state.of_servable
        if state is None or program is None:
            return []
        selection = program.selection.at(self._cluster.view)
        lagging = []
        for name in (adm.service for adm in state.placement.adms if adm.service in selection.keys):
            streams = registry.of(name)
            nodes = {stream.node.id for stream in streams}
            if not all(stream.in_sync for stream in streams) or any(
                key.name not in nodes for key in selection.pods(name)
            ):
                lagging.append(name)
        return lagging


def _pods(followed: FollowedProgram) -> int:
    return sum(len(followed.selection.pods(name)) for name in followed.program.services)


def _errors(*findings: tuple[Diagnostic, ...]) -> bool:
    return any(item.severity is Severity.ERROR for group in findings for item in group)


def _other(program: ProgramObject, served: ProgramObject) -> Report:
    verdict = conditions.accepted((choice.other_program(served),), has_plan=False)
    unknown = conditions.unknown("NotAccepted", "another Program is served")
    return Report(
        program.generation,
        {Condition.ACCEPTED: verdict, Condition.RESOLVED: unknown, Condition.PROGRAMMED: unknown},
    )
