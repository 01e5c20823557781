"""Keeps the `Injection` objects of an installation as its plans need them.

    plans, selectors --injections--> specs --server-side apply--> cluster --watch--> there
    a plan that comes --announced--> the same, before the plan is begun

A pod that starts in the middle of a rollout needs what both plans need. So the objects have the needs of a new plan
before its first step, and lose those of the old one when no proxy may have it any more. An object that cannot be
written holds a new plan back only if the plan needs something in its namespace that the stored object does not have.
What the guard requires of pods (`guarded`) is stored in these objects and nowhere else: the next active replica reads
it there, from the API server and not from its watch, which may be behind.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.base.exits import CommandError, Exit
from admc.compile.plan.read import named_plan
from admc.kubernetes.cluster.api.backoff import Backoff
from admc.kubernetes.cluster.api.errors import ApiError, is_refusal
from admc.kubernetes.cluster.injections import findings
from admc.kubernetes.cluster.injections.guarded import guarded, recalled
from admc.kubernetes.cluster.injections.objects import (
    EVERYWHERE,
    PATH,
    Changes,
    body,
    changes,
    has_all,
    has_labels,
    injection_object,
    is_written_for,
)
from admc.kubernetes.cluster.names import CONTROLLER
from admc.kubernetes.cluster.program.conditions import Names
from admc.kubernetes.cluster.records import Key
from admc.kubernetes.inject.needs import NO_NAMES, estimates_of, injections, needs_of_plan, united
from admc.kubernetes.inject.spec import MAX_BYTES, InjectionError, read_spec, size

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence

    from admc.kubernetes.cluster.api.requests import Api
    from admc.kubernetes.cluster.injections.guarded import Guarded, GuardedServices
    from admc.kubernetes.cluster.injections.objects import InjectionObject
    from admc.kubernetes.cluster.program.owner import Owner
    from admc.kubernetes.cluster.retry_loop import ChangedKeys
    from admc.kubernetes.inject.needs import Estimate, Needs, Place, PlanNeeds
    from admc.kubernetes.inject.spec import Amounts, InjectionSpec
    from admc.serve.environment import Serving
    from admc.serve.rollout.model import Placed
    from admc.serve.storage.position import Recipe
    from dsl.diagnostics.diagnostic import Diagnostic

LOG: Final = logging.getLogger("admc.cluster")
LOOK_SECONDS: Final = 1.0
IN_FORCE_SECONDS: Final = 1.0
"""After a watch has shown an object, API servers judge by it."""
PAGE: Final = 20
"""Objects that are read at once. Each has up to 1 MB."""
SHOWN: Final = 20
"""Services in one line of the log."""
ESTIMATED: Final = b'"cpu_of_replica"'
"""A field that only a plan with a profile has."""


class Picture(NamedTuple):
    """What the cluster shows."""

    selectors: Mapping[Place, Mapping[str, str]]
    """Service -> the selector of its Kubernetes Service."""
    taking_part: tuple[str, ...]
    """The namespaces that take part in the installation."""
    names: Mapping[Place, str] = NO_NAMES
    """Service -> the name of its Kubernetes Service."""


class _Wanted(NamedTuple):
    specs: Mapping[str, InjectionSpec]
    """Namespace with pods that need something -> what they need, whether or not it takes part."""
    bodies: Mapping[str, dict[str, Any]]
    """Namespace that takes part -> its object."""
    too_large: Mapping[str, Diagnostic]
    """Namespace whose object would be too large, so that it has none in `bodies` -> the finding."""

    def without(self, refused: Collection[str]) -> frozenset[str]:
        """Return the namespaces whose objects are not written."""
        return frozenset((self.specs.keys() - self.bodies.keys()).union(refused))


class _Written(NamedTuple):
    findings: tuple[Diagnostic, ...] = ()
    """About objects that could not be written."""
    error: ApiError | None = None
    """The first one of the API server."""


class _Basis(NamedTuple):
    """All that the objects are computed from."""

    app: str
    needs: PlanNeeds
    estimates: Mapping[str, Estimate]
    guarded: GuardedServices
    picture: Picture
    owner: Owner


class InjectionWriter:
    """All calls belong on one event loop."""

    def __init__(
        self,
        api: Api,
        controller: str,
        server: str,
        limits: Amounts | None,
        there: Mapping[Key, InjectionObject],
        shown: ChangedKeys,
        *,
        picture: Callable[[], Picture],
        owner: Callable[[], Owner | None],
        may_write: Callable[[], bool],
        published: Callable[[], Sequence[Placed]],
        lacks: Callable[[str, Place, Needs], bool],
    ) -> None:
        """`server` is its address, as pods dial it. `there` has the objects of this installation, as a watch shows
        them, and `shown` those that it has shown anew. While no Program owns them, or this replica may not write,
        nothing is written. `published` returns the plans that are published, and `lacks` whether a pod of a service of
        an app lacks something."""
        self._api, self._controller, self._server, self._limits = api, controller, server, limits
        self._there, self._shown = there, shown
        self._picture, self._owner, self._may_write = picture, owner, may_write
        self._published, self._lacks = published, lacks
        self._turn = asyncio.Lock()
        self._coming: tuple[tuple[Placed, ...], bytes | None] | None = None
        """The plans with one that is about to be accepted, and the document of that plan."""
        self._needs: list[tuple[Placed, PlanNeeds]] = []
        self._estimates: tuple[bytes | None, Mapping[str, Estimate]] = None, {}
        """What was computed of each plan, as long as it is used."""
        self._guarded: GuardedServices | None = None
        """None before it has been read from the stored objects, and while no Program owns them."""
        self._before: GuardedServices = {}
        """The guarded services before the last look."""
        self._app = ""
        """The app of the guarded services."""
        self._computed: tuple[_Basis, _Wanted] | None = None
        """The objects that were computed last, and from what: with thousands of services that takes up to a second."""
        self._sent: dict[str, dict[str, Any]] = {}
        """Namespace -> an object that was applied and that the watch has not shown yet."""
        self._shown_at: dict[str, float] = {}
        """Namespace -> when the watch has shown its object last."""
        self.findings: tuple[Diagnostic, ...] = ()
        """Why some pods may not get what they need."""
        self._logged = ""

    @property
    def guarded(self) -> Names | None:
        """The guarded services; None before they are known."""
        return None if self._guarded is None else Names.of(place.service for place in self._guarded)

    async def run(self, serving: Serving) -> None:
        """Write the objects of the plans in force, until cancelled."""
        backoff = Backoff()
        while True:
            pause = LOOK_SECONDS
            recipe = serving.recipe
            plans, plan = self._coming or (serving.placed, None if recipe is None else recipe.plan)
            try:
                written = await self._write(plans, plan)
            except ApiError as error:
                written = _Written((findings.not_written(error),), error)
            self.findings = written.findings
            if written.error is None:
                backoff.reset()
            else:
                pause = max(pause, backoff.seconds(written.error.retry_after))
            self._log()
            await asyncio.sleep(pause)

    @asynccontextmanager
    async def announced(self, plans: Sequence[Placed], recipe: Recipe | None) -> AsyncIterator[None]:
        """`announced` of `admc.serve.environment.Environment`."""
        self._coming = tuple(plans), None if recipe is None else recipe.plan
        try:
            await self._announce(*self._coming)
            yield
        finally:
            self._coming = None

    async def _announce(self, plans: tuple[Placed, ...], plan: bytes | None) -> None:
        async with self._turn:
            owner = self._owner()
            if owner is None or not self._may_write():
                return
            try:
                wanted = await self._wanted(plans, plan, owner)
                unwritten: Collection[str] = wanted.specs.keys()
                try:
                    await self._check_needs(wanted, wanted.too_large, owner)
                    unwritten = ()
                    refused = await self._apply(self._due(wanted, owner).applied)
                    unwritten = wanted.without(refused)
                finally:
                    self._settle(unwritten)
            except ApiError as error:
                raise CommandError(Exit.INPUT, [findings.not_written(error)]) from error
            await self._check_needs(wanted, findings.refusals(refused), owner)

    async def _check_needs(self, wanted: _Wanted, unwritten: Mapping[str, Diagnostic], owner: Owner) -> None:
        """Raise `CommandError` with the findings of the unwritten objects whose pods need more than the stored ones
        have."""
        lacking = [
            finding
            for namespace, finding in unwritten.items()
            if not await asyncio.to_thread(self._is_stored, namespace, wanted.specs[namespace], owner)
        ]
        if lacking:
            raise CommandError(Exit.INPUT, lacking)

    def _is_stored(self, namespace: str, needed: InjectionSpec, owner: Owner) -> bool:
        there = self._there.get(Key(namespace, self._controller))
        if there is None or not is_written_for(there, self._controller, owner):
            return False
        try:
            return has_all(read_spec(there.spec), needed)
        except InjectionError:
            return False

    async def _write(self, plans: tuple[Placed, ...], plan: bytes | None) -> _Written:
        """Write what differs. A namespace that refuses its object does not stop the others. Raises `ApiError`."""
        async with self._turn:
            owner = self._owner()
            if owner is None:
                self._guarded = None  # the objects go with their Program, and another Program begins anew
            if owner is None or not plans or not self._may_write():
                return _Written()
            wanted = await self._wanted(plans, plan, owner)
            due = self._due(wanted, owner)
            unwritten: Collection[str] = ()
            try:
                refused = await self._apply(due.applied)
                unwritten = wanted.without(refused)
            finally:
                self._settle(unwritten)
            refused |= await self._remove(due.removed)
            why = (*wanted.too_large.values(), *findings.refusals(refused).values())
            return _Written(why, next(iter(refused.values()), None))

    def _settle(self, unwritten: Collection[str]) -> None:
        """Forget what objects that were not written would have required: API servers have not checked pods by it. If
        the API server has not answered, it may have written an object, and what that requires stays."""
        if self._guarded is None:
            return
        kept = {place: row for place, row in self._guarded.items() if place.namespace not in unwritten}
        self._guarded = kept | {place: row for place, row in self._before.items() if place.namespace in unwritten}
        _log_guarded(self._before, self._guarded)

    def _due(self, wanted: _Wanted, owner: Owner) -> Changes:
        for key, at in self._shown.take().items():
            self._sent.pop(key.namespace, None)
            self._shown_at[key.namespace] = at
        return changes(wanted.bodies, wanted.specs.keys(), self._there, self._controller, owner)

    async def _wanted(self, plans: tuple[Placed, ...], plan: bytes | None, owner: Owner) -> _Wanted:
        """Raises `ApiError`."""
        app, published = plans[-1].program.app, tuple(self._published())
        needs, in_force, estimates = await asyncio.to_thread(self._of_plans, plans, published, plan)
        known = self._before = await self._known(app, owner)
        picture = self._picture()  # of the same moment as the pods below
        if published:  # before that, nothing is known to be in force, and what was stored stays
            lacks = partial(self._lacks, app)
            self._guarded = guarded(known, in_force, picture.selectors, lacks, self._has_labels_in_force)
        basis = _Basis(app, needs, estimates, self._guarded or {}, picture, owner)
        return await asyncio.to_thread(self._compute, basis)

    def _has_labels_in_force(self, place: Place, row: Guarded) -> bool:
        """Whether API servers check pods and Services by the labels of a row."""
        there = self._there.get(Key(place.namespace, self._controller))
        if there is None or place.namespace in self._sent:
            return False
        shown_at = self._shown_at.get(place.namespace)
        is_read = shown_at is None or self._shown.clock() - shown_at >= IN_FORCE_SECONDS
        return is_read and has_labels(there, place.service, row.selector, row.checked)

    async def _known(self, app: str, owner: Owner) -> GuardedServices:
        """Return the guarded services before this look. Raises `ApiError`."""
        if self._guarded is None:
            self._guarded = await self._recalled(app, owner)
        elif self._app != app:
            self._guarded = {}
        self._app = app
        return self._guarded

    async def _recalled(self, app: str, owner: Owner) -> GuardedServices:
        """Read the guarded services from the objects that this Program owns. Raises `ApiError`."""
        services: dict[Place, Guarded] = {}
        async for item in self._stored():
            if item.key.name != self._controller or owner.uid not in item.owners:
                continue
            try:
                services |= recalled(read_spec(item.spec), item.key.namespace, app)
            except InjectionError as error:
                LOG.warning("injection_not_read", extra={"namespace": item.key.namespace, "text": str(error)})
        return services

    async def _stored(self) -> AsyncIterator[InjectionObject]:
        """Yield the objects of this installation, as the API server has them now."""
        params: dict[str, object] = {"limit": PAGE, "labelSelector": f"{CONTROLLER}={self._controller}"}
        while True:
            try:
                page = await self._api.get(EVERYWHERE, **params)
            except ApiError as error:
                if error.is_not_found:  # it does not know the kind, so it has no object
                    return
                raise
            for document in page["items"]:
                if (item := injection_object(document)) is not None:
                    yield item
            token = page["metadata"].get("continue")
            if not token:
                return
            params["continue"] = token

    def _compute(self, basis: _Basis) -> _Wanted:
        """Runs in a thread of its own, once at a time (`_turn`)."""
        if self._computed is None or self._computed[0] != basis:
            picture, services = basis.picture, basis.guarded
            # A guarded service whose Service is absent keeps its row: its pods are found by the last selector.
            selectors = {place: selector for place, selector in picture.selectors.items() if selector}
            selectors |= {place: row.selector for place, row in services.items()}
            required = {place: row.required for place, row in services.items()}
            specs = injections(
                basis.app,
                self._server,
                basis.needs,
                selectors,
                basis.estimates,
                self._limits,
                required,
                picture.names,
            )
            self._computed = basis, _wanted(specs, picture, self._controller, basis.owner)
        return self._computed[1]

    def _of_plans(
        self, plans: tuple[Placed, ...], published: tuple[Placed, ...], plan: bytes | None
    ) -> tuple[PlanNeeds, PlanNeeds, Mapping[str, Estimate]]:
        """Return the needs of all plans, those of the published ones, and the estimates of the last plan."""
        known = {id(placed.placement): needs for placed, needs in self._needs}
        all_plans = {id(placed.placement): placed for placed in (*plans, *published)}
        self._needs = [
            (placed, known[key] if key in known else needs_of_plan(*placed)) for key, placed in all_plans.items()
        ]
        needs = {id(placed.placement): own for placed, own in self._needs}
        if self._estimates[0] is not plan:
            has_some = plan is not None and ESTIMATED in plan
            self._estimates = plan, estimates_of(named_plan(plan, "the plan")) if plan and has_some else {}
        all_needs, in_force = (united(needs[id(placed.placement)] for placed in some) for some in (plans, published))
        return all_needs, in_force, self._estimates[1]

    async def _apply(self, bodies: Iterable[dict[str, Any]]) -> dict[str, ApiError]:
        """Apply each object once, until the watch shows it. Returns each namespace whose object the API server refuses.
        Raises `ApiError` if it does not answer."""
        refused: dict[str, ApiError] = {}
        for new in bodies:
            namespace = new["metadata"]["namespace"]
            if self._sent.get(namespace) == new or not self._may_write():
                continue
            try:
                await self._api.apply(PATH.format(namespace, self._controller), new)
            except ApiError as error:
                if not is_refusal(error):
                    raise
                refused[namespace] = error
            else:
                self._sent[namespace] = new
        return refused

    async def _remove(self, items: Iterable[InjectionObject]) -> dict[str, ApiError]:
        """Remove objects. Returns and raises what `_apply` does."""
        refused: dict[str, ApiError] = {}
        for item in items:
            if not self._may_write():
                break
            self._sent.pop(item.key.namespace, None)
            try:
                await self._api.delete(PATH.format(*item.key), uid=item.uid)
            except ApiError as error:
                # If it is gone, or another one has its name, the watch will show that.
                if error.is_not_found or error.is_conflict:
                    continue
                if not is_refusal(error):
                    raise
                refused[item.key.namespace] = error
        return refused

    def _log(self) -> None:
        """Log the findings when they change."""
        text = "; ".join(f"{item.code}: {item.message} ({item.cause})" for item in self.findings)
        if text and text != self._logged:
            LOG.warning("injection_not_written", extra={"text": text})
        self._logged = text


def _log_guarded(before: GuardedServices, after: GuardedServices) -> None:
    """Log the services that begin or end to be guarded."""
    for event, places in (("guarded", after.keys() - before.keys()), ("not_guarded", before.keys() - after.keys())):
        if places:
            names = sorted(f"{place.namespace}/{place.service}" for place in places)
            LOG.info(event, extra={"services": names[:SHOWN], "number": len(names)})


def _wanted(specs: Mapping[str, InjectionSpec], picture: Picture, controller: str, owner: Owner) -> _Wanted:
    bodies, too_large = {}, {}
    for namespace in sorted(specs.keys() & set(picture.taking_part)):
        new = body(specs[namespace], namespace, controller, owner)
        if (bytes_of := size(new)) > MAX_BYTES:
            too_large[namespace] = findings.too_large(namespace, controller, bytes_of)
        else:
            bodies[namespace] = new
    return _Wanted(specs, bodies, too_large)
