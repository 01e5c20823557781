"""Any text gives findings and an exit code, and no error of admc's own."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from admc.base.exits import Exit
from admc.base.findings import json as json_findings
from admc.base.findings.report import Report
from admc.istio.document import AdviceDocument, json_of
from admc.istio.facts import document as document_of
from admc.istio.inputs.reading import Source
from admc.istio.run import Options, Outcome, run
from admc.istio.schemas.rules import program
from admc.istio.text import render
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.documents import read
from dsl.text import SourceText
from emitters.yaml_writer import dump
from tests.istio.samples import right
from tests.istio.test_advise_command import MESH
from tests.properties import examples

EVERYTHING = [*MESH, *right()]
TEXTS = [dump(document) for document in EVERYTHING] + [json.dumps(document) for document in EVERYTHING]
PIECES = [
    "{{ .Values.x }}",
    "${X}",
    "- ",
    ": ",
    "\n",
    "\t",
    "&a ",
    "*a",
    "[",
    "}",
    "!!binary x",
    "on",
    "~",
    "---\n",
    "\x00",
]
# Compiling a rule raises the limit of recursion, which may not happen inside an example.
program("true")
EDITS = st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(PIECES) | st.text(max_size=3))


def outcome(texts: list[str], *, keep_going: bool) -> Outcome:
    sources = [Source(SourceText(f"{number}.yaml", text)) for number, text in enumerate(texts)]
    return run(sources, Options("default", None, keep_going), Diagnostics())


@given(st.lists(st.tuples(st.sampled_from(TEXTS), st.lists(EDITS, max_size=3)), min_size=1, max_size=4), st.booleans())
@examples(300)
def test_changed_texts(drawn: list[tuple[str, list[tuple[float, int, str]]]], keep_going: bool) -> None:
    texts = []
    for right_text, edits in drawn:
        changed = right_text
        for place, length, piece in edits:
            start = int(place * len(changed))
            changed = changed[:start] + piece + changed[start + length :]
        texts.append(changed)
    made = outcome(texts, keep_going=keep_going)
    report = Report(made.findings, made.exit_code)
    text = json_findings.render(report) if made.advice is None else json_of(document_of(made.advice, report))
    document = json.loads(text)
    assert made.exit_code in (Exit.DONE, Exit.INPUT)
    assert (made.exit_code is Exit.INPUT) == any(item["severity"] == "error" for item in document["diagnostics"])
    assert (made.advice is not None) or made.exit_code is Exit.INPUT
    if made.advice is not None:
        assert render(made.advice)
        assert json_of(read(AdviceDocument, text.encode())) == text
        numbers = document["sidecars"]
        assert numbers["today"] == sum(share["pods"] for share in numbers["by_declaration"])
