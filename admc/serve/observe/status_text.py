"""A server's status as text: lines about the server, and a line for each proxy and for each ADM without one. Below a
proxy stands its error message for each refused type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from admc.base.terminal import cells, counted, visible
from admc.serve.observe.status import ACTIVE, STANDBY, AdmRow, NodeRow, ServerPhase, Status, active_replica
from dsl.words import few

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HEAD: Final = ("ADM", "NODE", "WANTED", "SENT", "ACKED", "")
SHORT: Final = 8
"""Characters of a digest: enough to tell two apart."""
WIDEST: Final = 48
NAMED: Final = 5
"""Unlisted names, and policies in the network, that are shown; JSON has all of them."""
WORDS: Final = 500
"""Characters of a NACK's error message that are shown; JSON has all of them."""

Row = tuple[str, ...]


def render(status: Status, address: str = "") -> str:
    """The whole status, with a final line break, safe for a terminal. `address` is that of the server."""
    in_rollout = bool(status.server.rollout)
    rows = [HEAD, *(row for adm in status.adms for row in _rows(adm, in_rollout=in_rollout))]
    widths = [max(cells(row[column]) for row in rows if len(row) > 1) for column in range(len(HEAD) - 1)]
    lines = [*_about(status, address), ""]
    if status.adms:
        lines += [*(_line(row, widths) for row in rows), ""]
    return "\n".join([*lines, _counts(status)]) + "\n"


def _about(status: Status, address: str) -> Iterator[str]:
    server = status.server
    app = f"`{visible(server.app)}`" if server.app else "nothing yet"
    state = f", state {_short(server.state)}" if server.state else ""
    word = {
        ServerPhase.STARTING: "starting with",
        ServerPhase.SERVING: "serving",
        ServerPhase.DRAINING: "draining, was serving",
    }
    begins = "standing by for" if server.role == STANDBY else f"{word[server.phase]} {app} from"
    yield f"{begins} `{visible(server.source)}`{state}"
    where = f" at {visible(address)}" if address else ""
    yield f"admc {visible(server.version)}{where}, since {visible(server.since)}"
    if server.why and server.why != server.rollout:
        yield f"{'not ready' if server.phase is ServerPhase.STARTING else 'problem'}: {visible(server.why)}"
    if server.rollout:
        yield f"rollout: {visible(server.rollout)}"
    if server.role != ACTIVE:
        yield f"{visible(server.role)}: {active_replica(server.holder)}"
    if server.in_network:
        rows = [f"`{_cut(row.policy)}` at `{_cut(row.destination)}`" for row in server.in_network]
        yield f"in the network: {few(rows, NAMED)}; connections older than their NetworkPolicies stay open"
    if server.unlisted:
        names = [f"`{_cut(name)}`" for name in server.unlisted]
        yield f"no addresses for: {few(names, NAMED)}; connections that may be theirs are refused"


def _rows(adm: AdmRow, *, in_rollout: bool) -> Iterator[Row]:
    """The rows of an ADM. `in_rollout`: a proxy whose ADM is not in the next plan may still enforce policies."""
    name = _cut(adm.service)
    unplanned = (
        ", may still enforce policies; the next plan has no ADM here" if in_rollout else ", has no ADM in the plan"
    )
    if not adm.nodes:
        yield (name, "-", _short(adm.wanted), "-", "-", "no proxy is connected")
    for node in adm.nodes:
        sync_state = _sync_state(node) + ("" if adm.in_plan else unplanned)
        if node.claimed not in ("", adm.service):
            sync_state += f", calls itself `{_cut(node.claimed)}`"
        yield (name, _cut(node.id), _short(node.wanted), _short(node.sent), _short(node.acknowledged), sync_state)
        for item in node.types:
            if item.error:
                error_text = visible(item.error[:WORDS]) + (" ..." if len(item.error) > WORDS else "")
                yield (f"    refused {visible(item.type)}: {error_text}",)
        name = ""


def _sync_state(node: NodeRow) -> str:
    if node.in_sync:
        return "in sync"
    if node.error:
        return "refused"
    if not node.acknowledged:
        return "starting"
    # Another proxy of its service has sent a NACK for the wanted version, so the server does not send it to this one.
    return "kept at the last good one" if node.sent == node.acknowledged else "behind"


def _counts(status: Status) -> str:
    planned = [adm for adm in status.adms if adm.in_plan]
    nodes = [node for adm in status.adms for node in adm.nodes]
    alone = sum(not adm.nodes for adm in planned)
    behind = sum(not node.in_sync for node in nodes)
    return (
        f"{counted(len(planned), 'ADM')}{f', {alone} without a proxy' if alone else ''}; "
        f"{counted(len(nodes), 'proxy', 'proxies')}{f', {behind} not in sync' if behind else ''}"
    )


def _line(row: Row, widths: Iterable[int]) -> str:
    if len(row) == 1:
        return row[0]
    return "  ".join(
        [*(cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=False)), row[-1]]
    ).rstrip()


def _short(version: str) -> str:
    return visible(version[:SHORT]) or "-"


def _cut(text: str) -> str:
    shown = visible(text)
    return (shown if len(shown) <= WIDEST else shown[: WIDEST - 3] + "...") or "-"
