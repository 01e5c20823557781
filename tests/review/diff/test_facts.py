"""`admc diff --facts`: programs are compared as a server of the cluster with these facts serves them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from admc.compile.facts import ServiceFacts, to_json
from tests.cli.command import Admc
from tests.review.diff.harness import MAIN, GitRepository, write

FACTS = "facts.json"
GUARDED = """app shop
service web, log { http 80 }
service search { http 8082 }
service rate { http 9000 }
call web -> search
call search -> rate, log
policy who = allow(callers: [search]) on search -> rate
policy tag = set_request_header(name: "x-from", value: "web") on web -> search
policy wait = timeout(after: 1s) on web -> search
policy slow = timeout(after: 1s) on search -> log
"""
"""`search` and `web` have an ADM in any case, and `who` is at `search` unless that is untrusted."""


@pytest.fixture
def admc(capfd: pytest.CaptureFixture[str]) -> Admc:
    return Admc(capfd)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitRepository:
    found = GitRepository(tmp_path / "repository")
    monkeypatch.chdir(found.folder)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    facts = {"search": ServiceFacts(untrusted="container `app` has NET_ADMIN")}
    (found.folder / FACTS).write_bytes(to_json(facts))
    return found


def compared(admc: Admc, *options: str) -> dict[str, Any]:
    done = admc("diff", "main", MAIN, "--format", "json", *options)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_plans_that_were_made_with_facts_are_taken(repository: GitRepository, admc: Admc) -> None:
    write(repository.folder, {MAIN: GUARDED})
    assert admc("compile", MAIN, "--facts", FACTS).code == 0
    repository.commit({MAIN: GUARDED})
    with_facts = compared(admc, "--facts", FACTS)
    assert [with_facts[side]["how"] for side in ("base", "head")] == ["beside", "beside"]
    without = compared(admc)
    assert without["head"]["how"] == "compiled"
    assert "made with facts of a cluster" in without["head"]["why"]
    # The saved difference has no sides to be taken again.
    admc("diff", "main", MAIN, "--format", "json", "-o", "saved.json")
    assert "ADM801" in admc("diff", "saved.json", "--facts", FACTS).err
    # What was read is not overwritten.
    assert admc("diff", "main", MAIN, "--facts", FACTS, "-o", FACTS).code == 1


def test_causes_rest_on_the_facts(repository: GitRepository, admc: Admc) -> None:
    """`who` is at `rate` because of the fact, and so is `more`. It is the end of `who` that moves `more`."""
    base = GUARDED + 'policy more = set_request_header(name: "x-more", value: "1") on search -> rate\n'
    repository.commit({MAIN: base})
    head = base.replace("policy who = allow(callers: [search]) on search -> rate\n", "")
    write(repository.folder, {MAIN: head.replace('value: "web"', 'value: "front"')})
    (move,) = compared(admc, "--facts", FACTS)["moves"]
    assert move["policy"] == "more", move
    assert "`who`" in move["cause"]["text"], move
    assert "`tag`" not in move["cause"]["text"], move
