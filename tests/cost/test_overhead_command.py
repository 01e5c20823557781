"""`admc overhead`: its output as text and JSON, and its exit codes.

After a wanted change `ADMC_SNAPSHOTS=1 python -m pytest tests/cost/test_overhead_command.py` writes the snapshots
anew; review the difference.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import ROOT, Admc
from tests.cost.documents import changed
from tests.cost.test_commands import compare
from tests.cost.test_program import SHOP

SHOP_BY_NODE = SHOP + 'profile "node.json"\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "node.json").write_text(changed(lambda _: None))
    (tmp_path / "shop.adm").write_text(SHOP_BY_NODE)
    text = (ROOT / "examples" / "hotel_reservation" / "policies.adm").read_text()
    (tmp_path / "hotel.adm").write_text(text + "\nprofile meshinsight\n")
    for path in (ROOT / "examples" / "hotel_reservation").iterdir():
        if path.is_file() and path.suffix != ".adm":
            shutil.copy(path, tmp_path)
    return tmp_path


@pytest.mark.parametrize("format_", ["text", "json"])
@pytest.mark.parametrize("name", ["shop", "hotel"])
def test_output(admc: Admc, name: str, format_: str) -> None:
    run = admc("overhead", f"{name}.adm", "--format", format_)
    assert (run.code, run.err) == (0, "")
    compare(f"overhead-{name}.{format_}", run.out)


def _document(admc: Admc, program: str) -> Any:
    return json.loads(admc("overhead", program, "--format", "json").out)


def test_sums_of_the_document(admc: Admc) -> None:
    document = _document(admc, "hotel.adm")
    total = 0
    for adm in document["adms"]:
        cpu = 0
        for hop in adm["hops"]:
            assert sum(part["cpu"] for part in hop["parts"]) == hop["base_cpu"]["value"]
            cpu += hop["base_cpu"]["value"] + sum(
                share["cpu"]["value"] for share in hop["components"] if share["cpu"] is not None
            )
        assert cpu == adm["cpu"]["value"]
        total += cpu
    assert document["totals"]["plan"]["cpu"]["value"] == total


def test_the_plan_costs_less_than_a_full_mesh(admc: Admc) -> None:
    totals = _document(admc, "hotel.adm")["totals"]
    for quantity in ("cpu", "latency_per_second"):
        values = [totals[name][quantity]["value"] for name in ("plan", "full_mesh", "full_mesh_everywhere")]
        assert values == sorted(values)
        assert values[0] < values[1]


def test_require_priced(admc: Admc, folder: Path) -> None:
    # The policy was measured at 100 bytes alone, so its cost of bytes is missing at 1 KB.
    assert admc("overhead", "shop.adm", "--require-priced").code == 4
    (folder / "small.adm").write_text(SHOP_BY_NODE.replace("1KB", "100B"))
    assert admc("overhead", "small.adm", "--require-priced").code == 0
    run = admc("overhead", "hotel.adm", "--require-priced")
    assert run.code == 4
    assert "error[ADM872]" in run.err
    # The reasons are those of the output without the option.
    _, _, after = admc("overhead", "hotel.adm").out.partition("missing, so that sums are lower bounds (`>=`):\n")
    reasons, _, _ = after.partition("extrapolated, ")
    assert len(reasons.splitlines()) == 5
    assert "; ".join(line.strip() for line in reasons.splitlines()) in run.err
    assert json.loads(admc("overhead", "hotel.adm", "--require-priced", "--format", "json").out)["exit_code"] == 4


def test_a_program_without_a_profile(admc: Admc, folder: Path) -> None:
    (folder / "plain.adm").write_text(SHOP)
    run = admc("overhead", "plain.adm")
    assert run.code == 1
    assert "error[ADM871]" in run.err


def test_the_working_directory_changes_nothing(admc: Admc, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = _document(admc, "hotel.adm")
    monkeypatch.chdir("/")
    assert _document(admc, str(folder / "hotel.adm")) == inside


def test_a_rate_that_is_not_given_is_no_zero(admc: Admc, folder: Path) -> None:
    (folder / "rates.adm").write_text(
        "app shop\nservice web { http 8080 }\nservice api { http 8080  http admin 9000 }\n"
        "call web -> api:8080 { rate 20/s  size 100B }\ncall web -> api:admin\n"
        "policy count = request_count() on web -> api\n@egress\npolicy all = access_log() on web -> api\n"
        'profile "node.json"\n'
    )
    (adm,) = _document(admc, "rates.adm")["adms"]
    assert adm["rate_of_replica"] == 20
    assert [hop["rate"] for hop in adm["hops"]] == [20, None]
    rows = {line.split()[0]: line.split()[1:4] for line in admc("overhead", "rates.adm").out.splitlines() if line}
    assert rows["web"][:3] == ["1", ">=", "20"]
    assert rows["egress/api:8080"][:2] == ["(http)", "20"]
    assert rows["egress/api:9000"][:2] == ["(http)", "-"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("{ rate 5/s  size 100B }", None),
        ("{ rate 5/s }", "where the plan's are not: 1 call without a size"),
        ("", "where the plan's are not: 1 call without a rate and 1 call without a size"),
        ("{ rate 50000/s  size 100B }", "2 sidecars of the full mesh would be saturated"),
    ],
)
def test_what_the_full_mesh_lacks_beside_the_plan(admc: Admc, folder: Path, call: str, said: str | None) -> None:
    (folder / "beside.adm").write_text(
        "app shop\nservice web, api, db { http 80 }\ncall api -> db { rate 5/s  size 100B }\n"
        f"call web -> api {call}\n"
        'policy count = request_count() on api -> db\npin count at ingress\nprofile "node.json"\n'
    )
    out = admc("overhead", "beside.adm").out
    assert "missing" not in out
    assert said in out if said else "full mesh has" not in out
