"""`admc comment github`, in a process of its own, against the API on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from admc.review.comment.body import Run, body
from tests.review.comment.api import REPOSITORY, TOKEN, US, Api, served

BASE = """app shop
service web, cart { http 80 }
call web -> cart
policy quota = rate_limit(requests: 5, per: 1s) on * -> cart
"""
HEAD = BASE.replace("requests: 5", "requests: 50")
SHA = "5" * 40


async def admc(folder: Path, *arguments: str, **variables: str) -> tuple[int, str, str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "."), **variables}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "admc",
        *arguments,
        cwd=folder,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@pytest.fixture(scope="module")
def diffs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the differences of two programs: one changes, one does not."""
    folder = tmp_path_factory.mktemp("diffs")
    (folder / "base.adm").write_text(BASE, "utf-8")
    (folder / "head.adm").write_text(HEAD, "utf-8")
    for name, head in (("changed", "head.adm"), ("same", "base.adm")):
        asked = ("diff", "base.adm", head, "--format", "json", "-o", f"{name}.json")
        code, _, err = asyncio.run(admc(folder, *asked))
        assert code == 0, err
    return folder


def variables(api: Api, **others: str) -> dict[str, str]:
    return {
        "GITHUB_API_URL": api.url,
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_RUN_ID": "500",
        "GITHUB_RUN_ATTEMPT": "2",
        **others,
    }


@pytest.mark.long
async def test_one_comment_for_all_programs(diffs: Path) -> None:
    async with served(Api()) as api:
        run = await admc(diffs, "comment", "github", "changed.json", "same.json", "--pull", "7", **variables(api))
        assert run == (0, "wrote the comment: https://example.test/1000\n", "")
        (text,) = api.bodies()
        assert text.startswith("<!-- admc diff: admc -->\n<!-- admc run 500.2 ")
        assert text.count("**`shop`: ") == 2
        again = await admc(
            diffs,
            "comment",
            "github",
            "changed.json",
            "same.json",
            "--pull",
            "7",
            "--format",
            "json",
            "--quiet-if-same",
            **variables(api, GITHUB_RUN_ID="501"),
        )
        assert again[0] == 0, again[2]
        assert json.loads(again[1]) == {"action": "same", "url": "https://example.test/1000", "others": 0}
        assert api.bodies() == [text]


async def test_the_pull_request_is_found_by_its_newest_commit(diffs: Path) -> None:
    async with served(Api(pulls=[{"number": 7, "head": {"sha": SHA}}])) as api:
        asked = ("comment", "github", "changed.json", "--run", "3", "--commit")
        run = await admc(diffs, *asked, SHA, **variables(api))
        assert run[0] == 0, run[2]
        assert len(api.bodies()) == 1
        other = await admc(diffs, *asked, "6" * 40, **variables(api))
        assert other[:2] == (0, f"nothing was written: no open pull request has {'6' * 40} as its newest commit\n")
        assert len(api.writes) == 1


async def test_an_older_run_writes_nothing(diffs: Path) -> None:
    api = Api()
    api.add(US, body("admc", Run(501, 1), "newer"))
    async with served(api):
        run = await admc(diffs, "comment", "github", "changed.json", "--pull", "7", **variables(api))
        assert run[:2] == (0, "nothing was written: the comment is of a newer run: https://example.test/1000\n")
        assert api.writes == []


async def test_nothing_is_said_of_a_change_of_nothing(diffs: Path) -> None:
    async with served(Api()) as api:
        asked = ("comment", "github", "same.json", "--pull", "7", "--quiet-if-same")
        run = await admc(diffs, *asked, **variables(api))
        assert run[0] == 0
        assert api.bodies() == []


@pytest.mark.parametrize(
    ("arguments", "changed", "code", "part"),
    [
        (["changed.json"], {}, "ADM801", "--pull"),
        (["changed.json", "--pull", "7", "--commit", SHA], {}, "ADM801", "--commit"),
        (["changed.json", "--commit", "main"], {}, "ADM801", "40 or 64"),
        (["changed.json", "--pull", "7", "--tag", "a --> b"], {}, "ADM801", "letters"),
        (["changed.json", "--pull", "7", "--run", "newest"], {}, "ADM801", "--run"),
        (["changed.json", "--pull", "7"], {"GITHUB_RUN_ID": ""}, "ADM801", "--run"),
        (["changed.json", "--pull", "7"], {"GITHUB_REPOSITORY": ""}, "ADM801", "--repository"),
        (["changed.json", "--pull", "7"], {"GITHUB_TOKEN": ""}, "ADM877", "GITHUB_TOKEN"),
        (["changed.json", "--pull", "7"], {"GITHUB_TOKEN": "wrong"}, "ADM878", "pull-requests: write"),
        (["base.adm", "--pull", "7"], {}, "ADM839", "admc diff"),
        (["none.json", "--pull", "7"], {}, "ADM802", "none.json"),
    ],
)
async def test_wrong_settings(diffs: Path, arguments: list[str], changed: dict[str, str], code: str, part: str) -> None:
    async with served(Api()) as api:
        run = await admc(diffs, "comment", "github", *arguments, **variables(api, **changed))
        assert run[:2] == (1, "")
        assert f"[{code}]" in run[2]
        assert part in run[2]
        assert TOKEN not in run[2]
        assert api.bodies() == []
