"""A change that moves files, apps or services meets the gates of BASE all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from admc.base.exits import CommandError
from admc.compile.plan.to_json import to_json
from admc.review.diff.model import Diff, How, Verdict
from admc.review.diff.sides import predecessors
from tests.review.diff.harness import GitRepository, diff, write

SHOP = """app shop
service web, cart { http 80 }
call web -> cart
policy quota = rate_limit(requests: 5, per: 1s) on * -> cart
"""
WEAKER = SHOP.replace("requests: 5", "requests: 50")
SAFE = "gate safe = fail when weaker\n"
LOOSE = "gate safe = warn when weaker\n"
OTHER = "app admin\nservice desk, log { http 80 }\ncall desk -> log\npolicy cap = rate_limit(7, 1s) on desk -> log\n"
NEW = OTHER.replace("app admin", "app new")
BASE = {"shop.adm": SHOP, "shop.gates.adm": SAFE}


def changed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    base: dict[str, str],
    head: dict[str, str],
    program: str,
    *,
    on_disk: bool = False,
) -> Diff:
    """The difference of `program`: HEAD has the files `head`, and none of `base`."""
    repository = GitRepository(tmp_path / "repository")
    repository.commit(base)
    for name in base:
        (repository.folder / name).unlink()
    monkeypatch.chdir(repository.folder)
    if on_disk:
        write(repository.folder, head)
        return diff("main", program)
    repository.commit(head)
    return diff("HEAD^1", f"HEAD:{program}")


def breached(found: Diff) -> list[str]:
    return [gate.line.path for gate in found.gates if gate.fails and gate.verdict is Verdict.BREACHED]


RENAMED: dict[str, dict[str, str]] = {
    "with its gates": {"store.adm": WEAKER, "store.gates.adm": LOOSE},
    "and its gates go": {"store.adm": WEAKER},
    "into another folder": {"apps/shop.adm": WEAKER, "apps/shop.gates.adm": LOOSE},
    "in case": {"Shop.adm": WEAKER},
    "without an ending": {"shop": WEAKER},
    "into a plan": {"shop.plan.json": ""},
    "while the old one stays": {**BASE, "store.adm": WEAKER},
    "while the old one is another app": {"shop.adm": OTHER, "store.adm": WEAKER},
    "with its app": {"store.adm": WEAKER.replace("app shop", "app store")},
    "with its app, in its place": {"shop.adm": WEAKER.replace("app shop", "app store")},
    "with its app, while an empty one stays": {
        "shop.adm": "app shop\nservice x { http 80 }\n",
        "store.adm": WEAKER.replace("app shop", "app store"),
    },
    "with its app, while a broken one stays": {
        "shop.adm": "app shop\nservice\n",
        "store.adm": WEAKER.replace("app shop", "app store"),
    },
    "and split": {
        "shop.adm": 'app shop\nservice web { http 80 }\nexternal cart { http 80 host "cart" }\ncall web -> cart\n',
        "cart.adm": WEAKER.replace("app shop", "app cart").replace("service web, cart", "external web\nservice cart"),
    },
}
PROGRAM_OF = {"and split": "cart.adm"}


@pytest.mark.parametrize("on_disk", [False, True], ids=["commit", "disk"])
@pytest.mark.parametrize("way", RENAMED)
def test_gates_follow_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, *, on_disk: bool) -> None:
    head = dict(RENAMED[way])
    program = PROGRAM_OF.get(way) or next(
        name for name, text in head.items() if text == WEAKER or "app store" in text or not text
    )
    if way == "into a plan":
        head[program] = plan_of(tmp_path, WEAKER)
    found = changed(tmp_path, monkeypatch, BASE, head, program, on_disk=on_disk)
    assert breached(found) == ["shop.gates.adm"]
    assert found.base.how is How.COMPILED
    assert found.base.path == "shop.adm"
    assert found.base.path == program or found.notes[0].startswith("compared with `shop.adm`, ")


def plan_of(tmp_path: Path, text: str) -> str:
    from admc.compile.pipeline import compile_program

    write(tmp_path / "elsewhere", {"shop.adm": text})
    return to_json(compile_program(tmp_path / "elsewhere" / "shop.adm").plan).decode()


SWAPS: dict[str, tuple[dict[str, str], str]] = {
    "two programs swap their paths": ({"admin.adm": WEAKER, "shop.adm": OTHER}, "admin.adm"),
    "another program takes the app over": ({"admin.adm": WEAKER}, "admin.adm"),
    "another program takes the services over": (
        {"admin.adm": OTHER + WEAKER.removeprefix("app shop\n"), "shop.adm": "app shop\n"},
        "admin.adm",
    ),
    "another program takes services over, and the old one goes": (
        {"admin.adm": OTHER + WEAKER.removeprefix("app shop\n")},
        "admin.adm",
    ),
    "another program takes services over, with a third app": (
        {"admin.adm": WEAKER.replace("app shop", "app third")},
        "admin.adm",
    ),
    "another program with errors in BASE": ({"broken.adm": WEAKER}, "broken.adm"),
    "another program with errors in BASE, and a third app": (
        {"broken.adm": WEAKER.replace("app shop", "app third")},
        "broken.adm",
    ),
}


@pytest.mark.parametrize("way", SWAPS)
def test_gates_hold_where_another_program_continues_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    head, program = SWAPS[way]
    base = {**BASE, "admin.adm": OTHER, "broken.adm": "app broken\nservice\n"}
    found = changed(tmp_path, monkeypatch, base, head, program)
    assert breached(found) == ["shop.gates.adm"], found.notes
    assert any("`shop.adm`" in note for note in found.notes)


def test_gates_of_each_program_of_the_app_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = {**BASE, "eu/shop.adm": WEAKER, "eu/shop.gates.adm": "gate few = fail when adms > +0\n"}
    found = changed(tmp_path, monkeypatch, base, {**base, "us/shop.adm": WEAKER}, "us/shop.adm")
    assert [(gate.name, gate.verdict.value, gate.line.path) for gate in found.gates] == [
        ("few", "passed", "shop.gates.adm"),
        ("safe", "breached", "../shop.gates.adm"),
    ]
    assert found.notes == (
        "compared with `eu/shop.adm`, BASE's program of the app `shop`",
        "the gates of `shop.adm` in BASE, BASE's program of the app `shop`, hold, too",
        "the gate `few` no longer holds from the merge on, since HEAD lacks it: `fail when adms > +0`",
    )


def test_a_breach_of_a_further_program_can_be_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from admc.review.diff.compare import compared, fails
    from admc.review.diff.sides.take import Options, sides

    base = {**BASE, "admin.adm": OTHER}
    assert fails(changed(tmp_path, monkeypatch, base, {"admin.adm": WEAKER.replace("app shop", "app x")}, "admin.adm"))
    found = compared(*sides("HEAD^1", "HEAD:admin.adm", Options()), {"safe": "planned"}, causes=False, effort=None)
    assert not fails(found)


UNTOUCHED: dict[str, tuple[dict[str, str], str]] = {
    "a new program": ({**BASE, "new.adm": NEW}, "new.adm"),
    "a new program with a service of the same name": ({**BASE, "new.adm": NEW.replace("desk", "web")}, "new.adm"),
    "a copy of a program without gates": ({**BASE, "new.adm": OTHER}, "new.adm"),
    "a program that has errors in HEAD": ({"shop.adm": "app shop\nservice\n", "new.adm": NEW}, "new.adm"),
}


@pytest.mark.parametrize("way", UNTOUCHED)
def test_what_continues_no_program_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    head, program = UNTOUCHED[way]
    found = changed(tmp_path, monkeypatch, {**BASE, "admin.adm": OTHER}, {"admin.adm": OTHER, **head}, program)
    assert found.base.how is How.NOTHING
    assert found.notes == ("BASE has no such program: all of it is new",)


def test_a_path_of_base_that_is_written_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = {**BASE, "admin.adm": OTHER}
    changed(tmp_path, monkeypatch, base, {"store.adm": WEAKER, "admin.adm": OTHER}, "store.adm")
    found = diff("HEAD^1:admin.adm", "HEAD:store.adm")
    assert (found.base.path, found.gates) == ("admin.adm", ())


def test_too_many_programs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predecessors, "MAX_CONTINUED", 1)
    base = {**BASE, "eu/shop.adm": SHOP}
    with pytest.raises(CommandError) as caught:
        changed(tmp_path, monkeypatch, base, {"store.adm": WEAKER}, "store.adm")
    assert caught.value.diagnostics[0].code == "ADM838"
    monkeypatch.setattr(predecessors, "MAX_FILES", 2)
    with pytest.raises(CommandError) as caught:
        diff("HEAD^1", "HEAD:store.adm")
    assert "files that end in `.adm`" in str(caught.value.diagnostics[0].cause)


def test_gates_of_a_program_whose_name_has_no_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = {"shop": SHOP, "shop.gates.adm": SAFE}
    found = changed(tmp_path, monkeypatch, base, {"store.adm": WEAKER.replace("app shop", "app store")}, "store.adm")
    assert breached(found) == ["shop.gates.adm"]


def test_what_a_partial_clone_lacks_is_no_program_that_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = GitRepository(tmp_path / "repository")
    repository.commit(BASE)
    repository.git("config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    repository.git("clone", "--quiet", "--filter=blob:none", "--no-checkout", f"file://{repository.folder}", str(clone))
    monkeypatch.chdir(clone)
    write(clone, {"store.adm": WEAKER})
    with pytest.raises(CommandError) as caught:
        diff("main", "store.adm")
    assert caught.value.diagnostics[0].code == "ADM837"
