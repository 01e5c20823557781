"""`admc profile`: its output as text and JSON, and its exit codes.

After a wanted change `ADMC_SNAPSHOTS=1 python -m pytest tests/cost/test_commands.py` writes the snapshots anew;
review the difference.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from tests.cli.command import Admc
from tests.cost import pickles
from tests.cost.documents import changed
from tests.cost.test_fit import ABOUT, table

SNAPSHOTS = Path(__file__).with_name("snapshots")

COMMANDS = {
    "list": ("list",),
    "show": ("show", "node.json"),
    "show-built-in": ("show", "meshinsight"),
    "show-latency-only": ("show", "flatproxy"),
    "validate": ("validate", "node.json", "meshinsight"),
    "diff": ("diff", "node.json", "other.json"),
    "diff-other-parts": ("diff", "flatproxy", "flatproxy_envoy"),
    "diff-other-platforms": ("diff", "meshinsight", "node.json"),
    "import": ("import", "profile.pkl", "--name", "lab"),
    "import-to-a-file": ("import", "profile.pkl", "--name", "lab", "-o", "lab.json"),
    "import-hostile": ("import", "hostile.pkl"),
    "fit": ("fit", "runs.csv", *ABOUT),
    "fit-to-a-file": ("fit", "runs.csv", *ABOUT, "-o", "fitted.json"),
    "fit-wrong": ("fit", "wrong.csv", *ABOUT),
    "wrong": ("validate", "node.json", "wrong.json"),
    "unknown": ("show", "meshinsigth"),
}
WRONG = ("wrong", "unknown", "import-hostile", "fit-wrong")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "node.json").write_text(changed(lambda _: None))
    (tmp_path / "wrong.json").write_text(changed(lambda document: document["hops"][0].update(protocol="htpp")))

    lines = {"http": {**pickles.LATENCIES["http"], "write_reg": (1.0, math.nan)}}
    content = pickles.profile(latency=pickles.regressions(lines), cpu=pickles.regressions(lines))
    (tmp_path / "profile.pkl").write_bytes(content)
    (tmp_path / "hostile.pkl").write_bytes(b"cos\nsystem\n.")
    (tmp_path / "runs.csv").write_text(table(turns=5, noise=0.05))
    (tmp_path / "wrong.csv").write_text(table(turns=1).replace("hop,http", "hop,htpp", 1))

    def other(document: dict[str, object]) -> None:
        document["name"] = "other"
        hops = document["hops"]
        assert isinstance(hops, list)
        del hops[0]["parts"][1]
        for knot in hops[0]["parts"][0]["latency"]["base"]:
            knot.update(value=knot["value"] * 2, interval=None)

    (tmp_path / "other.json").write_text(changed(other))
    return tmp_path


def compare(name: str, text: str) -> None:
    path = SNAPSHOTS / name
    if os.environ.get("ADMC_SNAPSHOTS") == "1":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("format_", ["text", "json"])
@pytest.mark.parametrize("name", COMMANDS)
def test_output(admc: Admc, name: str, format_: str) -> None:
    run = admc("profile", *COMMANDS[name], "--format", format_)
    assert run.code == (1 if name in WRONG else 0)
    if format_ == "json":
        json.loads(run.out)
        assert run.err == ""
    compare(f"{name}.{format_}", run.out + run.err)


def test_a_shown_profile_is_a_profile(admc: Admc, folder: Path) -> None:
    (folder / "copy.json").write_text(admc("profile", "show", "meshinsight", "--format", "json").out)
    assert admc("profile", "validate", "copy.json").code == 0
    compared = json.loads(admc("profile", "diff", "copy.json", "meshinsight", "--format", "json").out)
    assert all(row["one"] == row["other"] for row in compared["rows"])


def test_a_file_named_like_a_built_in_profile_is_the_file(admc: Admc, folder: Path) -> None:
    (folder / "flatproxy").write_text(changed(lambda _: None))
    assert admc("profile", "show", "flatproxy").out.startswith("profile      node\n")


@pytest.mark.parametrize("arguments", [(), ("shwo",), ("show",), ("diff", "meshinsight"), ("show", "absent.json")])
def test_wrong_usage_exits_1(admc: Admc, arguments: tuple[str, ...]) -> None:
    run = admc("profile", *arguments)
    assert run.code == 1
    assert run.err.startswith("error[ADM80")
    assert "Traceback" not in run.err


def test_bytes_that_are_no_text(admc: Admc, folder: Path) -> None:
    (folder / "binary.json").write_bytes(b"\xff\x00")
    run = admc("profile", "validate", "binary.json")
    assert run.code == 1
    assert "ADM502" in run.err


def test_a_file_that_is_too_large(admc: Admc, folder: Path) -> None:
    (folder / "large.json").write_bytes(b" " * 5_000_000)
    run = admc("profile", "validate", "large.json")
    assert run.code == 1
    assert "ADM802" in run.err


def test_an_unknown_name_on_the_command_line_says_how_a_file_is_named(admc: Admc) -> None:
    run = admc("profile", "show", "nosuch")
    assert run.code == 1
    assert "a file has a name that ends with `.json`" in run.err
    assert "in quotes" not in run.err
