"""The advice as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from admc.base.columns import fitted, table
from admc.base.terminal import cells, visible
from admc.istio import wording
from admc.istio.advice import Advice, Concerns, Judged
from admc.istio.guesses import spans_of_guesses
from admc.istio.implicit import SHORT, TITLES
from admc.istio.in_force.not_judged import OF_GATEWAYS
from admc.istio.mesh.model import Counting, Proxy
from admc.istio.prices import in_words
from admc.istio.reasons import Group
from admc.manifests.places import span_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from admc.istio.calls import Measured
    from admc.istio.in_force.effects import What
    from admc.istio.mesh.model import Place, Revision, Workload
    from admc.istio.reasons import GroupTotal, Kept, Reason

_MOST_ROWS: Final = 60
"""The most rows of a list in the text. The JSON has all."""
_MOST_REASONS: Final = 5
"""The most reasons of a workload that the text names."""


def render(advice: Advice, width: int | None = None) -> str:
    parts = [
        list(summary(advice)),
        list(_reasons(advice, width)),
        list(_features(advice, width)),
        list(_guesses(advice, width)),
        list(_nowhere(advice, width)),
        list(_workloads(advice)),
        list(_configuration(advice)),
    ]
    lines: list[str] = []
    for part in parts:
        lines += ["", *part] if lines and part else part
    if advice.skipped:
        lines += ["", wording.lacks(advice.skipped)]
    return "".join(f"{line}\n" for line in fitted(lines, width))


# ---- the head ----


def summary(advice: Advice) -> Iterator[str]:
    """The head of the answer."""
    by = wording.declared_by([(it.sidecars, it.declaration) for it in advice.by_declaration])
    calls = f"; {wording.about_calls(_given(advice.measured))}" if advice.sidecars else ""
    number = wording.today(advice.sidecars, advice.pods, at_least=advice.at_least)
    yield f"{number}{f', {by}' if by else ''}{calls}"
    if advice.sidecars:
        yield from table(list(_totals(advice)), right=(0,), indent="  ")
        yield _unasked(advice)
    rows = []
    if advice.gateways:
        rows.append((str(advice.gateways), "in pods that are gateways or waypoints, which cost nothing more"))
    if advice.ambient:
        rows.append((str(advice.ambient), "in ambient mode: the node's proxy carries their traffic"))
    rows += [(str(share.sidecars), f"without a proxy, by {share.declaration}") for share in advice.without]
    yield from table(rows, right=(0,), indent="  ")
    if advice.sidecars:
        yield ""
        yield from _conclusion(advice)


def _given(measured: Measured | None) -> wording.CallsGiven | None:
    if measured is None:
        return None
    number = len(measured.calls.known or ())
    return wording.CallsGiven(
        measured.source, measured.is_guess, number, measured.days, measured.unattributed, measured.hostless
    )


def _totals(advice: Advice) -> Iterator[tuple[str, str, str]]:
    """A row for each group of reasons; the first two also where there are none."""
    totals = {total.group: total for total in advice.answer.totals}
    for group in Group:
        total = totals.get(group)
        if total is None and group not in (Group.POLICY, Group.MTLS):
            continue
        notes = [*_first_reason(advice, group), *_layers(total)]
        if group is Group.POLICY:
            notes += [_of_gateways(it) for it in advice.resources if _is_news(it)]
        yield str(0 if total is None else total.sidecars), f"for {group}", "; ".join(notes)


def _first_reason(advice: Advice, group: Group) -> Iterator[str]:
    """The reason at the most sidecars, and how many more there are."""
    own = [it for it in advice.answer.reasons if it.group is group and it.place is not None]
    if own:
        first = max(own, key=lambda it: it.sidecars)
        more = "" if len(own) == 1 else f" and {len(own) - 1} more"
        place = "" if first.place is None else f"{line_of(first.place)} "
        yield f"{place}{first.name}{more}"


def _layers(total: GroupTotal | None) -> Iterator[str]:
    if total is not None and total.of_requests < total.sidecars:
        yield f"{total.of_requests} if ztunnel carries layer 4"


def _is_news(judged: Judged) -> bool:
    """Whether it has to be said that resources are for gateways alone: not of a Gateway itself."""
    return judged.concerns is Concerns.GATEWAYS and judged.kind not in OF_GATEWAYS


def _of_gateways(judged: Judged) -> str:
    number = len(judged.resources)
    return f"{number} {_plural(judged.kind, number)} {'is' if number == 1 else 'are'} for gateways"


def _unasked(advice: Advice) -> str:
    """What Istio does without any resource."""
    shown = [(it.sidecars, SHORT[it.feature]) for it in advice.features if it.feature in SHORT]
    listed = ", ".join(f"{number} for {title}" for number, title in shown)
    return f"  {listed}; no resource asks for these" if listed else "  no feature of Istio is used unasked"


def _conclusion(advice: Advice) -> Iterator[str]:
    answer = advice.answer
    free = advice.sidecars - answer.kept
    yield wording.conclusion(answer.kept, advice.sidecars, chosen=bool(advice.kept_features))
    if answer.of_connections:
        yield wording.of_layer_4(answer.of_connections, answer.kept)
    if advice.price is not None and free:
        yield in_words(advice.price)


# ---- the lists ----


def _reasons(advice: Advice, width: int | None) -> Iterator[str]:
    reasons = advice.answer.reasons
    if not reasons:
        return
    rows = [("SIDECARS", "ALONE", "LAYER", "REASON", "AT")]
    rows += [_reason(it) for it in reasons[:_MOST_ROWS]]
    lines = table(rows, right=(0, 1, 2))
    if width is not None and any(cells(line) > width for line in lines):
        # A place in a column of its own would stand far from its reason once the lines are wrapped.
        short = [(*numbers, f"{name} [{place}]" if place else name) for *numbers, name, place in rows[1:]]
        lines = table([rows[0][:-1], *short], right=(0, 1, 2))
    yield from lines
    yield from _more(len(reasons), "reasons")


def _reason(reason: Reason) -> tuple[str, str, str, str, str]:
    does = _does(reason.whats)
    name = f"{reason.name}{f': {does}' if does else ''}"
    place = "" if reason.place is None else line_of(reason.place)
    return str(reason.sidecars), str(reason.alone), str(int(reason.layer)), name, place


def _does(whats: Iterable[What]) -> str:
    return ", ".join(map(str, whats))


def _features(advice: Advice, width: int | None) -> Iterator[str]:
    """What keeping each feature costs."""
    if not advice.features:
        return
    rows = [("UNASKED", "SIDECARS", "ADDED", "ALL", "WHAT")]
    for cost in advice.features:
        chosen = " (kept)" if cost.feature in advice.kept_features else ""
        numbers = (str(cost.sidecars), str(cost.added), str(cost.total))
        rows.append((f"--keep {cost.feature}{chosen}", *numbers, TITLES[cost.feature]))
    yield from table(rows, right=(1, 2, 3), width=width)


def _guesses(advice: Advice, width: int | None) -> Iterator[str]:
    """Where each guessed call comes from."""
    guesses = advice.measured.guesses if advice.measured is not None else None
    if not guesses:
        return
    rows = [("GUESSED CALL", "TO", "AT")]
    for call, span in sorted(spans_of_guesses(guesses[:_MOST_ROWS]).items()):
        rows.append((f"{call.namespace}/{call.workload}", call.host, f"{span.source.path}:{span.line}"))
    yield from table(rows, width=width)
    yield from _more(len(guesses), "guessed calls")


def _nowhere(advice: Advice, width: int | None) -> Iterator[str]:
    if not advice.nowhere:
        return
    rows = [("WRITTEN, NOT IN FORCE", "WHY", "AT")]
    for unused in advice.nowhere[:_MOST_ROWS]:
        manifest = unused.resource.object
        by = "" if unused.by is None else f" [{line_of(unused.by)}]"
        name = f"{manifest.kind} {manifest.namespace}/{manifest.name}"
        rows.append((name, f"{unused.cause}{by}", line_of(unused.resource)))
    yield from table(rows, width=width)
    yield from _more(len(advice.nowhere), "of these")


def _workloads(advice: Advice) -> Iterator[str]:
    if not advice.workloads:
        yield "no workloads were given"
        return
    shown = advice.workloads[:_MOST_ROWS]
    kept = {id(it.workload): it for it in advice.answer.workloads}
    rows = [("WORKLOAD", "PODS", "PROXY", "LAYER", "BY")]
    rows += [_row(workload, kept.get(id(workload))) for workload in shown]
    head, *lines = table(rows, right=(1, 3))
    yield head
    for workload, line in zip(shown, lines, strict=True):
        yield line
        yield from _kept_for(kept.get(id(workload)))
    yield from _more(len(advice.workloads), "workloads")


def _more(number: int, what: str) -> Iterator[str]:
    if number > _MOST_ROWS:
        yield f"and {number - _MOST_ROWS} more {what}: `--format json` lists all"


def _row(workload: Workload, kept: Kept | None) -> tuple[str, str, str, str, str]:
    least = ">=" if workload.counting is Counting.MINIMUM else ""
    proxies = [proxy for proxy in Proxy if workload.number(proxy)] or [workload.presence.proxy]
    shown = ", ".join(str(proxy) if len(proxies) == 1 else f"{workload.number(proxy)} {proxy}" for proxy in proxies)
    named = f"{workload.namespace}/{workload.name} ({workload.kind})"
    layer = "" if kept is None or kept.layer is None else str(int(kept.layer))
    return named, f"{least}{workload.replicas}", shown, layer, because(workload)


def _kept_for(kept: Kept | None) -> Iterator[str]:
    """A line for each reason of a workload."""
    if kept is None:
        return
    reasons = kept.reasons
    for cited in reasons[:_MOST_REASONS]:
        place = "" if cited.place is None else f" [{line_of(cited.place)}]"
        does = f": {_does(cited.whats)}" if cited.whats else ""
        yield visible(f"    {cited.name}{does}{place}")
    left = len(reasons) - _MOST_REASONS
    if left > 0:
        yield f"    and {wording.counted(left, 'more reason')}"
    if not reasons:
        yield "    nothing that a resource asks for"


def because(workload: Workload) -> str:
    place = workload.presence.place
    return f"{workload.presence.by}{'' if place is None else f' [{line_of(place)}]'}"


def line_of(place: Place) -> str:
    span = span_of(place.object.document, (*place.object.where, *place.where))
    return f"{span.source.path}:{span.line}"


# ---- the configuration ----


def _configuration(advice: Advice) -> Iterator[str]:
    if not advice.revisions:
        yield "no mesh configuration was given: Istio's defaults are taken"
    for revision in advice.revisions:
        yield from _revision(revision)


def _revision(revision: Revision) -> Iterator[str]:
    where = "without a mesh configuration" if revision.source is None else line_of(revision.source)
    yield f"revision `{visible(revision.name)}` [{where}]"
    given = [setting for setting in revision.settings if not setting.is_default]
    defaults = [setting.name for setting in revision.settings if setting.is_default]
    for setting in given:
        yield f"  {setting.name}: {visible(str(_shown(setting.value)))}"
    yield f"  Istio's defaults: {', '.join(defaults)}"


def _shown(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else value


def _plural(kind: str, number: int) -> str:
    if number == 1:
        return kind
    if kind.endswith("y"):
        return f"{kind[:-1]}ies"
    return f"{kind}s"
