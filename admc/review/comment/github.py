"""A client for the part of GitHub's REST API that a comment needs: https://docs.github.com/rest/issues/comments.

The client waits as long as GitHub asks for (`retry-after`, `x-ratelimit-reset`). It repeats a read whose answer was
lost. It never repeats a write: the caller lists the comments first, since the write may have taken effect (`post.py`).
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from admc import __version__
from admc.base.exits import CommandError, wrong_usage
from admc.base.terminal import visible

if TYPE_CHECKING:
    import aiohttp

PAGE: Final = 100
MAX_PAGES: Final = 100
MAX_BYTES: Final = 32_000_000
"""The size of one answer: 100 comments of 65,536 characters, in UTF-8 and escaped."""
SECONDS: Final = 30.0
"""The time for one answer."""
TRIES: Final = 5
_OK: Final = range(200, 300)
_LIMITED: Final = (403, 429)
_LOST: Final = (500, 502, 503, 504)
_REDIRECTS: Final = (301, 302, 307, 308)
_VERSION: Final = "2022-11-28"
_REPOSITORY: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")

T = TypeVar("T")


class Comment(NamedTuple):
    id: int
    author: str
    body: str
    url: str


class LostAnswerError(Exception):
    """A request may or may not have taken effect: no answer came, or the answer was that the server failed."""


class WaitedError(Exception):
    """GitHub refused a write by its rate limit, and the client waited. Another run may have written meanwhile."""


class Waiting(NamedTuple):
    """How long the client waits in total, in seconds, and how it sleeps (tests replace that) and reports."""

    most: float
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    report: Callable[[str], None] = lambda _: None


@asynccontextmanager
async def connected(api: str, repository: str, token: str, waiting: Waiting) -> AsyncIterator[GitHub]:
    """A client of one repository, `OWNER/NAME`. Raises `CommandError` (ADM877) for a wrong address or name."""
    import aiohttp

    address = _checked(api)
    if _REPOSITORY.fullmatch(repository) is None or {".", ".."} & set(repository.split("/")):
        message = f"`{visible(repository[:200])}` is not the name of a repository"
        raise wrong_usage("ADM877", message, hint="write `--repository OWNER/NAME`")
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {token}",
        "User-Agent": f"admc/{__version__}",
        "X-GitHub-Api-Version": _VERSION,
    }
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    # `trust_env` would also read the user's `.netrc`, whose password would collide with the token.
    proxy = _proxy(urlsplit(address))
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, proxy=proxy) as session:
        yield GitHub(session, address, repository, waiting)


class GitHub:
    """A client of one repository. Where GitHub refuses a request, `CommandError` (ADM878) has a hint for the user."""

    def __init__(self, session: aiohttp.ClientSession, api: str, repository: str, waiting: Waiting) -> None:
        self._session = session
        self._api = api
        self._repository = repository
        self._waiting = waiting
        self._left = waiting.most

    async def comments(self, pull: int) -> list[Comment]:
        """All comments of a pull request, the oldest first."""
        comments: list[Comment] = []
        for page in range(1, MAX_PAGES + 1):
            path = f"/issues/{pull}/comments?per_page={PAGE}&page={page}"
            rows = _list(await self._again("GET", path))
            comments += [_comment(row) for row in rows]
            if len(rows) < PAGE:
                return comments
        raise _failed(f"the pull request has more than {MAX_PAGES * PAGE} comments", "delete some of them")

    async def pull_of(self, commit: str) -> int | None:
        """The number of the open pull request whose newest commit is this one; None if there is none."""
        for page in range(1, MAX_PAGES + 1):
            rows = _list(await self._again("GET", f"/pulls?state=open&per_page={PAGE}&page={page}"))
            for row in rows:
                head, number = _field(row, "head", dict), _field(row, "number", int)
                if head.get("sha") == commit:
                    return number
            if len(rows) < PAGE:
                return None
        raise _failed(f"there are more than {MAX_PAGES * PAGE} open pull requests", "name one of them with `--pull`")

    async def create(self, pull: int, body: str) -> Comment:
        """Create a comment. After `LostAnswerError`, list the comments before the next try: this one may exist."""
        return _comment(_object(await self._request("POST", f"/issues/{pull}/comments", {"body": body})))

    async def update(self, comment: int, body: str) -> Comment:
        """Replace a comment. After `LostAnswerError`, list the comments again: a newer run may have written."""
        return _comment(_object(await self._request("PATCH", f"/issues/comments/{comment}", {"body": body})))

    # ---- requests ----

    async def _again(self, method: str, path: str) -> object:
        """Send a request that changes nothing until GitHub answers it, `TRIES` times at most."""
        for attempt in range(TRIES):
            try:
                return await self._request(method, path)
            except LostAnswerError as error:
                if attempt == TRIES - 1:
                    raise _failed(
                        f"GitHub does not answer: {error}", f"it was tried {TRIES} times; run it again later"
                    ) from error
                await self.wait(2.0**attempt, str(error))
        raise AssertionError

    async def _request(self, method: str, path: str, content: Mapping[str, str] | None = None) -> object:
        """The answer to one request. Raises `LostAnswerError`, and `WaitedError` where a write had to wait."""
        url = f"{self._api}/repos/{self._repository}{path}"
        while True:
            status, headers, text = await self._sent(method, url, content)
            if status in _OK:
                return _json(text)
            if status in _LOST:
                raise LostAnswerError(f"HTTP status {status}")
            seconds = _told_to_wait(status, headers, text)
            if seconds is None:
                raise self._refused(method, path, status, text)
            await self.wait(seconds, "GitHub limits the rate of requests")
            if content is not None:
                raise WaitedError

    async def _sent(
        self, method: str, url: str, content: Mapping[str, str] | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        import aiohttp

        try:
            async with self._session.request(method, url, json=content, allow_redirects=False) as response:
                text = await response.content.read(MAX_BYTES + 1)
                while len(text) <= MAX_BYTES and not response.content.at_eof():
                    text += await response.content.read(MAX_BYTES + 1 - len(text))
                if len(text) > MAX_BYTES:
                    raise _failed("an answer of GitHub is too large", "check `--api`")
                return response.status, response.headers, text
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise LostAnswerError(_described(error)) from error

    async def wait(self, seconds: float, why: str) -> None:
        """Wait. Raises `CommandError` if less time for waiting remains."""
        if seconds > self._left:
            raise _failed(
                f"{why}, and the next request may be sent in {seconds:.0f} s",
                f"the command waits {self._waiting.most:.0f} s at most: run it again later, or raise `--wait`",
            )
        self._left -= seconds
        self._waiting.report(f"waiting {seconds:.0f} s: {why}")
        await self._waiting.sleep(seconds)

    def _refused(self, method: str, path: str, status: int, text: bytes) -> CommandError:
        what = f"GitHub refused `{method} /repos/{self._repository}{path.partition('?')[0]}` with HTTP status {status}"
        message = _message(text)
        hint = "check the repository and the number of the pull request"
        if status in (401, 403):
            hint = "the token in `GITHUB_TOKEN` needs `pull-requests: write` for this repository"
        elif status in _REDIRECTS:
            hint = "the repository was moved or renamed: give its present name"
        return _failed(what, hint, message)


def _checked(api: str) -> str:
    """The address without a slash at its end. The token may leave this machine over TLS only."""
    try:
        url = urlsplit(api)
    except ValueError:
        url = urlsplit("")
    fine = url.scheme == "https" or (url.scheme == "http" and _local(url))
    if not fine or not url.hostname or url.query or url.fragment or "@" in url.netloc or not api.isprintable():
        raise wrong_usage(
            "ADM877",
            f"`{visible(api[:200])}` is not the address of an API",
            cause="the token is sent there, so it has to be an `https` URL without a user or a query",
            hint="leave `--api` out for github.com; that of a server of your own ends in `/api/v3`",
        )
    return api.rstrip("/")


def _local(url: SplitResult) -> bool:
    return url.hostname in ("127.0.0.1", "::1", "localhost")


def _proxy(url: SplitResult) -> str | None:
    """The proxy that the environment names for this address. None for an API on this machine."""
    if _local(url) or proxy_bypass(url.hostname or ""):
        return None
    return getproxies().get(url.scheme)


def _told_to_wait(status: int, headers: Mapping[str, str], text: bytes) -> float | None:
    """Seconds until the request may be sent again; None if it was refused for another reason."""
    if status not in _LIMITED:
        return None
    after = headers.get("retry-after", "")
    if after.isascii() and after.isdigit():
        return max(float(after[:9]), 1.0)
    reset = headers.get("x-ratelimit-reset", "")
    if headers.get("x-ratelimit-remaining") == "0" and reset.isascii() and reset.isdigit():
        return max(float(reset[:12]) - time.time(), 1.0)
    # GitHub may report a secondary limit without a time, and documents that a client then waits a minute.
    return 60.0 if status == 429 or b"secondary rate limit" in text.lower() else None


# ---- answers ----


def _json(text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LostAnswerError("the answer is not JSON") from error


def _list(document: object) -> list[Mapping[str, object]]:
    if not isinstance(document, list) or not all(isinstance(row, dict) for row in document):
        raise _unexpected()
    return document


def _object(document: object) -> Mapping[str, object]:
    if not isinstance(document, dict):
        raise _unexpected()
    return document


def _comment(row: Mapping[str, object]) -> Comment:
    # A deleted account has no user; a body may be null.
    user = row.get("user")
    author = user.get("login") if isinstance(user, dict) else ""
    body, url = row.get("body"), row.get("html_url")
    return Comment(_field(row, "id", int), str(author or ""), str(body or ""), str(url or ""))


def _field(row: Mapping[str, object], name: str, kind: type[T]) -> T:
    value = row.get(name)
    if not isinstance(value, kind):
        raise _unexpected()
    return value


def _unexpected() -> CommandError:
    return _failed("an answer of GitHub has another form than its API", "check `--api`")


def _message(text: bytes) -> str | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    message = document.get("message") if isinstance(document, dict) else None
    return f"it says: {visible(str(message)[:200])}" if message else None


def _described(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {SECONDS:.0f} seconds"
    return visible((str(error) or type(error).__name__)[:200])


def _failed(message: str, hint: str, cause: str | None = None) -> CommandError:
    return wrong_usage("ADM878", message, cause=cause, hint=hint)
