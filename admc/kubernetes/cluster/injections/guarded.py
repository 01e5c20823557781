"""Which services are guarded, and what the guard requires of their pods.

    needs of the published plans, pods --guarded--> Guarded of each service --> `required` in the Injection

The API server refuses a pod of a guarded service that lacks what is required. A requirement begins when the plan needs
it and no pod of the service lacks it, and stays until the plan does not need it any more. So no pod that has run is
refused when it starts again, and a pod that lacks something later does not end the requirement.

In the middle of a rollout two plans are published, and pods need what both need. Until no pod lacks any of that, what
was required before stays: the rollout has not begun to rely on more.

A pod is checked when it gets the labels of a guarded service. If other labels take their place, pods that have these
already have not been checked. So the guard remembers by which labels all pods were, and the API server refuses a
selector of the Service that does not have them.

API servers read a row some moments after the server has looked at the cluster, and pods are created in between. So
whatever lets a pod pass unchecked, or lets a Service select by fewer labels, comes in a later look than what makes it
safe: when the earlier row has been in force for some time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.kubernetes.cluster.redirection import redirects
from admc.kubernetes.inject.needs import Needs, Place, in_common
from admc.kubernetes.inject.selectors import unusable
from admc.kubernetes.inject.spec import Required
from emitters.interception.pod import PodCaptures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from admc.kubernetes.cluster.records import Pod
    from admc.kubernetes.inject.needs import PlanNeeds
    from admc.kubernetes.inject.spec import InjectionSpec

NOTHING: Final = Needs(None, waits=False)
MOST_PORTS: Final = 256
"""Of one side. A service that needs more is not guarded: the API server takes too long for the guard's comparison."""
WINDOWS: Final = "Windows"


class Guarded(NamedTuple):
    needs: Needs
    """What is required of each pod."""
    selector: Mapping[str, str]
    """Pods with these labels are checked when they get them. That of the Service; an earlier one if there is none at
    present, or as long as API servers may admit a Service that selects by it."""
    checked: Mapping[str, str]
    """Each pod with these labels has been checked, or lacked nothing later. Mostly they are those of `selector`."""

    @property
    def required(self) -> Required:
        """What stands in the `Injection`."""
        selector = None if self.checked == self.selector else self.checked
        return Required(self.needs.waits, self.needs.captures, selector)


GuardedServices = Mapping[Place, Guarded]


def guarded(
    before: GuardedServices,
    published: PlanNeeds,
    selectors: Mapping[Place, Mapping[str, str]],
    lacks: Callable[[Place, Needs], bool],
    in_force: Callable[[Place, Guarded], bool],
) -> GuardedServices:
    """Return the guarded services. `published` has the needs of the plans that are published, `lacks` says whether a
    pod of a service lacks something, and `in_force` whether API servers judge by the labels of a row. Both are asked
    only about services that may change."""
    after = {}
    for place, needs in published.items():
        selector, known = selectors.get(place), before.get(place)
        required = _required(place, needs, known, lacks if selector else _unknown)
        if not _can_be_guarded(required):
            continue
        if selector:
            after[place] = _by_labels(place, required, selector, known, lacks, in_force)
        elif known is not None:
            after[place] = known._replace(needs=required)
    return before if after == before else after


def _by_labels(
    place: Place,
    required: Needs,
    selector: Mapping[str, str],
    known: Guarded | None,
    lacks: Callable[[Place, Needs], bool],
    in_force: Callable[[Place, Guarded], bool],
) -> Guarded:
    """Pods with the labels of `known.checked` were checked before, and those that get the labels of the row are checked
    from now on. If a label has another value by now, or all of them are too many for a selector, the Service lacks some
    that it has to have, and the API server has not refused that: the guard is off, or the Service changed in the moment
    in which the requirement began. The labels of the Service count."""
    if known is None:
        return Guarded(required, selector, selector)
    checked = {**known.checked, **selector}
    if unusable(checked):
        return Guarded(required, selector, selector)
    if selector != known.selector:
        # With more labels, fewer pods are checked: only when no Service may select by the earlier ones any more.
        has_more = not selector.items() <= known.selector.items() and not _differ(selector, known.selector)
        if has_more and not (checked == known.checked and in_force(place, known)):
            return Guarded(required, known.selector, checked)
        return Guarded(required, selector, checked)
    # With fewer labels, more pods get requests: only when these are checked at their start, and the others were seen.
    if checked != selector and in_force(place, known) and not lacks(place, required):
        return Guarded(required, selector, selector)
    return Guarded(required, selector, checked)


def _differ(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether a label has two values."""
    return any(one[key] != other[key] for key in one.keys() & other.keys())


def _required(place: Place, needs: Needs, known: Guarded | None, lacks: Callable[[Place, Needs], bool]) -> Needs:
    """The ADM and the wait are judged apart: a rollout waits for the redirection of pods alone."""
    if known is not None and known.needs == needs:
        return needs
    stays = in_common(known.needs, needs) if known is not None else NOTHING
    captures, waits = stays.captures, stays.waits
    if captures != needs.captures and not lacks(place, Needs(needs.captures, waits=False)):
        captures = needs.captures
    if waits != needs.waits and not lacks(place, Needs(None, waits=True)):
        waits = needs.waits
    return Needs(captures, waits)


def _can_be_guarded(needs: Needs) -> bool:
    captures = needs.captures
    has_few = captures is None or max(len(captures.ingress), len(captures.egress)) <= MOST_PORTS
    return needs.anything and has_few


def _unknown(place: Place, needs: Needs) -> bool:
    """Without a selector it is not known which pods are those of the service."""
    return True


def any_lacks(pods: Iterable[Pod], service: str, needs: Needs) -> bool:
    """Whether one of the pods of a service (`APP/SERVICE`) lacks some of its needs."""
    return any(_lacks(pod, service, needs) for pod in pods)


def _lacks(pod: Pod, service: str, needs: Needs) -> bool:
    captures = needs.captures
    if captures is None:
        # The wait does not run on Windows, and injection leaves such a pod as it is.
        return needs.waits and not pod.waits and pod.hosts_no_adm != WINDOWS
    needed = PodCaptures(frozenset(captures.ingress), frozenset(captures.egress))
    return not redirects(pod, service, needed) or (needs.waits and not pod.waits)


def recalled(spec: InjectionSpec, namespace: str, app: str) -> dict[Place, Guarded]:
    """Return the guarded services of a stored object. Containers have the name of the app in them, so another app
    begins anew."""
    if spec.app != app:
        return {}
    return {
        Place(namespace, name): Guarded(
            Needs(row.required.captures, row.required.waits), row.selector, row.required.selector or row.selector
        )
        for name, row in spec.services.items()
        if row.required is not None
    }
