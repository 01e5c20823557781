"""Reads the laws of a profile: curves of figures by rate, sizes, and what must hold among them."""

from __future__ import annotations

from admc.overhead.profiles.checks import MAX_RATES, Problem
from admc.overhead.profiles.fields import FIGURE, SHAPE, Fields
from admc.overhead.profiles.json_text import Node
from admc.overhead.profiles.profile import Curve, Figure, Knot, Law, Sizes
from dsl.text import Span


class LawFields(Fields):
    """Like its base, it returns None after an error."""

    def optional(self, node: Node, what: str) -> Figure | None:
        return None if node.value is None else self.figure(node, what)

    def sizes(self, node: Node) -> Sizes | None:
        if node.value is None:
            return None
        given = self.object(node, "`sizes`", Sizes._fields)
        if given is None:
            return None
        low, high, reference = (self.number(given[key], f"`{key}`") for key in Sizes._fields)
        if low is None or high is None or reference is None:
            return None
        if low > high:
            self.error(FIGURE, f"`low` is more than `high`: {low} and {high}", given["low"].span)
        return Sizes(low, high, reference)

    def law(self, node: Node, what: str) -> Law | None:
        if node.value is None:
            return None
        given = self.object(node, what, ("base", "per_byte"))
        if given is None:
            return None
        base = self.curve(given["base"], what)
        slope = None if given["per_byte"].value is None else self.curve(given["per_byte"], f"a byte in {what}")
        return Law(base, slope) if base else None

    def curve(self, node: Node, what: str) -> Curve:
        entries = self.array(node, what, MAX_RATES)
        if entries == []:
            self.error(SHAPE, f"{what} has at least one figure", node.span, "write `null` where nothing was measured")
        found: list[Knot] = []
        for entry in entries or ():
            given = self.object(entry, f"a figure of {what}", ("rate", "value", "interval"))
            if given is None:
                continue
            unstated = given["rate"].value is None
            rate = None if unstated else self.positive(given["rate"], "a rate")
            value = self.number(given["value"], what)
            low, high = self.interval(given["interval"], value, what)
            if unstated and len(entries or ()) > 1:
                self.error(FIGURE, "the rate is missing", given["rate"].span, "only a single figure may lack its rate")
            elif found and rate is not None and found[-1].rate is not None and rate <= found[-1].rate:
                self.error(FIGURE, f"rates ascend, and `{rate}` follows `{found[-1].rate}`", given["rate"].span)
            elif value is not None and (unstated or rate is not None):
                found.append(Knot(rate, Figure(value, low, high)))
        return tuple(found)

    def cpu(self, node: Node, what: str) -> Law | None:
        law = self.law(node, what)
        if law is not None and any(knot.rate is None for knot in (*law.base, *(law.per_byte or ()))):
            self.error(FIGURE, f"{what} lacks its rate", node.span, cause="CPU is given as cores at a rate")
        return law

    def law_holds(self, problem: Problem | None, span: Span) -> None:
        if problem is not None:
            self.error(problem.code, problem.message, span, problem.hint, problem.cause)
