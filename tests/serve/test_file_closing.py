"""A server that follows files cannot see NetworkPolicies: it writes them, and waits for a confirmation by digest."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pytest
import yaml

from admc.base.exits import CommandError
from admc.serve.files.closing import Closing
from admc.serve.publication.closing import destinations
from admc.serve.rollout.model import Placed
from dsl import load_text
from emitters.envoy import Mode
from solver.place import place
from tests.serve.always_ack import Agreeing, at, begun, close_all, following, hasten, planned_by

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from admc.serve.publication.plans import Planned

PROGRAM = """\
app shop
STATEMENT
service web  { http 8080 }
service api  { http 8082 }
service cart { http 8081 -> 9081 }
call web -> cart
policy g = allow(callers: [web, api]) on * -> cart
pin g at PLACE
"""
SAID = "network_policies enforced"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    hasten(monkeypatch)
    yield
    close_all()


def text(where: str, statement: str = SAID) -> str:
    return PROGRAM.replace("PLACE", where).replace("STATEMENT", statement)


def planned(folder: Path, where: str, statement: str = SAID) -> Planned:
    return planned_by(folder / f"{where}.adm", text(where, statement), Mode.EXPLICIT)


def placed(program_text: str) -> Placed:
    program = load_text(program_text)
    return Placed(program, place(program))


def asked(folder: Path, *texts: str) -> Closing:
    closing = Closing(folder)
    closing.ask(destinations([placed(each) for each in texts]))
    closing.refresh()
    return closing


def confirm(folder: Path) -> None:
    """As an operator does it, who has applied the object."""
    own = folder / "network-policies" / "cart"
    (own / "applied").write_text((own / "digest").read_text())


def test_it_writes_the_object_of_both_plans_and_waits_for_its_digest(tmp_path: Path) -> None:
    closing = asked(tmp_path, text("network"), text("network").replace("[web, api]", "[web]"))
    own = tmp_path / "network-policies" / "cart"
    (policy,) = yaml.safe_load_all((own / "network-policy.yaml").read_text())
    assert policy["metadata"]["name"] == "admc-close-cart"
    assert policy["metadata"]["annotations"]["admc/admits"] == "web"
    assert closing.missing(["cart"]) == ("cart",)
    assert closing.text == (
        "the NetworkPolicy is not confirmed at `cart`: without it no policy is met that relies on it; apply "
        f"`{own / 'network-policy.yaml'}` and write `applied` there"
    )
    (own / "applied").write_text("another digest")
    closing.refresh()
    assert closing.missing(["cart"]) == ("cart",)
    confirm(tmp_path)
    closing.refresh()
    assert closing.missing(["cart"]) == ()
    assert closing.text == ""


def test_another_object_has_to_be_confirmed_anew_even_if_an_earlier_one_returns(tmp_path: Path) -> None:
    closing = asked(tmp_path, text("network"))
    confirm(tmp_path)
    closing.refresh()
    first = destinations([placed(text("network"))])
    other = destinations([placed(text("network").replace("[web, api]", "[web]"))])
    for wanted in (other, first):
        closing.ask(wanted)
        assert closing.missing(["cart"]) == ("cart",)  # before the files are written, too
        closing.refresh()
        assert closing.missing(["cart"]) == ("cart",)
        confirm(tmp_path)
        closing.refresh()
        assert closing.missing(["cart"]) == ()


def test_a_restarted_server_reads_the_confirmation_of_the_same_object(tmp_path: Path) -> None:
    asked(tmp_path, text("network"))
    confirm(tmp_path)
    assert asked(tmp_path, text("network")).missing(["cart"]) == ()
    assert asked(tmp_path, text("network").replace("[web, api]", "[web]")).missing(["cart"]) == ("cart",)


def test_a_changed_file_is_written_again_and_its_confirmation_does_not_count(tmp_path: Path) -> None:
    asked(tmp_path, text("network"))
    confirm(tmp_path)
    (tmp_path / "network-policies" / "cart" / "network-policy.yaml").write_text("kind: NetworkPolicy\n")
    assert asked(tmp_path, text("network")).missing(["cart"]) == ("cart",)


def test_files_that_are_removed_are_written_again_and_a_confirmation_can_be_withdrawn(tmp_path: Path) -> None:
    closing = asked(tmp_path, text("network"))
    own = tmp_path / "network-policies" / "cart"
    confirm(tmp_path)
    closing.refresh()
    assert closing.missing(["cart"]) == ()
    (own / "applied").unlink()
    closing.refresh()
    assert closing.missing(["cart"]) == ("cart",)
    confirm(tmp_path)
    shutil.rmtree(tmp_path / "network-policies")
    closing.refresh()
    assert (own / "network-policy.yaml").exists()
    assert closing.missing(["cart"]) == ("cart",)


def test_what_cannot_be_a_confirmation_confirms_nothing(tmp_path: Path) -> None:
    closing = asked(tmp_path, text("network"))
    own = tmp_path / "network-policies" / "cart"
    digest = (own / "digest").read_text()
    for content in (b"", digest.encode("utf-16"), digest.encode() + b" " * 2000):
        (own / "applied").write_bytes(content)
        closing.refresh()
        assert closing.missing(["cart"]) == ("cart",)
    (own / "applied").unlink()
    (own / "applied").mkdir()
    closing.refresh()
    assert closing.missing(["cart"]) == ("cart",)


def test_a_link_in_the_folder_is_left_alone(tmp_path: Path) -> None:
    closing = asked(tmp_path, text("network"))
    other = tmp_path / "other"
    other.mkdir()
    (other / "digest").write_text("of another program")
    (tmp_path / "network-policies" / "link").symlink_to(other)
    closing.ask({})
    closing.refresh()
    assert (other / "digest").exists()


def test_the_state_folder_is_not_made_here(tmp_path: Path) -> None:
    closing = Closing(tmp_path / "state")
    closing.ask(destinations([placed(text("network"))]))
    with pytest.raises(CommandError):
        closing.refresh()
    assert not (tmp_path / "state").exists()


def test_one_plan_that_says_so_is_enough(tmp_path: Path) -> None:
    for texts in ((text("network"), text("egress", "")), (text("egress", ""), text("network"))):
        assert asked(tmp_path, *texts).missing(["cart"]) == ("cart",)


def test_files_of_a_destination_that_opens_are_removed(tmp_path: Path) -> None:
    closing = asked(tmp_path, text("network"))
    confirm(tmp_path)
    (tmp_path / "network-policies" / "notes").mkdir()
    closing.ask(destinations([placed(text("ingress"))]))
    closing.refresh()
    assert not list((tmp_path / "network-policies" / "cart").iterdir())
    assert (tmp_path / "network-policies" / "notes").is_dir()


def test_without_the_statement_no_rollout_waits_and_the_files_are_there(tmp_path: Path) -> None:
    closing = asked(tmp_path, text("egress", ""))
    assert closing.missing(["cart"]) == ()
    assert closing.text == ""
    assert (tmp_path / "network-policies" / "cart" / "network-policy.yaml").exists()


def test_without_a_folder_nothing_is_confirmed_and_on_one_machine_nothing_is_needed() -> None:
    wanted = destinations([placed(text("network"))])
    for closing, missing in ((Closing(None), ("cart",)), (Closing(None, explicit=True), ())):
        closing.ask(wanted)
        closing.refresh()
        assert closing.missing(["cart"]) == missing
        assert closing.text == ""


def test_a_folder_that_cannot_be_written_confirms_nothing(tmp_path: Path) -> None:
    closing = Closing(tmp_path)
    closing.ask(destinations([placed(text("network"))]))
    (tmp_path / "network-policies").write_text("a file")
    with pytest.raises(CommandError):
        closing.refresh()
    assert closing.missing(["cart"]) == ("cart",)
    assert "cannot write" in closing.text
    (tmp_path / "network-policies").unlink()
    closing.refresh()
    assert "not confirmed" in closing.text


def test_two_services_with_the_same_labels_are_a_problem_in_words(tmp_path: Path) -> None:
    labelled = text("network").replace("service cart {", 'service cart { labels { app = "web" } ')
    closing = Closing(tmp_path)
    closing.ask(destinations([placed(labelled)]))
    closing.refresh()
    assert closing.missing(["cart"]) == ("cart",)
    assert "also select the pods of `web`" in closing.text


def test_a_move_to_the_network_begins_after_the_confirmation(tmp_path: Path) -> None:
    closing = Closing(tmp_path / "state")

    async def run() -> None:
        rollout = await begun(Agreeing(), planned(tmp_path, "ingress"), tmp_path / "state", closing=closing)
        async with following(rollout) as until:

            async def is_at(name: str) -> None:
                def holds() -> bool:
                    closing.refresh()
                    return at(rollout) == f"{name}.adm" and rollout.text == ""

                await until(holds)

            await rollout.accept(planned(tmp_path, "network"))
            await until(lambda: "`cart`: its NetworkPolicy" in rollout.waits)
            assert at(rollout) == "ingress.adm"
            closing.refresh()
            await until(lambda: "and write `applied` there" in rollout.text)
            confirm(tmp_path / "state")
            await is_at("network")  # the object of both plans is that of the new one: one confirmation is enough
            await rollout.accept(planned(tmp_path, "ingress"))
            await is_at("ingress")
        assert not list((tmp_path / "state" / "network-policies" / "cart").iterdir())

    asyncio.run(run())
