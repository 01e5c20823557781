"""The ten meshes whose numbers were counted by hand, and what admc answers about them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from admc.base.findings.report import Report
from admc.istio.document import AdviceDocument, json_of
from admc.istio.facts import document
from admc.istio.implicit import Feature
from admc.istio.inputs.reading import Source
from admc.istio.run import Options, Outcome, run
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.text import SourceText

FOLDER: Final = Path(__file__).parent / "meshes"
COUNTS: Final[dict[str, dict[str, Any]]] = tomllib.loads((FOLDER / "counts.toml").read_text(encoding="utf-8"))
DECLARED: Final = tuple(case for case, expected in COUNTS.items() if expected.get("declared", True))
"""Those that say which pods have a sidecar, and so get an advice."""


def text(name: str) -> SourceText:
    return SourceText(name, (FOLDER / name).read_text(encoding="utf-8"))


def outcome(case: str) -> Outcome:
    expected = COUNTS[case]
    options = Options(
        "default",
        frozenset(expected.get("injected", ())),
        keep=tuple(Feature(name) for name in expected.get("keep", ())),
        calls=text(expected["calls"]) if "calls" in expected else None,
        guess=expected.get("guess", False),
    )
    return run([Source(text(f"{expected.get('mesh', case)}.yaml"))], options, Diagnostics())


def advice(case: str) -> AdviceDocument:
    made = outcome(case)
    assert made.advice is not None
    return document(made.advice, Report(made.findings, made.exit_code))


def as_json(case: str) -> str:
    return json_of(advice(case))
