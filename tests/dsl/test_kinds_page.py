"""docs/kinds.md lists the kinds as the prelude declares them, and says of each what `admc explain` says.

After a wanted change `python -m tests.dsl.test_kinds_page` writes both parts anew.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from admc.compile.explain.kind import arguments, in_other_meshes
from dsl.kinds.prelude import kinds
from dsl.vocabulary.guide import frame, guides

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "kinds.md"
WIDTH = 118
_SIGNATURES = re.compile(r"(?<=## Parameters\n).*?```text\n(.*?)```", re.DOTALL)
_KINDS = re.compile(r"<!-- output of `admc explain` -->\n(.*?)<!-- end -->", re.DOTALL)


def _signatures() -> str:
    prelude = (ROOT / "dsl" / "prelude.adm").read_text(encoding="utf-8")
    return "".join(f"{found[1]}\n" for found in re.finditer(r"^kind (.*(?:\n  .*)*)$", prelude, re.MULTILINE))


def _every_kind() -> str:
    return f"\n```adm\n{frame().strip()}\n```\n\n" + "\n".join(line for kind in guides() for line in _kind(kind)) + "\n"


def _kind(name: str) -> Iterator[str]:
    guide = guides()[name]
    yield f"### {name}"
    yield from textwrap.wrap(f"{guide.sentence}.", WIDTH, break_on_hyphens=False)
    yield ""
    for point in (*arguments(kinds()[name].kind), *in_other_meshes(guide)):
        yield from textwrap.wrap(f"- {point.text}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    yield from ("", "```adm")
    yield "\n\n".join(f"// {example.title}\n{example.text}" for example in guide.examples)
    yield from ("```", "")


@pytest.mark.parametrize(("part", "content"), [(_SIGNATURES, _signatures()), (_KINDS, _every_kind())])
def test_the_page_shows_what_stands_once(part: re.Pattern[str], content: str) -> None:
    shown = part.search(PAGE.read_text(encoding="utf-8"))
    assert shown is not None
    assert shown[1] == content, "write it anew with `python -m tests.dsl.test_kinds_page`"


def _rewrite() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for part, content in ((_SIGNATURES, _signatures()), (_KINDS, _every_kind())):
        shown = part.search(text)
        assert shown is not None
        text = text[: shown.start(1)] + content + text[shown.end(1) :]
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    _rewrite()
