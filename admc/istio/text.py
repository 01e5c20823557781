"""The advice as text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from admc.base.columns import fitted, table
from admc.base.terminal import visible
from admc.istio.advice import Advice, Concerns, Judged, Share
from admc.istio.mesh.model import Counting, Proxy
from admc.manifests.places import span_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.istio.mesh.model import Place, Revision, Workload

_MOST_ROWS: Final = 60
"""The most workloads that the text lists. The JSON lists all."""


def render(advice: Advice, width: int | None = None) -> str:
    lines = [*_summary(advice), "", *_workloads(advice, width), "", *_configuration(advice)]
    if advice.skipped:
        objects = _counted(advice.skipped, "object or document", "objects or documents")
        were, them = ("was", "it") if advice.skipped == 1 else ("were", "them")
        lines += ["", f"without {objects} that {were} refused: these numbers lack {them}"]
    return "".join(f"{line}\n" for line in fitted(lines, width))


def _summary(advice: Advice) -> Iterator[str]:
    least = "at least " if advice.at_least else ""
    pods = _counted(advice.pods, "pod")
    yield f"{least}{_counted(advice.sidecars, 'sidecar')} today ({pods}){_by(advice.by_declaration)}"
    rows = []
    if advice.gateways:
        rows.append((str(advice.gateways), "in pods that are gateways or waypoints, which cost nothing more"))
    if advice.ambient:
        rows.append((str(advice.ambient), "in ambient mode: the node's proxy carries their traffic"))
    rows += [(str(share.sidecars), f"without a proxy, by {share.declaration}") for share in advice.without]
    for judged in advice.resources:
        if judged.concerns is Concerns.GATEWAYS:
            rows.append((str(len(judged.resources)), _of_gateways(judged)))
    yield from table(rows, right=(0,), indent="  ")
    yield ""
    yield from _not_judged(advice)


def _by(shares: tuple[Share, ...]) -> str:
    if not shares:
        return ""
    if len(shares) == 1:
        return f", by {shares[0].declaration}"
    return ", " + ", ".join(f"{share.sidecars} by {share.declaration}" for share in shares)


def _of_gateways(judged: Judged) -> str:
    if len(judged.resources) == 1:
        return f"{judged.kind} concerns gateways only: no sidecar enforces it"
    return f"{_plural(judged.kind, len(judged.resources))} concern gateways only: no sidecar enforces them"


def _not_judged(advice: Advice) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for judged in advice.resources:
        if judged.concerns is Concerns.NOT_JUDGED:
            counts[judged.kind] += len(judged.resources)
    if not advice.sidecars:
        return
    if counts:
        listed = ", ".join(f"{number} {_plural(kind, number)}" for kind, number in counts.most_common())
        yield f"not judged yet: {listed}"
    yield "no sidecar is known to be free: what is not judged keeps its sidecar"
    if not counts:
        yield "no resource concerns these sidecars; what Istio does unasked (mTLS, retries, metrics) is not judged yet"


def _workloads(advice: Advice, width: int | None) -> Iterator[str]:
    if not advice.workloads:
        yield "no workloads were given"
        return
    rows = [("WORKLOAD", "PODS", "PROXY", "BY")]
    rows += [_row(workload) for workload in advice.workloads[:_MOST_ROWS]]
    yield from table(rows, right=(1,), width=width)
    left = len(advice.workloads) - _MOST_ROWS
    if left > 0:
        yield f"and {left} more workloads: `--format json` lists all"


def _row(workload: Workload) -> tuple[str, str, str, str]:
    least = ">=" if workload.counting is Counting.MINIMUM else ""
    proxies = [proxy for proxy in Proxy if workload.number(proxy)] or [workload.presence.proxy]
    shown = ", ".join(str(proxy) if len(proxies) == 1 else f"{workload.number(proxy)} {proxy}" for proxy in proxies)
    named = f"{workload.namespace}/{workload.name} ({workload.kind})"
    return named, f"{least}{workload.replicas}", shown, because(workload)


def because(workload: Workload) -> str:
    place = workload.presence.place
    return f"{workload.presence.by}{'' if place is None else f' [{line_of(place)}]'}"


def line_of(place: Place) -> str:
    span = span_of(place.object.document, (*place.object.where, *place.where))
    return f"{span.source.path}:{span.line}"


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


def _counted(number: int, word: str, words: str | None = None) -> str:
    return f"{number:,} {word if number == 1 else words or f'{word}s'}"


def _plural(kind: str, number: int) -> str:
    if number == 1:
        return kind
    if kind.endswith("y"):
        return f"{kind[:-1]}ies"
    return f"{kind}s"
