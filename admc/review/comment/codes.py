"""Codes about comments on pull requests: title, explanation, examples. This module holds data only."""

from __future__ import annotations

from collections.abc import Mapping

CODES: Mapping[str, tuple[str, ...]] = {
    "ADM877": (
        "a comment cannot be written with these settings",
        "`admc comment github` sends the token in `GITHUB_TOKEN` to the API of a code host: over TLS, or to this "
        "machine. In a job, GitHub sets the address of its API and the name of the repository.",
        "",
        "GITHUB_TOKEN=... admc comment github diff.json --repository shop/mesh --pull 7",
    ),
    "ADM878": (
        "a code host did not take the comment",
        "A comment is written in one request, so nothing is half posted. GitHub may limit the rate of requests: the "
        "command waits as long as GitHub asks, up to `--wait`. Where an answer to a new comment was lost, it looks "
        "whether the comment is there before it writes again. A refusal for another reason ends the command.",
    ),
}
