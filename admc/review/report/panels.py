"""The panels that a click opens: for a service the reasons for its ADM, for a call the policies that it meets."""

from __future__ import annotations

from collections.abc import Mapping

from admc.base.terminal import counted, visible
from admc.compile.plan.model import FREE, AdmPlan, Because
from admc.cost.rows import AdmRow, ComponentRow
from admc.review.report.figures import CORES, LATENCY_OF_CALL, MEMORY, Measured, amount_text, bars
from admc.review.report.mesh import ANY, Mesh
from admc.review.report.model import Cell, Section
from admc.review.report.words import at, does, enforced_at, lines, names, ports, row
from dsl.program import Side


class Panels:
    def __init__(self, mesh: Mesh, nodes: Mapping[str, int]) -> None:
        self._mesh = mesh
        self._nodes = nodes
        """The index of each party that is drawn."""

    def party(self, name: str) -> tuple[Section, ...]:
        adm = self._mesh.adms.get(name)
        parts = [self._about(name)]
        if adm is not None:
            parts += [self._why(adm), self._policies(adm), *self._cost(adm.overhead)]
        parts += [self._network(name), self._closed(name), self._calls("Calls", name, outgoing=True)]
        parts.append(self._calls("Called by", name, outgoing=False))
        return tuple(part for part in parts if part.rows or part.bars or part.note)

    def call(self, pair: tuple[str, str]) -> tuple[Section, ...]:
        traffic = [row(f"port {port}", known or "no rate, no size") for port, known in self._mesh.traffic(pair)]
        ports_ = {enforcement.port for enforcement in self._mesh.enforced.get(pair, ())}
        rows = []
        for enforcement in self._mesh.enforced.get(pair, ()):
            policy = self._mesh.policies.get(enforcement.policy)
            what = does(policy) if policy is not None else ""
            where = enforced_at(enforcement) + (f" at {enforcement.port}" if len(ports_) > 1 else "")
            host = enforcement.service or enforcement.destination
            rows.append((Cell(visible(enforcement.policy)), self._cell(host, where), Cell(what)))
        note = "" if rows else "No policy is enforced on this call."
        return (
            Section("Call", rows=(tuple(self._cell(end) for end in pair), *traffic)),
            Section("Policies that it meets, in declared order", note, rows=tuple(rows)),
        )

    def _cell(self, name: str, text: str | None = None) -> Cell:
        return Cell(visible(name) if text is None else text, self._nodes.get(name))

    def _about(self, name: str) -> Section:
        adm = self._mesh.adms.get(name)
        return Section("About", self._standing(name, adm), rows=tuple(row(*fact) for fact in self._facts(name, adm)))

    def _standing(self, name: str, adm: AdmPlan | None) -> str:
        if name in self._mesh.externals:
            return "Outside the mesh: it hosts no ADM."
        if adm is not None:
            return f"Hosts an ADM: {counted(adm.replicas, 'sidecar')} of {visible(adm.dataplane)}."
        network = " Its NetworkPolicy alone enforces policies." if name in self._mesh.in_network else ""
        if not self._mesh.hosts(name):
            return f"Cannot host an ADM.{network}"
        return f"No ADM.{network}" if network else "No ADM: no policy is enforced here."

    def _facts(self, name: str, adm: AdmPlan | None) -> list[tuple[str, str]]:
        facts: list[tuple[str, str]] = []
        external, service = self._mesh.externals.get(name), self._mesh.services.get(name)
        if adm is not None:
            worked = [
                f"{port.direction.value} {port.port}"
                if port.direction is Side.INGRESS
                else f"egress to {visible(port.service)}:{port.port}"
                for port in adm.ports
            ]
            facts.append(("redirected", ", ".join(worked)))
        if external is not None:
            facts += [("names", names(external.hosts)), ("addresses", names(external.cidrs))]
            facts.append(("declared", at(external.line)))
        if service is not None:
            facts += [("ports", ports(service)), ("replicas", str(service.replicas))]
            facts.append(("namespace", visible(service.namespace)))
            facts.append(("trust", "" if service.trusted else "untrusted: its guards stay at ingress"))
            facts.append(("network", "the host's" if service.host_network else ""))
            facts.append(("declared", at(service.line)))
        return [(what, text) for what, text in facts if text]

    def _why(self, adm: AdmPlan) -> Section:
        # Rules come first: a free choice is no reason for the ADM to exist, but only for a policy to be at this ADM.
        ordered = sorted(adm.because, key=lambda because: because.rule == FREE)
        return Section("Why it is here", rows=tuple(self._because(because) for because in ordered))

    def _because(self, because: Because) -> tuple[Cell, ...]:
        rule = "free choice" if because.rule == FREE else because.rule
        return (
            Cell(visible(because.policy)),
            Cell(visible(because.text)),
            Cell(f"{visible(rule)} {lines(because.lines)}".strip(), look="quiet"),
        )

    def _policies(self, adm: AdmPlan) -> Section:
        rows = []
        for hosted in adm.policies:
            policy = self._mesh.policies.get(hosted.policy)
            towards = f" to {names(hosted.destinations)}" if hosted.side is Side.EGRESS else ""
            what = does(policy) if policy is not None else ""
            rows.append(row(visible(hosted.policy), f"{hosted.side.value}{towards}", what, at(hosted.line)))
        return Section("Policies, in their order", rows=tuple(rows))

    def _cost(self, cost: AdmRow | None) -> tuple[Section, ...]:
        if cost is None:
            return ()
        rows = [
            row("CPU", amount_text(cost.cpu, CORES)),
            row("of one replica", amount_text(cost.cpu_of_replica, CORES)),
            row("without requests", amount_text(cost.idle_cpu, CORES)),
            row("memory", amount_text(cost.memory, MEMORY)),
        ]
        rows += [
            row(visible(hop.hop), f"adds {amount_text(hop.latency, LATENCY_OF_CALL)} to a request") for hop in cost.hops
        ]
        note = "Saturated: it gets more requests than it can take." if cost.saturated else ""
        return (Section("Cost", note, rows=tuple(rows)), self._bars(cost))

    def _bars(self, cost: AdmRow) -> Section:
        measured = [Measured("sidecar without requests", cost.idle_cpu)]
        for hop in cost.hops:
            measured.append(Measured(visible(hop.hop), hop.cpu, "plan"))
            measured += [Measured(f"of it {visible(component.policy)}", component.cpu) for component in hop.components]
        return Section("CPU by hop and policy, in cores", bars=bars(measured, CORES))

    def _network(self, name: str) -> Section:
        rows = []
        for listed in self._mesh.in_network.get(name, ()):
            policy = self._mesh.policies.get(listed)
            rows.append(row(visible(listed), *((does(policy), at(policy.line)) if policy is not None else ())))
        return Section("Policies in the network, without an ADM", rows=tuple(rows))

    def _closed(self, name: str) -> Section:
        closed = self._mesh.closed.get(name)
        if closed is None:
            return Section("")
        return Section(
            "Closed",
            "A NetworkPolicy admits only callers that the policies in the network admit."
            if name in self._mesh.in_network
            else "A NetworkPolicy admits its declared senders alone.",
            rows=(
                row(
                    "declared senders" if name in self._mesh.in_network else "admitted",
                    names(closed.senders) or "no sender",
                ),
                row("needed by", names(closed.policies)),
            ),
        )

    def _calls(self, title: str, name: str, *, outgoing: bool) -> Section:
        others = (self._mesh.callees if outgoing else self._mesh.callers).get(name, [])
        rows: list[tuple[Cell, ...]] = []
        for other in others:
            pair = (name, other) if outgoing else (other, name)
            known = "; ".join(text for _port, text in self._mesh.traffic(pair) if text)
            met = dict.fromkeys(visible(enforcement.policy) for enforcement in self._mesh.enforced.get(pair, ()))
            rows.append((self._cell(other), Cell(", ".join(met)), Cell(known, look="quiet")))
        if not outgoing:
            met = dict.fromkeys(visible(enforcement.policy) for enforcement in self._mesh.enforced.get((ANY, name), ()))
            if met:
                rows.append(row("callers that are not declared", ", ".join(met), ""))
        return Section(title, rows=tuple(rows))


def component_name(component: ComponentRow) -> str:
    return visible(component.component) if component.component is not None else "no component"
