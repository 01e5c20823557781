"""`admc overhead --prices`: money by hand, and each mistake in a price list has a place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import admc as admc_package
from admc.cost.money.price_list import PriceList, read_prices
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.text import SourceText
from tests.cli.command import Admc
from tests.cost.documents import Document, changed
from tests.cost.test_commands import compare

SCHEMA = json.loads(Path(admc_package.__file__).with_name("prices.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
PRICES: dict[str, Any] = {
    "schema_version": 1,
    "currency": "EUR",
    "core_month": 24.5,
    "gib_month": 3.2,
    "sidecar": {"cores": 0.1, "gib": 0.125},
}
SHOP = """app shop

service web { http 8080 }
service api { http 8080  replicas 3 }
service db { tcp 5432  no adm }
call web -> api { rate 60/s  size 100B }
call api -> db { rate 10/s }

@ingress
policy count = request_count() on web -> api

profile "node.json"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "node.json").write_text(changed(lambda _: None))
    (tmp_path / "shop.adm").write_text(SHOP)
    (tmp_path / "prices.json").write_text(json.dumps(PRICES))
    return tmp_path


def test_money_by_hand(admc: Admc, folder: Path) -> None:
    def memory_with_intervals(profile: Document) -> None:
        for name in ("memory", "memory_hop", "memory_policy", "memory_connection"):
            value = profile["sidecar"][name]["value"]
            profile["sidecar"][name]["interval"] = [value * 0.9, value * 1.1]

    (folder / "node.json").write_text(changed(memory_with_intervals))
    found = json.loads(admc("overhead", "shop.adm", "--prices", "prices.json", "--format", "json").out)
    plan, money = found["totals"]["plan"], found["money"]
    assert money["currency"] == "EUR"
    used = plan["cpu"]["value"] / 1e9 * 24.5 + plan["memory"]["value"] / 2**30 * 3.2
    assert money["plan"]["used"]["value"] == pytest.approx(used, abs=2e-6)
    ends = zip(plan["cpu"]["interval"], plan["memory"]["interval"], strict=True)
    assert money["plan"]["used"]["interval"] == pytest.approx(
        [cpu / 1e9 * 24.5 + memory / 2**30 * 3.2 for cpu, memory in ends], abs=3e-6
    )
    # 3 sidecars in the plan, 4 where one can be, 5 everywhere: 0.1 cores and 0.125 GiB each
    each = 0.1 * 24.5 + 0.125 * 3.2
    for name, number in (("plan", 3), ("full_mesh", 4), ("full_mesh_everywhere", 5), ("none", 0)):
        assert money[name]["reserved"] == {
            "value": pytest.approx(each * number),
            "interval": pytest.approx([each * number] * 2),
            "at_least": False,
        }
    # The profile has no tcp hop, so what the full mesh uses is a lower bound.
    assert not money["plan"]["used"]["at_least"]
    assert money["full_mesh"]["used"]["at_least"]
    assert money["none"]["used"]["value"] == 0


def test_no_prices_are_built_in(admc: Admc) -> None:
    assert json.loads(admc("overhead", "shop.adm", "--format", "json").out)["money"] is None
    assert "month" not in admc("overhead", "shop.adm").out


def test_output(admc: Admc) -> None:
    compare("overhead-prices.text", admc("overhead", "shop.adm", "--prices", "prices.json").out)
    run = admc("overhead", "shop.adm", "--prices", "prices.json", "--what-if", "user.cpu=-50%")
    compare("overhead-prices-what-if.text", run.out)


def test_money_of_both_sides(admc: Admc) -> None:
    arguments = ("--prices", "prices.json", "--format", "json")
    found = json.loads(admc("overhead", "shop.adm", "--traffic", "x2", *arguments).out)
    alone = json.loads(admc("overhead", "shop.adm", *arguments).out)
    assert found["before"]["money"] == alone["money"]
    assert found["after"]["money"]["plan"]["used"]["value"] > alone["money"]["plan"]["used"]["value"]
    assert found["after"]["money"]["plan"]["reserved"] == alone["money"]["plan"]["reserved"]


def _read(text: str) -> tuple[PriceList | None, Diagnostics]:
    diagnostics = Diagnostics()
    return read_prices(SourceText("prices.json", text), diagnostics), diagnostics


def test_the_schema_takes_what_the_reader_takes() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    VALIDATOR.validate(PRICES)
    assert _read(json.dumps(PRICES))[0] is not None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema_version": 2}, "`schema_version` is 2, and this admc reads 1"),
        ({"schema_version": "1"}, "`schema_version` must be a whole number from 1"),
        ({"currency": "euro"}, "`currency` must be three capital letters"),
        ({"currency": None}, "`currency` must be a string"),
        ({"core_month": -1}, "`core_month` must be at least 0"),
        ({"core_month": "24"}, "`core_month` must be a number"),
        ({"core_month": 1e30}, "`core_month` is out of range"),
        ({"gib_month": None}, "`gib_month` must be a number"),
        ({"gib_moth": 1}, "has an unknown field `gib_moth`"),
        ({"sidecar": {"cores": 1}}, "`sidecar` lacks `gib`"),
        ({"sidecar": []}, "`sidecar` must be an object"),
    ],
)
def test_mistakes(change: dict[str, object], said: str) -> None:
    document = {**PRICES, **change}
    found, diagnostics = _read(json.dumps(document))
    assert found is None
    assert [item.code for item in diagnostics.items] == ["ADM858"]
    assert said in diagnostics.items[0].message
    assert diagnostics.items[0].span is not None
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(document)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"core_month": NaN}', '{"core_month": Infinity}', "[" * 1000])
def test_what_is_no_price_list(text: str, admc: Admc, folder: Path) -> None:
    (folder / "wrong.json").write_text(text)
    run = admc("overhead", "shop.adm", "--prices", "wrong.json")
    assert run.code == 1
    assert "error[ADM858]" in run.err
    assert "wrong.json:1:" in run.err


def test_all_mistakes_are_reported_at_once(admc: Admc, folder: Path) -> None:
    (folder / "wrong.json").write_text(json.dumps({**PRICES, "currency": "x", "core_month": -1, "gib_month": "3"}))
    assert admc("overhead", "shop.adm", "--prices", "wrong.json").err.count("error[ADM858]") == 3


def test_a_price_list_that_is_too_long(admc: Admc, folder: Path) -> None:
    (folder / "long.json").write_text(" " * 200_000)
    run = admc("overhead", "shop.adm", "--prices", "long.json")
    assert run.code == 1
    assert "the price list" in run.err
    assert "it has more than 100,000 bytes" in run.err


def test_a_byte_order_mark_is_passed_over() -> None:
    found, _ = _read("\ufeff" + json.dumps(PRICES))
    assert found is not None
    assert found == _read(json.dumps(PRICES))[0]
