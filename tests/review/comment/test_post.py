"""One comment for a pull request: found by author and exact tag, never older than what is there, never twice."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from admc.base.exits import CommandError
from admc.review.comment.body import Run, body, first_line, has_tag, joined, written
from admc.review.comment.github import Waiting, _proxy, connected
from admc.review.comment.post import Action, Posted, WantedComment, post
from tests.review.comment.api import REPOSITORY, TOKEN, US, Api, Fault, answer, served

RUN = Run(500, 1)
CONTENT = "3 things get weaker\n"
WANTED = WantedComment(7, US, "prod", RUN, CONTENT, quiet_if_same=False, nothing_to_say=False)


async def posted(
    api: Api, wanted: WantedComment = WANTED, *, most: float = 300, slept: list[float] | None = None
) -> Posted:
    async def sleep(seconds: float) -> None:
        if slept is not None:
            slept.append(seconds)

    async with served(api), connected(api.url, REPOSITORY, TOKEN, Waiting(most, sleep)) as github:
        return await post(github, wanted)


async def refusal(api: Api, wanted: WantedComment = WANTED, *, most: float = 300) -> str:
    with pytest.raises(CommandError) as caught:
        await posted(api, wanted, most=most)
    (error,) = caught.value.diagnostics
    assert error.code == "ADM878"
    assert error.hint
    assert TOKEN not in str(error)
    return f"{error.message} {error.cause or ''} {error.hint}"


async def test_the_first_comment_is_created() -> None:
    api = Api()
    found = await posted(api)
    assert found.action is Action.CREATED
    assert api.bodies() == [body("prod", RUN, CONTENT)]


async def test_a_later_run_updates_it_in_one_request() -> None:
    api = Api()
    await posted(api)
    api.log.clear()
    found = await posted(api, WANTED._replace(run=Run(501, 1), content="nothing gets weaker\n"))
    assert found.action is Action.UPDATED
    assert [line.split()[0] for line in api.log] == ["GET", "PATCH"]
    assert api.bodies() == [body("prod", Run(501, 1), "nothing gets weaker\n")]


async def test_it_is_found_among_300_comments_by_author_and_exact_tag() -> None:
    api = Api()
    for number in range(300):
        api.add(f"user{number}", f"comment {number}")
    api.add("stranger", body("prod", Run(9999, 9), "pay me"))
    api.add(US, body("non-prod", Run(1, 1), "another program"))
    api.add(US, body("prod-eu", Run(1, 1), "another program"))
    api.add(US, "in the middle: " + first_line("prod"))
    api.add(None, None)
    own = api.add(US, body("prod", Run(400, 1), "before"))
    before = [dict(row) for row in api.comments]
    found = await posted(api)
    assert found.action is Action.UPDATED
    changed = [row["id"] for row, old in zip(api.comments, before, strict=True) if row != old]
    assert changed == [own]
    assert len([line for line in api.log if line.startswith("GET")]) == 4


@pytest.mark.parametrize("newer", [Run(501, 1), Run(500, 2), Run(10_000, 1)])
async def test_an_older_run_never_overwrites_a_newer_one(newer: Run) -> None:
    api = Api()
    api.add(US, body("prod", newer, "newer"))
    found = await posted(api)
    assert found.action is Action.OLDER
    assert api.writes == []
    assert api.bodies() == [body("prod", newer, "newer")]


@pytest.mark.parametrize("older", [Run(499, 9), Run(500, 1), Run(99, 1)])
async def test_a_run_overwrites_an_older_one_and_itself(older: Run) -> None:
    api = Api()
    api.add(US, body("prod", older, "older"))
    assert (await posted(api)).action is Action.UPDATED
    assert api.bodies() == [body("prod", RUN, CONTENT)]


async def test_a_comment_whose_second_line_was_edited_is_written_again() -> None:
    api = Api()
    api.add(US, first_line("prod") + "\r\nno run here")
    assert (await posted(api)).action is Action.UPDATED
    assert api.bodies() == [body("prod", RUN, CONTENT)]


async def test_quiet_if_same() -> None:
    quiet = WANTED._replace(quiet_if_same=True)
    api = Api()
    api.add(US, body("prod", Run(1, 1), CONTENT))
    assert (await posted(api, quiet)).action is Action.SAME
    assert api.writes == []
    assert (await posted(api)).action is Action.UPDATED
    edited = Api()
    edited.add(US, body("prod", Run(1, 1), CONTENT).replace("3 things", "0 things"))
    assert (await posted(edited, quiet)).action is Action.UPDATED
    empty = Api()
    assert (await posted(empty, quiet._replace(nothing_to_say=True))).action is Action.NOTHING
    assert empty.writes == []
    assert (await posted(empty, WANTED._replace(nothing_to_say=True))).action is Action.CREATED


@pytest.mark.parametrize("lost", ["stored", "cut"])
async def test_a_post_whose_answer_was_lost_is_not_repeated_if_it_was_stored(lost: str) -> None:
    api = Api(after=[lost])
    assert (await posted(api)).action is Action.SAME
    assert len(api.bodies()) == 1
    assert [line.split()[0] for line in api.log] == ["GET", "POST", "GET"]


async def test_a_post_that_was_not_stored_is_repeated() -> None:
    api = Api(faults=[None, answer(500), None, None])
    slept: list[float] = []
    assert (await posted(api, slept=slept)).action is Action.CREATED
    assert len(api.bodies()) == 1
    assert [line.split()[0] for line in api.log] == ["GET", "POST", "GET", "POST"]
    assert slept == [1.0]


async def test_an_update_whose_answer_was_lost_is_looked_up() -> None:
    api = Api(after=["cut"])
    api.add(US, body("prod", Run(1, 1), "before"))
    assert (await posted(api)).action is Action.SAME
    assert [line.split()[0] for line in api.log] == ["GET", "PATCH", "GET"]
    assert api.bodies() == [body("prod", RUN, CONTENT)]


@pytest.mark.parametrize(
    ("status", "headers", "message", "seconds"),
    [
        (429, {"retry-after": "17"}, "", 17),
        (403, {"retry-after": "17"}, "", 17),
        (429, {}, "", 60),
        (403, {}, "You have exceeded a secondary rate limit.", 60),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "in 100 s"}, "", 100),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"}, "", 1),
    ],
)
async def test_it_waits_as_github_says(status: int, headers: dict[str, str], message: str, seconds: float) -> None:
    def limited(_: web.Request) -> web.StreamResponse:
        now = {name: str(int(time.time()) + 100) if value == "in 100 s" else value for name, value in headers.items()}
        return web.json_response({"message": message}, status=status, headers=now)

    slept: list[float] = []
    api = Api(faults=[limited, None])
    assert (await posted(api, slept=slept)).action is Action.CREATED
    assert slept == [pytest.approx(seconds, abs=5)]
    post_too = Api(faults=[None, limited, None])
    assert (await posted(post_too)).action is Action.CREATED
    assert len(post_too.bodies()) == 1


async def test_it_does_not_wait_longer_than_it_may() -> None:
    api = Api(faults=[answer(429, {"retry-after": "301"})])
    assert "301 s" in await refusal(api)
    twice = Api(faults=[answer(429, {"retry-after": "200"})] * 2)
    assert "--wait" in await refusal(twice)
    assert api.bodies() == twice.bodies() == []


@pytest.mark.parametrize(
    ("status", "part"),
    [
        (401, "pull-requests: write"),
        (403, "pull-requests: write"),
        (404, "number of the pull request"),
        (301, "moved or renamed"),
        (422, "HTTP status 422"),
    ],
)
async def test_a_refusal_says_what_to_do(status: int, part: str) -> None:
    api = Api(faults=[answer(status, {"location": "https://example.test/"}, "Resource not accessible\x1b[31m")])
    found = await refusal(api)
    assert part in found
    assert "\x1b" not in found
    assert len(api.log) == 1


async def test_a_server_that_fails_is_given_up() -> None:
    api = Api(faults=[answer(503)] * 9)
    assert "503" in await refusal(api)
    assert len(api.log) == 5
    post_fails = Api(faults=[None, answer(502)] * 9)
    assert "502" in await refusal(post_fails)
    assert post_fails.bodies() == []


async def test_no_server_at_all() -> None:
    with pytest.raises(CommandError, match="ADM878"):
        async with connected("http://127.0.0.1:9", REPOSITORY, TOKEN, Waiting(0)) as github:
            await post(github, WANTED)


@pytest.mark.parametrize(
    "api",
    ["http://api.example.test", "ftp://x", "https://u:p@x", "https://x?y", "", "https://x\n", "http://127.0.0.1.x.y"],
)
async def test_the_token_goes_nowhere_else(api: str) -> None:
    with pytest.raises(CommandError, match="ADM877"):
        async with connected(api, REPOSITORY, TOKEN, Waiting(0)):
            pass


@pytest.mark.parametrize("name", ["shop", "shop/mesh/x", "shop/..", "./x", "shop/m?x", "shop/m\n", ""])
async def test_a_repository_has_an_owner_and_a_name(name: str) -> None:
    with pytest.raises(CommandError, match="ADM877"):
        async with connected("https://api.github.com", name, TOKEN, Waiting(0)):
            pass


async def test_the_pull_request_of_a_commit() -> None:
    api = Api(pulls=[{"number": number, "head": {"sha": f"{number:040x}"}} for number in range(1, 251)])
    async with served(api), connected(api.url, REPOSITORY, TOKEN, Waiting(0)) as github:
        assert await github.pull_of(f"{201:040x}") == 201
        assert await github.pull_of(f"{999:040x}") is None


@pytest.mark.parametrize("found", [{"a": 1}, [1], [{"id": "x"}], "x", None])
async def test_an_answer_in_another_form_is_an_error(found: object) -> None:
    api = Api(faults=[lambda _: web.json_response(found)])
    assert "another form" in await refusal(api)


# ---- the body ----


def test_tags_are_compared_as_a_whole() -> None:
    text = body("prod", RUN, CONTENT)
    assert has_tag(text, "prod")
    assert not has_tag(text, "non-prod")
    assert not has_tag(text, "pro")
    assert not has_tag("x" + text, "prod")
    assert has_tag(text.replace("\n", "\r\n"), "prod")
    assert written(text.replace("\n", "\r\n")) == written(text)
    assert written(text) is not None


def test_whole_programs_give_way_and_are_counted() -> None:
    parts = [f"# {number}\n" + "ä" * 9_000 for number in range(6)]
    found = joined(parts, "one line about the change")
    assert len(body("prod", RUN, found).encode()) <= 65_536
    assert found.startswith("one line about the change\n\n# 0\n")
    assert found.endswith("_3 more programs: see the summary of the run._\n")
    assert joined(["a\n", "b\n"], "") == "a\n\nb\n"


@pytest.mark.parametrize("answered", [answer(429, {"retry-after": "30"}), answer(502)], ids=["limited", "lost"])
async def test_a_newer_run_that_writes_while_an_older_one_waits_is_not_overwritten(answered: Fault) -> None:
    api = Api()
    api.add(US, body("prod", Run(400, 1), "old\n"))
    newer = body("prod", Run(501, 1), "newer\n")

    def meanwhile(request: web.Request) -> web.StreamResponse | None:
        assert request.method == "PATCH"
        api.comments[0]["body"] = newer
        return answered(request)

    api.faults = [None, meanwhile]
    found = await posted(api)
    assert found.action is Action.OLDER
    assert api.bodies() == [newer]


async def test_a_limit_without_an_end_ends() -> None:
    api = Api(faults=[answer(429, {"retry-after": "0"}) for _ in range(20)])
    assert "limits the rate" in await refusal(api, most=10)


async def test_a_body_of_which_the_host_changed_the_line_ends_is_the_same() -> None:
    api = Api()
    api.add(US, body("prod", Run(400, 1), CONTENT).rstrip().replace("\n", "\r\n"))
    found = await posted(api, WANTED._replace(quiet_if_same=True))
    assert found.action is Action.SAME


async def test_the_user_s_netrc_and_proxies_are_not_used_for_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("default login me password secret\n", "utf-8")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert (await posted(Api())).action is Action.CREATED


@pytest.mark.parametrize("address", ["http://[::1", "https://\u2100.example"])
async def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(CommandError) as caught:
        async with connected(address, REPOSITORY, TOKEN, Waiting(1)):
            pass
    assert caught.value.diagnostics[0].code == "ADM877"


def test_a_proxy_of_the_environment_is_for_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "inside.example")
    addresses = ("https://api.github.com", "https://inside.example/api/v3", "https://localhost:1")
    assert [_proxy(urlsplit(each)) for each in addresses] == ["http://proxy.example:3128", None, None]
