"""One kind at a time: every sample, on every side that it may take, in every protocol that it is for.

Callers of an http port speak HTTP/1.1 or HTTP/2, so both are tried.
"""

from __future__ import annotations

from dsl.program import Protocol, Side
from tests.fidelity.cases import Case, Written, load, text
from tests.fidelity.samples import SAMPLES


def singles() -> list[Case]:
    """All of them, the sides that a kind cannot take as well: the compiler has to say so."""
    kinds = load(text([])).kinds
    found = []
    for index, sample in enumerate(SAMPLES):
        for protocol in Protocol:
            if protocol not in kinds[sample.kind].protocols or protocol not in sample.protocols:
                continue
            for side in Side:
                policy = Written(sample.kind, sample.arguments, sample.when, sample.scope, side)
                for wire in ("", "h2c") if protocol is Protocol.HTTP else ("",):
                    name = f"s{index}_{wire or protocol}_{side}"
                    found.append(Case(name, protocol, (policy,), sample.asks, wire=wire))
    return found
