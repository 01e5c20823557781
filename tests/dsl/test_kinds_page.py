"""docs/kinds.md lists the kinds as the prelude declares them.

After a wanted change `python -m tests.dsl.test_kinds_page` writes the signatures anew.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "kinds.md"
_BLOCK = re.compile(r"(?<=## Parameters\n).*?```text\n(.*?)```", re.DOTALL)


def _signatures() -> str:
    prelude = (ROOT / "dsl" / "prelude.adm").read_text(encoding="utf-8")
    return "".join(f"{found[1]}\n" for found in re.finditer(r"^kind (.*)$", prelude, re.MULTILINE))


def test_the_page_has_the_signatures_of_the_prelude() -> None:
    shown = _BLOCK.search(PAGE.read_text(encoding="utf-8"))
    assert shown is not None
    assert shown[1] == _signatures()


def _rewrite() -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown = _BLOCK.search(text)
    assert shown is not None
    PAGE.write_text(text[: shown.start(1)] + _signatures() + text[shown.end(1) :], encoding="utf-8")


if __name__ == "__main__":
    _rewrite()
