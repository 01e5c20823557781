"""`admc overhead` with changes: each side equals the estimate of a program that is so, and differences are theirs.

After a wanted change `ADMC_SNAPSHOTS=1 python -m pytest tests/cost/test_what_if.py` writes the snapshots anew;
review the difference.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import ROOT, Admc
from tests.cost.documents import Document, changed, curve
from tests.cost.test_commands import compare

SHOP = """app shop

service web, api { http 8080 }
call web -> api { rate 20/s  size 100B }

policy count = request_count() on web -> api
objective minimize cpu
"""
BY_NODE = SHOP + 'profile "node.json"\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "node.json").write_text(changed(lambda _: None))
    (tmp_path / "shop.adm").write_text(BY_NODE)
    (tmp_path / "plain.adm").write_text(SHOP)
    return tmp_path


@pytest.fixture
def hotel(folder: Path) -> Path:
    for path in (ROOT / "examples" / "hotel_reservation").iterdir():
        if path.is_file() and path.suffix != ".adm":
            shutil.copy(path, folder)
    text = (ROOT / "examples" / "hotel_reservation" / "policies.adm").read_text()
    (folder / "hotel.adm").write_text(text + "\nprofile meshinsight\n")
    return folder


def document(admc: Admc, *arguments: object) -> Any:
    run = admc("overhead", *arguments, "--format", "json")
    assert (run.code, run.err) == (0, "")
    return json.loads(run.out)


def figures(found: Document) -> Document:
    """All of an estimate but the profile that it names."""
    return {key: value for key, value in found.items() if key != "profile"}


def test_each_side_is_the_estimate_of_a_program_that_is_so(admc: Admc, folder: Path) -> None:
    def halved(profile: Document) -> None:
        for part in profile["hops"][0]["parts"]:
            if part["name"] == "user":
                for knot in (*part["latency"]["base"], *part["latency"]["per_byte"]):
                    knot["value"] /= 2
                    knot["interval"] = [end / 2 for end in knot["interval"]]

    (folder / "half.json").write_text(changed(halved))
    (folder / "half.adm").write_text(BY_NODE.replace("node.json", "half.json"))
    found = document(admc, "shop.adm", "--what-if", "user.latency=-50%")
    assert found["before"] == document(admc, "shop.adm")
    assert figures(found["after"]) == figures(document(admc, "half.adm"))
    assert figures(found["after"]) != figures(found["before"])
    assert figures(document(admc, "shop.adm", "--what-if", "user.latency=x0.5")["after"]) == figures(found["after"])
    assert found["before"]["profile"]["sha256"] != found["after"]["profile"]["sha256"]


def test_more_traffic_is_a_program_with_these_rates(admc: Admc, folder: Path) -> None:
    (folder / "busy.adm").write_text(BY_NODE.replace("20/s", "30/s"))
    found = document(admc, "shop.adm", "--traffic", "x1.5")
    assert found["before"] == document(admc, "shop.adm")
    assert found["after"] == document(admc, "busy.adm")
    assert document(admc, "busy.adm", "--traffic", "x0.5")["after"]["adms"][0]["rate_of_replica"] == 15


def test_more_traffic_counts_for_requests_too(admc: Admc, folder: Path) -> None:
    text = (
        "app shop\nexternal internet\nservice web, api { http 8080 }\n"
        "call internet -> web { size 100B }\ncall web -> api { size 100B }\n"
        "policy count = request_count() on web -> api\n"
        "request buy on internet -> web { rate 20/s  call api { times 2 } }\n"
        'profile "node.json"\n'
    )
    (folder / "buy.adm").write_text(text)
    (folder / "busy.adm").write_text(text.replace("20/s", "60/s"))
    found = document(admc, "buy.adm", "--traffic", "x3")
    assert found["before"] == document(admc, "buy.adm")
    assert found["after"] == document(admc, "busy.adm")
    (request,) = found["differences"]["requests"]
    one, other = (found[side]["requests"][0]["plan"]["cpu_of_request"]["value"] for side in ("before", "after"))
    assert request["cpu_of_request"]["value"] == other - one < 0
    assert "request buy, with the plan" in admc("overhead", "buy.adm", "--traffic", "x3").out


def test_another_profile_is_never_mixed_with_that_of_the_program(admc: Admc, folder: Path) -> None:
    (folder / "by_other.adm").write_text(SHOP + "profile meshinsight\n")
    found = document(admc, "shop.adm", "--profile", "meshinsight")
    assert found["before"] == document(admc, "shop.adm")
    after, alone = found["after"], document(admc, "by_other.adm")
    # The plan is that of the program by its own profile, so only the figures of the same hops are equal.
    assert after["adms"][0]["hops"][0]["base_cpu"] == alone["adms"][0]["hops"][0]["base_cpu"]
    assert after["profile"] == alone["profile"]
    assert found["cautions"]
    # What one has and the other lacks is said.
    text = admc("overhead", "shop.adm", "--profile", "meshinsight").out
    _, _, after = text.partition("missing only after, so that sums are lower bounds (`>=`):\n")
    assert "  the profile has no CPU of an idle sidecar\n" in after
    assert "  the profile has no figure for: request_count (http)\n" in after
    # Where both lack different things, no difference is given.
    assert found["differences"]["plan"]["cpu"] is None
    assert "no difference is given where before and after lack different figures" in text


def test_a_profile_for_a_program_without_one(admc: Admc) -> None:
    assert admc("overhead", "plain.adm").code == 1
    alone = document(admc, "plain.adm", "--profile", "meshinsight")
    assert "before" not in alone
    assert alone["profile"]["name"] == "meshinsight"
    found = document(admc, "plain.adm", "--profile", "meshinsight", "--what-if", "ipc.cpu=-10%")
    assert found["before"] == alone
    assert found["cautions"] == []


def test_replan_solves_again_by_the_changed_costs(admc: Admc, folder: Path) -> None:
    def cheap_at_egress(profile: Document) -> None:
        for cost in profile["components"]:
            if cost["component"] == "request_count" and cost["side"] == "egress":
                cost["cpu"]["base"] = curve((100.0, 0.0001))

    (folder / "other.json").write_text(changed(cheap_at_egress))
    kept = document(admc, "shop.adm", "--profile", "other.json")
    assert [adm["service"] for adm in kept["after"]["adms"]] == ["api"]
    found = document(admc, "shop.adm", "--profile", "other.json", "--replan")
    assert [adm["service"] for adm in found["before"]["adms"]] == ["api"]
    assert [adm["service"] for adm in found["after"]["adms"]] == ["web"]
    assert found["after"]["totals"]["plan"]["cpu"]["value"] < kept["after"]["totals"]["plan"]["cpu"]["value"]
    assert [(adm["service"], adm["planned"]) for adm in found["differences"]["adms"]] == [
        ("api", [True, False]),
        ("web", [False, True]),
    ]
    text = admc("overhead", "shop.adm", "--profile", "other.json", "--replan").out
    assert "api: no ADM any more" in text
    assert "web: a new ADM" in text


def test_replan_obeys_capacities_at_the_new_rates(admc: Admc, folder: Path) -> None:
    (folder / "small.adm").write_text(BY_NODE.replace("{ http 8080 }", "{ http 8080  capacity 0.1 }"))
    run = admc("overhead", "small.adm", "--traffic", "x20")
    assert run.code == 0
    assert "after, a sidecar of `api` takes more than its capacity of 0.1 cores; `--replan` solves again" in run.out
    assert document(admc, "small.adm", "--traffic", "x20")["over_capacity"] == ["api"]
    run = admc("overhead", "small.adm", "--traffic", "x20", "--replan")
    assert run.code == 3
    assert "error[ADM609]: after the change, no correct placement" in run.err


def test_the_plan_of_more_replicas_keeps_its_capacity(admc: Admc, folder: Path) -> None:
    """`capacity` is that of each sidecar."""
    (folder / "wide.adm").write_text(BY_NODE.replace("{ http 8080 }", "{ http 8080  capacity 0.1  replicas 9 }"))
    assert document(admc, "wide.adm", "--traffic", "x20")["over_capacity"] == []


def test_saturation_and_extrapolation_are_said(admc: Admc, folder: Path) -> None:
    (folder / "shop.adm").write_text(BY_NODE.replace("20/s", "5/s"))
    text = admc("overhead", "shop.adm", "--traffic", "x1000").out
    _, _, after = text.partition("missing only after, so that sums are lower bounds (`>=`):\n")
    assert after.startswith("  saturated, so without latency: api\n")
    assert "extrapolated only after, beyond what was measured:\n  in the rate: http hop\n" in after
    assert "after, 2 sidecars of the full mesh would be saturated" in text
    found = document(admc, "shop.adm", "--traffic", "x1000")
    assert found["differences"]["plan"]["latency_per_second"] is None
    assert found["differences"]["full_mesh"]["latency_per_second"] is None
    assert found["differences"]["full_mesh"]["cpu"] is not None


def test_differences_of_lower_bounds_where_both_lack_the_same(admc: Admc, hotel: Path) -> None:
    found = document(admc, "hotel.adm", "--what-if", "ipc.latency=-50%")
    for name in ("plan", "full_mesh", "full_mesh_everywhere"):
        one, other = (found[side]["totals"][name]["latency_per_second"]["value"] for side in ("before", "after"))
        assert found["differences"][name]["latency_per_second"]["value"] == other - one < 0
    # Nothing is known of memory, which is no difference of zero.
    assert found["differences"]["plan"]["memory"] is None


def test_a_change_that_no_hop_of_the_plan_meets(admc: Admc) -> None:
    run = admc("overhead", "shop.adm", "--what-if", "compressor.cpu=-50%")
    assert run.code == 0
    assert "`compressor.cpu=-50%` changes nothing in the plan: no hop of it has `compressor`" in run.out
    assert "no ADM differs" in run.out


def test_a_figure_with_all_its_digits_can_be_changed(admc: Admc, hotel: Path) -> None:
    """The cost of a byte has 18 digits after the point, which is as many as a profile may have."""
    (hotel / "large.adm").write_text((hotel / "hotel.adm").read_text().replace("350B", "64KB"))
    found = document(admc, "large.adm", "--what-if", "bytes.cpu=+33.3%")
    assert found["differences"]["plan"]["cpu"]["value"] > 0
    same = document(admc, "large.adm", "--what-if", "bytes.cpu=x1.000")
    assert same["differences"]["plan"]["cpu"]["value"] == 0


def test_sidecars_and_memory(admc: Admc) -> None:
    found = document(admc, "shop.adm", "--what-if", "sidecar.memory=x2", "--what-if", "sidecar.cpu=-100%")
    one, other = (found[side]["totals"]["plan"] for side in ("before", "after"))
    assert other["memory"]["value"] == 2 * one["memory"]["value"]
    assert one["cpu"]["value"] - other["cpu"]["value"] == 2_000_000
    assert found["after"]["adms"][0]["idle_cpu"] == {"value": 0, "interval": [0, 0], "at_least": False}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--what-if", "usr.latency=-50%"), "did you mean `user`?"),
        (("--what-if", "compresor.cpu=-50%"), "did you mean `compressor`?"),
        (("--what-if", "rbac.cpu=-50%"), "the profile `node` has no figure of `rbac`"),
        (("--what-if", "own.cpu=-50%"), "the profile `node` has no figure of `own`"),
        (("--what-if", "user.memory=-50%"), "the profile `node` has no memory of `user`"),
        (("--what-if", "user.latncy=-50%"), "did you mean `latency`?"),
        (("--what-if", "user.latency=50%"), "a percentage has a sign"),
        (("--what-if", "user.latency=-101%"), "less than nothing"),
        (("--what-if", "user.latency=0.5"), "is no percentage"),
        (("--what-if", "user.latency=x1e3"), "is no percentage"),
        (("--what-if", "user.latency=xNaN"), "is no percentage"),
        (("--what-if", "user.latency=x9999999"), "the factor is more than 1,000,000"),
        (("--what-if", "user.latency=+999999999%"), "the factor is more than 1,000,000"),
        (("--what-if", "user"), "is not understood"),
        (("--what-if", "zzzzzz.cpu=x2"), "it has figures of `kernel`, `user`, "),
        (("--what-if", "user.cpu=x2", "--what-if", "user.cpu=-5%"), "changes `user.cpu` twice"),
        (tuple(["--what-if", "user.cpu=x2"] * 51), "more than 50 changes"),
        (("--traffic", "10"), "write `--traffic x10`"),
        (("--traffic", "x0"), "a factor is more than zero"),
        (("--traffic", "x-1"), "is no factor"),
        (("--replan",), "there is none"),
        (("--profile", "meshinsigt"), "did you mean `meshinsight`?"),
        (("--profile", "none.json"), "cannot read the profile"),
    ],
)
def test_what_is_refused(admc: Admc, arguments: tuple[str, ...], said: str) -> None:
    run = admc("overhead", "shop.adm", *arguments)
    assert run.code == 1
    assert run.out == ""
    assert said in run.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--what-if", "user.cpu=-5%"),
        ("--traffic", "x2"),
        ("--replan", "--traffic", "x2"),
        ("--profile", "meshinsight"),
        ("--prices", "prices.json"),
    ],
)
def test_what_cannot_be_combined_with_traces(admc: Admc, arguments: tuple[str, ...]) -> None:
    run = admc("overhead", "shop.adm", "--traces", "traces.json", *arguments)
    assert run.code == 1
    assert "error[ADM857]: `--traces` cannot be combined with `--" in run.err


def test_a_change_may_not_make_the_cpu_of_a_request_rise_with_the_rate(admc: Admc, folder: Path) -> None:
    """Then the coefficients of the solver would be no upper bound (ADM867)."""

    def rising(profile: Document) -> None:
        profile["hops"][0]["parts"][1]["cpu"]["base"] = curve((5.0, 0.0001), (1600.0, 0.1))

    (folder / "node.json").write_text(changed(rising))
    assert admc("overhead", "shop.adm").code == 0
    run = admc("overhead", "shop.adm", "--what-if", "user.cpu=-100%")
    assert run.code == 1
    assert "error[ADM867]: the profile cannot be changed by `user.cpu=-100%`: the CPU of a request" in run.err


def test_require_priced_holds_for_both_sides(admc: Admc) -> None:
    assert admc("overhead", "shop.adm", "--require-priced").code == 0
    assert admc("overhead", "shop.adm", "--require-priced", "--what-if", "user.cpu=-5%").code == 0
    assert admc("overhead", "shop.adm", "--require-priced", "--profile", "meshinsight").code == 4


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("what-if", ("--what-if", "ipc.latency=-50%", "--what-if", "ipc.cpu=-50%")),
        ("other-profile", ("--profile", "flatproxy")),
        ("traffic", ("--traffic", "x1000", "--replan")),
    ],
)
def test_output(admc: Admc, hotel: Path, name: str, arguments: tuple[str, ...]) -> None:
    run = admc("overhead", "hotel.adm", *arguments)
    assert (run.code, run.err) == (0, "")
    compare(f"overhead-{name}.text", run.out)
