"""Reads a profile from its JSON form.

    SourceText -> nodes with places -> [Profile], or diagnostics

Nothing is corrected and nothing is left out: a profile with one mistake is refused, because its figures decide plans.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from admc.overhead.profiles import checks
from admc.overhead.profiles.fields import FIGURE, NAME, SHAPE, shown
from admc.overhead.profiles.json_text import JsonError, Node, parse
from admc.overhead.profiles.profile import (
    SCHEMA_VERSION,
    STATISTICS,
    UNITS,
    ComponentCost,
    HopCost,
    Method,
    Part,
    Platform,
    Profile,
    Proxy,
    SidecarCost,
    component_order,
)
from admc.overhead.profiles.read_laws import LawFields
from admc.overhead.profiles.vocabulary import kinds_of_component, known_components, read_argument
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.program import Protocol, Side
from dsl.text import SourceText
from dsl.units import BadNumber

MAX_PARTS: Final = 64
MAX_COMPONENTS: Final = 2000
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_PROFILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,99}")
NAME_OF_PROFILE: Final = "at most 100 letters, digits, blanks, `_`, `.` and `-`, first a letter, a digit or `_`"
_TOP: Final = (
    "schema_version",
    "name",
    "source",
    "platform",
    "proxy",
    "method",
    "units",
    "saturation",
    "parts",
    "own_components",
    "sidecar",
    "hops",
    "components",
)
_COMPONENT: Final = (
    "component",
    "protocol",
    "side",
    "kind",
    "arguments",
    "floor",
    "sizes",
    "runs",
    "latency",
    "cpu",
    "memory",
)


def read_profile(source: SourceText, diagnostics: Diagnostics) -> Profile | None:
    """The profile in a file, or None after errors."""
    before = diagnostics.errors
    try:
        document = parse(source)
    except JsonError as error:
        message = f"`{source.path}` is not a profile: {error.message}"
        diagnostics.error("ADM860", message, error.span, hint="a profile is a JSON document; see `docs/profiles.md`")
        return None
    found = _Reader(diagnostics).profile(document)
    return found if diagnostics.errors == before else None


def is_profile_name(name: str) -> bool:
    return _PROFILE_NAME.fullmatch(name) is not None


class _Reader(LawFields):
    def profile(self, document: Node) -> Profile | None:
        if isinstance(document.value, dict) and not self._version(document):
            return None
        top = self.object(document, "a profile", _TOP)
        if top is None:
            return None
        name = self._profile_name(top["name"])
        source = self.text(top["source"], "`source`")
        platform = self._pair(top["platform"], "the platform", ("machine", "system"))
        proxy = self._pair(top["proxy"], "the proxy", ("name", "version"))
        method = self._method(top["method"])
        self._units(top["units"])
        saturation = None if top["saturation"].value is None else self.positive(top["saturation"], "`saturation`")
        parts = self._parts(top["parts"])
        own = self._own_components(top["own_components"])
        sidecar = self._sidecar(top["sidecar"])
        hops = self._hops(top["hops"], parts or {})
        components = self._components(top["components"], own)
        if self.diagnostics.has_errors or name is None or source is None or platform is None or proxy is None:
            return None
        if method is None or sidecar is None or parts is None:
            return None
        return Profile(
            name,
            source,
            Platform(*platform),
            Proxy(*proxy),
            method,
            saturation,
            parts,
            own,
            sidecar,
            tuple(sorted(hops, key=lambda hop: list(Protocol).index(hop.protocol))),
            tuple(sorted(components, key=component_order)),
        )

    # ---- the head ----

    def _version(self, document: Node) -> bool:
        node = document.value.get("schema_version") if isinstance(document.value, dict) else None
        if node is None:
            return True  # the missing field is reported with the others
        value = node.value
        if not isinstance(value, Decimal) or value != value.to_integral_value() or not 1 <= value <= 10**6:
            self.error(SHAPE, f"`schema_version` is a whole number from 1, not {shown(node)}", node.span)
            return False
        if value > SCHEMA_VERSION:
            self.error(
                "ADM865",
                f"this profile has schema version {value}, and this admc reads {SCHEMA_VERSION}",
                node.span,
                "use the newer admc that wrote it",
            )
            return False
        return True

    def _profile_name(self, node: Node) -> str | None:
        name = self.text(node, "`name`")
        if name is not None and not is_profile_name(name):
            self.error(SHAPE, f"`name` has {NAME_OF_PROFILE}", node.span)
            return None
        return name

    def _pair(self, node: Node, what: str, keys: tuple[str, str]) -> tuple[str, str] | None:
        given = self.object(node, what, keys)
        if given is None:
            return None
        one, other = (self.text(given[key], f"`{key}`") for key in keys)
        return None if one is None or other is None else (one, other)

    def _method(self, node: Node) -> Method | None:
        given = self.object(node, "the method", ("statistic", "text"))
        if given is None:
            return None
        statistic = self.word(given["statistic"], "statistic", STATISTICS)
        text = self.text(given["text"], "`text`")
        return None if statistic is None or text is None else Method(statistic, text)

    def _units(self, node: Node) -> None:
        given = self.object(node, "`units`", UNITS)
        for quantity, unit in UNITS.items() if given is not None else ():
            found = given[quantity] if given is not None else node
            if found.value != unit:
                self.error(
                    "ADM863",
                    f"the unit of `{quantity}` is `{unit}`, not {shown(found)}",
                    found.span,
                    f"convert the figures, and write `{unit}`; `admc profile fit` writes profiles in these units",
                )

    def _parts(self, node: Node) -> Mapping[str, str] | None:
        if not isinstance(node.value, dict) or not node.value or len(node.value) > MAX_PARTS:
            self.error(SHAPE, f"`parts` is an object with 1 to {MAX_PARTS} names and what each means", node.span)
            return None
        found: dict[str, str] = {}
        for name, meaning in node.value.items():
            if not _NAME.fullmatch(name):
                self.error(SHAPE, f"`{name[:40]}` is no name of a part", node.keys[name], "use letters, digits and `_`")
            text = self.text(meaning, f"the meaning of `{name[:40]}`")
            found[name] = text or ""
        return found

    def _own_components(self, node: Node) -> tuple[str, ...]:
        found: list[str] = []
        for entry in self.array(node, "`own_components`", MAX_COMPONENTS) or ():
            name = self.text(entry, "a component")
            if name is None:
                continue
            if not _NAME.fullmatch(name) or name in known_components():
                reason = "is one of the built-in kinds" if name in known_components() else "is no name of a component"
                self.error(SHAPE, f"`{name[:40]}` {reason}", entry.span)
            elif name in found:
                self.error("ADM870", f"the component `{name}` is given twice", entry.span)
            else:
                found.append(name)
        return tuple(sorted(found))

    def _sidecar(self, node: Node) -> SidecarCost | None:
        given = self.object(node, "`sidecar`", SidecarCost._fields)
        if given is None:
            return None
        return SidecarCost(*(self.optional(given[key], f"`{key}`") for key in SidecarCost._fields))

    # ---- hops ----

    def _hops(self, node: Node, parts: Mapping[str, str]) -> list[HopCost]:
        found: dict[Protocol, HopCost] = {}
        for entry in self.array(node, "`hops`", len(Protocol)) or ():
            hop = self._hop(entry, parts)
            if hop is None:
                continue
            if hop.protocol in found:
                self.error("ADM870", f"the base of {hop.title} is given twice", entry.span)
            found[hop.protocol] = hop
        return list(found.values())

    def _hop(self, node: Node, names: Mapping[str, str]) -> HopCost | None:
        given = self.object(node, "a hop", ("protocol", "sizes", "runs", "parts"))
        if given is None:
            return None
        protocol = self.word(given["protocol"], "protocol", [item.value for item in Protocol])
        sizes = self.sizes(given["sizes"])
        runs = None if given["runs"].value is None else self.count(given["runs"], "`runs`")
        entries = self.array(given["parts"], "`parts`", MAX_PARTS)
        if entries == []:
            self.error(SHAPE, "a hop has at least one part", given["parts"].span)
        found: dict[str, Part] = {}
        before = self.diagnostics.errors
        for entry in entries or ():
            part = self._part(entry, names)
            if part is not None and part.name in found:
                self.error("ADM870", f"the part `{part.name}` is given twice", entry.span)
            if part is not None:
                found[part.name] = part
        if protocol is None or self.diagnostics.errors > before or not found:
            return None
        hop = HopCost(Protocol(protocol), sizes, runs, tuple(found.values()))
        self.law_holds(checks.hop_problem(hop), node.span)
        return hop

    def _part(self, node: Node, names: Mapping[str, str]) -> Part | None:
        given = self.object(node, "a part", ("name", "latency", "cpu"))
        if given is None:
            return None
        name = self.word(given["name"], "part", names)
        latency = self.law(given["latency"], "the latency")
        cpu = self.cpu(given["cpu"], "the CPU")
        return None if name is None else Part(name, latency, cpu)

    # ---- components ----

    def _components(self, node: Node, own: tuple[str, ...]) -> list[ComponentCost]:
        found: dict[tuple[object, ...], ComponentCost] = {}
        for entry in self.array(node, "`components`", MAX_COMPONENTS) or ():
            cost = self._component(entry, own)
            if cost is None:
                continue
            order = component_order(cost)
            if order in found:
                self.error("ADM870", f"the cost of {cost.title} is given twice", entry.span)
            unclear = next((other for other in found.values() if checks.unclear(cost, other)), None)
            if unclear is not None:
                self.error(
                    "ADM870",
                    f"{cost.title} and {unclear.title} may be for the same policy, and neither is more specific",
                    entry.span,
                    "give both the same arguments, or one of them more",
                )
            found[order] = cost
        return list(found.values())

    def _component(self, node: Node, own: tuple[str, ...]) -> ComponentCost | None:
        given = self.object(node, "a component", _COMPONENT)
        if given is None:
            return None
        before = self.diagnostics.errors
        component = self._component_name(given["component"], own)
        protocol = self.word(given["protocol"], "protocol", [item.value for item in Protocol])
        side = None if given["side"].value is None else self.word(given["side"], "side", [side.value for side in Side])
        kind = None
        if given["kind"].value is not None and component is not None:
            kind = self.word(given["kind"], "kind", kinds_of_component(component))
        arguments = self._arguments(given["arguments"], component, kind)
        floor = self.flag(given["floor"], "`floor`")
        sizes = self.sizes(given["sizes"])
        runs = None if given["runs"].value is None else self.count(given["runs"], "`runs`")
        latency = self.law(given["latency"], "the latency")
        cpu = self.cpu(given["cpu"], "the CPU")
        memory = self.optional(given["memory"], "`memory`")
        if self.diagnostics.errors > before or component is None or protocol is None:
            return None
        found = ComponentCost(
            component,
            Protocol(protocol),
            None if side is None else Side(side),
            kind,
            arguments,
            bool(floor),
            sizes,
            runs,
            latency,
            cpu,
            memory,
        )
        self.law_holds(checks.component_problem(found), node.span)
        return found

    def _component_name(self, node: Node, own: tuple[str, ...]) -> str | None:
        if not isinstance(node.value, str):
            self.error(SHAPE, f"a component is a string, not {shown(node)}", node.span)
            return None
        known = (*known_components(), *own)
        if node.value in known:
            return node.value
        hint = self.diagnostics.did_you_mean(node.value, known) or "name a component of your own in `own_components`"
        self.error(NAME, f"there is no component `{node.value[:60]}`", node.span, hint)
        return None

    def _arguments(self, node: Node, component: str | None, kind: str | None) -> tuple[tuple[str, str], ...]:
        if not isinstance(node.value, dict):
            self.error(SHAPE, f"`arguments` is an object `{{...}}`, not {shown(node)}", node.span)
            return ()
        kinds = {} if component is None else kinds_of_component(component)
        chosen = [declared for name, declared in kinds.items() if kind in (None, name)]
        parameters = {item.name: item.type for declared in chosen for item in declared.parameters}
        found: list[tuple[str, str]] = []
        for name, given in node.value.items():
            value = self.text(given, f"the argument `{name[:40]}`")
            if kinds and name not in parameters:
                hint = self.diagnostics.did_you_mean(name, parameters) or "known are " + ", ".join(
                    f"`{one}`" for one in parameters
                )
                self.error(NAME, f"`{component}` has no parameter `{name[:40]}`", node.keys[name], hint)
            elif kinds and value is not None and parameters[name].items and value not in parameters[name].items:
                self.word(given, f"value of `{name}`", parameters[name].items)
            elif value is not None:
                number = read_argument(value, parameters[name]) if kinds else value
                if isinstance(number, BadNumber):
                    self.error(
                        FIGURE, f"the argument `{name}` cannot be used: {number.message}", given.span, number.hint
                    )
                else:
                    found.append((name, number))
        return tuple(sorted(found))
