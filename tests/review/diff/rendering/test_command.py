"""`admc diff` prints each format, and takes only an address for links."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from admc.cli.diff import DiffFormat
from tests.cli.command import Admc

BASE = """app shop
service web, cart { http 80 }
call web -> cart
policy quota = rate_limit(requests: 5, per: 1s) on * -> cart
"""


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    base, head = tmp_path / "old.adm", tmp_path / "new.adm"
    base.write_text(BASE, encoding="utf-8")
    head.write_text(BASE.replace("requests: 5", "requests: 50"), encoding="utf-8")
    return base, head


def test_each_format_is_one_document_with_the_finding(
    capfd: pytest.CaptureFixture[str], sides: tuple[Path, Path]
) -> None:
    admc = Admc(capfd)
    found = {}
    for each in DiffFormat:
        run = admc("diff", *sides, "--format", each.value)
        assert (run.code, run.err) == (0, "")
        found[each] = run.out
    assert found[DiffFormat.TEXT].startswith("shop: 1 thing gets weaker; ")
    assert found[DiffFormat.MARKDOWN].startswith("**`shop`: 1 thing gets weaker.** ")
    assert json.loads(found[DiffFormat.JSON])["weaker"][0]["word"] == "loosened"
    assert json.loads(found[DiffFormat.SARIF])["runs"][0]["results"][0]["ruleId"] == "loosened"
    root = ElementTree.fromstring(found[DiffFormat.JUNIT])  # noqa: S314 - our own document
    assert root.attrib["failures"] == "1"
    assert found[DiffFormat.GITHUB].startswith("::warning file=")


def test_links_take_an_address(capfd: pytest.CaptureFixture[str], sides: tuple[Path, Path]) -> None:
    run = Admc(capfd)("diff", *sides, "--links", "javascript:x")
    assert run.code == 1
    assert "`--links javascript:x` is no address" in run.err
