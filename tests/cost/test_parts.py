"""Parts of the CPU of a hop, by sampled stacks: known shares come back, and parts add up to the whole to the last
digit, in a profile, in an estimate, and after a change."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from admc.cost.model.estimate import estimate
from admc.cost.model.layout import of_placement
from admc.cost.profile_import.fit import Fitted, fit
from admc.cost.profile_import.runs import COLUMNS, PARTS, read_runs
from admc.cost.profiles.diff import difference
from admc.cost.profiles.profile import (
    ComponentCost,
    Figure,
    HopCost,
    Knot,
    Law,
    Part,
    Platform,
    Profile,
    Proxy,
    Sizes,
)
from admc.cost.profiles.read import read_profile
from admc.cost.profiles.write import to_json
from dsl import load_text
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.program import Protocol
from dsl.text import SourceText
from solver.place import place
from tests.cli.command import Admc
from tests.cost.test_fit import line

RATES = (5, 100, 1600)
SIZES = (100, 4000, 16000)
SECONDS = {5: Fraction("0.00144"), 100: Fraction("0.00064"), 1600: Fraction("0.00022")}
PER_BYTE = Fraction(1, 10**9)
IDLE = Fraction(1, 1000)
SMALL = {"ipc": 20, "read": 10, "write": 30, "notification": 5, "kernel": 5, "user": 30}
GROWN = {"ipc": 10, "read": 40, "write": 40, "notification": 0, "kernel": 0, "user": 10}
"""Per cent of a request, and of a byte."""
OF_IDLE = {"notification": 60, "kernel": 20, "user": 20}


def text(
    turns: int = 9,
    noise: float = 0.0,
    sampled: Callable[[int, int, int], bool] = lambda turn, rate, size: size != SIZES[1],
    names: Sequence[str] = tuple(PARTS),
    slowed: Fraction = Fraction(13, 10),
    small: Mapping[int, Mapping[str, int]] = {},
) -> str:
    """Sampled slices take more CPU than others, by `slowed`: what they show is a proportion."""
    draw = random.Random(3)  # noqa: S311
    lines = [",".join(COLUMNS)]

    def shaken(value: Fraction) -> str:
        return f"{float(value) * (1 + draw.gauss(0, noise)):.9f}"

    for turn in range(turns):
        lines.append(line(turn, "idle", cpu_cores=f"{float(IDLE):.9f}"))
        for name in names:
            cores = IDLE * OF_IDLE.get(name, 0) / 100
            lines.append(line(turn, f"part:{name}", cpu_cores=f"{float(cores):.9f}").replace("http", ""))
        for rate in RATES:
            for size in SIZES:
                base, bytes_ = SECONDS[rate] * rate, PER_BYTE * (size - 100) * rate
                lines.append(line(turn, "none", rate, size, latency_us=100))
                lines.append(line(turn, "hop", rate, size, latency_us=300, cpu_cores=shaken(IDLE + base + bytes_)))
                for name in names if sampled(turn, rate, size) else ():
                    own = (base * small.get(rate, SMALL)[name] + bytes_ * GROWN[name]) / 100 * slowed
                    cores = own + IDLE * OF_IDLE.get(name, 0) / 100
                    lines.append(line(turn, f"part:{name}", rate, size, cpu_cores=shaken(cores)))
    return "\n".join(lines) + "\n"


def made(table: str) -> Fitted:
    diagnostics = Diagnostics()
    runs = read_runs(SourceText("runs.csv", table), diagnostics)
    assert runs is not None, diagnostics.items
    return fit(runs, "node", Platform("a", "b"), Proxy("envoy", "1.40"), Decimal("0.7"))


@pytest.fixture(scope="module")
def profile() -> Profile:
    found = made(text(noise=0.02)).profile
    read = read_profile(SourceText("node.json", to_json(found)), Diagnostics())
    assert read is not None
    return read


def parts(profile: Profile) -> Mapping[str, Part]:
    (hop,) = profile.hops
    return {part.name: part for part in hop.parts}


def cpu(part: Part) -> Law:
    assert part.cpu is not None
    return part.cpu


# ---- the split ----


def test_known_shares_come_back() -> None:
    found = parts(made(text()).profile)
    assert list(found) == ["whole", *PARTS]
    for name in PARTS:
        law = cpu(found[name])
        for knot, whole in zip(law.base, cpu(found["whole"]).base, strict=True):
            assert float(knot.figure.value / whole.figure.value) == pytest.approx(SMALL[name] / 100, abs=1e-4)
        for knot, whole in zip(law.per_byte or (), cpu(found["whole"]).per_byte or (), strict=True):
            assert float(knot.figure.value / whole.figure.value) == pytest.approx(GROWN[name] / 100, abs=1e-3)


def test_shares_may_differ_by_rate() -> None:
    """A proxy that wakes up cold waits more often: all parts of a request fall with the rate, some more than others."""
    slow = {"ipc": 10, "read": 5, "write": 15, "notification": 30, "kernel": 20, "user": 20}
    found = parts(made(text(small={RATES[0]: slow})).profile)
    for name in PARTS:
        for rate, knot, whole in zip(RATES, cpu(found[name]).base, cpu(found["whole"]).base, strict=True):
            expected = slow[name] if rate == RATES[0] else SMALL[name]
            assert float(knot.figure.value / whole.figure.value) == pytest.approx(expected / 100, abs=1e-4)


def test_parts_add_up_to_the_whole_to_the_last_digit(profile: Profile) -> None:
    found = parts(profile)
    for of in (lambda law: law.base, lambda law: law.per_byte):
        rows = zip(*(of(cpu(found[name])) for name in PARTS), strict=True)
        for whole, row in zip(of(cpu(found["whole"])), rows, strict=True):
            assert sum(knot.figure.value for knot in row) == whole.figure.value
            assert {knot.rate for knot in row} == {whole.rate}


def test_no_part_of_a_request_rises_with_the_rate() -> None:
    """So `--what-if` may change one part alone: the sum does not rise either."""
    found = parts(made(text(noise=0.15)).profile)
    for name in PARTS:
        for curve in (cpu(found[name]).base, cpu(found[name]).per_byte or ()):
            each = [Fraction(knot.figure.value) / Fraction(knot.rate or 1) for knot in curve]
            assert each == sorted(each, reverse=True)
            assert len(each) == len(RATES)


def test_the_whole_is_what_it_would_be_without_parts(profile: Profile) -> None:
    lines = text(noise=0.02).splitlines()
    without = made("\n".join(each for each in lines if ",part:" not in each) + "\n").profile
    (hop,) = without.hops
    assert hop.parts == (parts(made(text(noise=0.02)).profile)["whole"],)


def test_latency_is_not_split(profile: Profile) -> None:
    found = parts(profile)
    assert found["whole"].latency is not None
    assert {found[name].latency for name in PARTS} == {None}


def test_an_interval_holds_the_share_and_is_wider_than_that_of_the_whole(profile: Profile) -> None:
    found = parts(profile)
    for name in PARTS:
        for knot, whole in zip(cpu(found[name]).base, cpu(found["whole"]).base, strict=True):
            figure, of = knot.figure, whole.figure
            assert figure.low is not None
            assert figure.high is not None
            assert of.low is not None
            assert of.high is not None
            assert figure.low <= figure.value <= figure.high
            assert (figure.high - figure.low) / figure.value >= (of.high - of.low) / of.value


def test_the_same_runs_give_the_same_profile() -> None:
    assert to_json(made(text(noise=0.1)).profile) == to_json(made(text(noise=0.1)).profile)


def test_few_turns_give_no_interval() -> None:
    found = parts(made(text(turns=4)).profile)
    assert all(knot.figure.low is None for name in PARTS for knot in cpu(found[name]).base)


def test_what_no_stack_has_seen_is_not_zero_for_sure() -> None:
    """A part at zero in all slices is zero, without an interval."""
    table = "\n".join(
        each.replace(each.split(",")[COLUMNS.index("cpu_cores")], "0") if ",part:read," in each else each
        for each in text().splitlines()
    )
    figures = [knot.figure for knot in cpu(parts(made(table + "\n").profile)["read"]).base]
    assert {(figure.value, figure.low, figure.high) for figure in figures} == {(0, None, None)}


@pytest.mark.parametrize(
    ("sampled", "said"),
    [
        (lambda turn, rate, size: rate != 100, "no stack was sampled at 100/s with messages of 100 bytes"),
        (lambda turn, rate, size: size != 100, "no stack was sampled at 5/s with messages of 100 bytes"),
        (lambda turn, rate, size: size == 100, "no stack was sampled at 5/s with larger messages than 100 bytes"),
    ],
)
def test_without_a_sample_at_each_rate_a_hop_stays_whole(sampled: Callable[[int, int, int], bool], said: str) -> None:
    found = made(text(sampled=sampled))
    assert [part.name for hop in found.profile.hops for part in hop.parts] == ["whole"]
    assert found.profile.parts == {"whole": "all parts together"}
    assert f"hop http: it has no parts, since {said}" in found.notes


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("1,part:reed,http,,,,5,100,,0.1,,", "there is no part `reed`"),
        ("1,part:read,http,,,,5,100,,,,", "a run of a part has its CPU"),
        ("1,part:read,http,egress,,,5,100,,0.1,,", "a part of a hop has CPU alone"),
        ("1,part:read,http,,,,5,100,7,0.1,,", "a part of a hop has CPU alone"),
        ("1,part:read,,,,,5,,,0.1,,", "an idle sidecar has no protocol"),
    ],
)
def test_a_wrong_run_of_a_part_has_its_line(cells: str, message: str) -> None:
    diagnostics = Diagnostics()
    assert read_runs(SourceText("runs.csv", text() + cells + "\n"), diagnostics) is None
    (item,) = diagnostics.items
    assert item.code == "ADM869"
    assert message in item.message
    assert item.span is not None


# ---- profiles with a whole and its parts ----


def _changed(profile: Profile, change: Callable[[dict[str, object]], object]) -> list[str]:
    document = json.loads(to_json(profile))
    change(document["hops"][0])
    diagnostics = Diagnostics()
    read_profile(SourceText("node.json", json.dumps(document)), diagnostics)
    return [item.message for item in diagnostics.items]


def test_a_profile_whose_parts_do_not_add_up_is_refused(profile: Profile) -> None:
    def more(hop: dict[str, object], at: int = 2) -> None:
        hop["parts"][at]["cpu"]["base"][0]["value"] += 1e-12  # type: ignore[index]

    def fewer(hop: dict[str, object]) -> None:
        del hop["parts"][3]  # type: ignore[attr-defined]

    def null(hop: dict[str, object]) -> None:
        hop["parts"][3]["cpu"] = None  # type: ignore[index]

    def other_rates(hop: dict[str, object]) -> None:
        del hop["parts"][3]["cpu"]["base"][1]  # type: ignore[index]

    def flat(hop: dict[str, object]) -> None:
        hop["parts"][3]["cpu"]["per_byte"] = None  # type: ignore[index]

    assert _changed(profile, lambda _: None) == []
    for change in (more, fewer, null, other_rates):
        assert _changed(profile, change) == ["the parts of the CPU of an http hop do not add up to its part `whole`"]
    assert _changed(profile, flat) == [
        "the parts of a byte in the CPU of an http hop do not add up to its part `whole`"
    ]


SHOP = """app shop

service web, api { http 8080 }
call web -> api { rate 20/s  size 3KB }

policy count = request_count() on web -> api
"""


NOTHING = (Knot(Decimal(1), Decimal(0), (Decimal(0), Decimal(0))),)
FREE = ComponentCost(
    "request_count",
    Protocol.HTTP,
    None,
    None,
    {},
    False,
    Sizes(Decimal(100), Decimal(16000), Decimal(100)),
    None,
    Law(NOTHING, NOTHING),
    Law(NOTHING, NOTHING),
    Figure(Decimal(0), None),
)


def _whole_alone(profile: Profile) -> Profile:
    (hop,) = profile.hops
    alone = HopCost(hop.protocol, hop.sizes, hop.runs, hop.parts[:1])
    return replace(profile, hops=(alone,), parts={"whole": "all parts together"})


def test_an_estimate_with_parts_is_that_of_the_whole(profile: Profile) -> None:
    program = load_text(SHOP)
    layout = of_placement(program, place(program))
    ours, alone = (estimate(program, layout, each) for each in (profile, _whole_alone(profile)))
    assert ours.totals == alone.totals
    assert ours.missing == alone.missing
    assert ours.extrapolated == alone.extrapolated
    (hop,), (other,) = ((hop for adm in found.adms for hop in adm.hops) for found in (ours, alone))
    assert (hop.base, hop.cpu, hop.latency) == (other.base, other.cpu, other.latency)
    assert hop.base is not None
    assert hop.base.low is not None
    cpus = {part.name: part.cpu for part in hop.parts}
    assert cpus["whole"] is None
    assert sum(each or 0 for each in cpus.values()) == hop.base.value
    assert all(cpus[name] for name in PARTS)
    assert {part.name for part in hop.parts if part.latency is not None} == {"whole"}


def test_a_difference_compares_totals_of_the_whole(profile: Profile) -> None:
    rows = difference(profile, _whole_alone(profile)).rows
    totals = [row for row in rows if row.subject == "hop http"]
    assert {row.quantity for row in totals} == {"latency", "cpu"}
    assert {row.ratio for row in totals} == {1}


def test_parts_of_equal_name_are_compared(profile: Profile) -> None:
    rows = difference(profile, profile).rows
    assert {row.subject for row in rows if row.subject.startswith("hop http:")} == {
        f"hop http: {name}" for name in ("whole", *PARTS)
    }


# ---- commands ----


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: Profile) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "node.json").write_text(to_json(profile))
    (tmp_path / "shop.adm").write_text(SHOP + 'profile "node.json"\n')
    return tmp_path


def test_show_prints_parts_and_their_total(admc: Admc, folder: Path, profile: Profile) -> None:
    done = admc("profile", "show", "node.json")
    assert (done.code, done.err) == (0, "")
    rows = [each.split() for each in done.out.splitlines()]
    at_five = [row for row in rows if len(row) > 2 and row[0] in (*PARTS, "total") and row[1] == "5"]
    assert [row[0] for row in at_five] == [*PARTS, "total"]
    assert all(row[2] == "-" for row in at_five[:-1])
    assert at_five[-1][2].startswith("200")
    assert not any(row[0] == "whole" for row in rows if len(row) > 1 and row[1] == "5")
    assert f"  ipc           {PARTS['ipc']}" in done.out


def test_fit_writes_parts_and_says_what_each_is(admc: Admc, folder: Path) -> None:
    (folder / "runs.csv").write_text(text())
    arguments = ("--name", "x", "--machine", "m", "--system", "s", "--proxy", "envoy 1.40", "-o", "x.json")
    assert admc("profile", "fit", "runs.csv", *arguments).code == 0
    assert list(json.loads((folder / "x.json").read_text())["parts"]) == ["whole", *PARTS]


def _nano_cores(admc: Admc, *arguments: str) -> tuple[int, int, Mapping[str, int]]:
    """Of the plan before and after a change, and of its parts after."""
    done = admc("overhead", "shop.adm", *arguments, "--format", "json")
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    before, after = document["before"], document["after"]
    found = {part["name"]: part["cpu"] for adm in after["adms"] for hop in adm["hops"] for part in hop["parts"]}
    return before["totals"]["plan"]["cpu"]["value"], after["totals"]["plan"]["cpu"]["value"], found


def test_a_change_of_a_part_is_one_of_the_whole(admc: Admc, folder: Path) -> None:
    _, half, of_half = _nano_cores(admc, "--what-if", "ipc.cpu=-50%")
    before, same, of_same = _nano_cores(admc, "--what-if", "ipc.cpu=x1")
    assert same == before
    assert abs(before - half - of_same["ipc"] / 2) <= 1
    assert abs(of_half["ipc"] - of_same["ipc"] / 2) <= 1
    assert abs(of_half["write"] - of_same["write"]) <= 1


def test_a_change_of_the_whole_is_one_of_all_parts(admc: Admc, folder: Path) -> None:
    before, after, found = _nano_cores(admc, "--what-if", "whole.cpu=-33.3%")
    assert after < before
    assert sum(found[name] for name in PARTS) == before - IDLE * 10**9 - (before - after)


def test_the_latency_of_a_part_was_not_measured(admc: Admc, folder: Path) -> None:
    done = admc("overhead", "shop.adm", "--what-if", "ipc.latency=-50%")
    assert done.code == 1
    assert "the profile `node` has no latency of `ipc`" in done.err
    assert "it has its `cpu`; latency was measured of all parts together: `whole.latency`" in done.err


def test_a_plan_has_the_parts_that_add_up(admc: Admc, folder: Path) -> None:
    assert admc("compile", "shop.adm", "-o", "plan.json").code == 0
    (adm,) = json.loads((folder / "plan.json").read_text())["adms"]
    assert [part["name"] for part in adm["overhead"]["parts"]] == list(PARTS)


def test_requests_have_the_interval_of_the_whole(admc: Admc, folder: Path, profile: Profile) -> None:
    request = "request look on internet -> web {\n  rate 20/s\n  call api\n}\n"
    found = []
    for each in (profile, _whole_alone(profile)):
        priced = replace(each, components=(FREE,))
        (folder / "node.json").write_text(to_json(priced))
        (folder / "asked.adm").write_text(
            SHOP + 'profile "node.json"\nexternal internet\ncall internet -> web { rate 20/s  size 3KB }\n' + request
        )
        done = admc("overhead", "asked.adm", "--format", "json")
        assert done.code == 0, done.err
        found.append(json.loads(done.out)["requests"])
    assert found[0] == found[1]
    assert found[0][0]["plan"]["cpu_of_request"]["interval"]


def test_protocols_are_split_apart() -> None:
    """A hop without samples stays whole beside one with them."""
    lines = text().splitlines()
    tcp = [each.replace(",http,", ",tcp,") for each in lines[1:] if ",part:" not in each and ",idle," not in each]
    found = made("\n".join([*lines, *tcp]) + "\n").profile
    assert {hop.protocol: len(hop.parts) for hop in found.hops} == {Protocol.HTTP: 1 + len(PARTS), Protocol.TCP: 1}
