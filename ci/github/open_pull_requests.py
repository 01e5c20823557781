"""Prints those of some pull requests that are open and have a commit as their newest one, a number on each line.

    python3 open_pull_requests.py COMMIT NUMBER...

The host keeps the references of a closed pull request, and two may have the same commit: the difference is that of an
open one, from its BASE. Needs nothing but Python. Reads GITHUB_API_URL, GITHUB_REPOSITORY and, for a private
repository, TOKEN.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request

SECONDS = 30.0
MAX_BYTES = 5_000_000
MAX_ASKED = 20
"""Pull requests with one and the same commit, the newest first."""


def is_open(number: int, commit: str) -> bool:
    """Raises `OSError` and `ValueError` where the host gives no usable answer."""
    host = os.environ.get("GITHUB_API_URL", "https://api.github.com")
    if not host.startswith(("https://", "http://")):
        raise ValueError(f"`{host}` is no address of an API")
    url = f"{host}/repos/{os.environ['GITHUB_REPOSITORY']}/pulls/{number}"
    headers = {"Accept": "application/vnd.github+json", "User-Agent": "admc"}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - its scheme is checked above
    if token := os.environ.get("TOKEN"):
        # No other host gets it by a redirection.
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - as above
            found = json.loads(answer.read(MAX_BYTES))
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return False
        raise
    if not isinstance(found, dict) or not isinstance(found.get("head"), dict):
        raise ValueError(f"the answer about pull request {number} is not one of GitHub")
    return found.get("state") == "open" and found["head"].get("sha") == commit


def main(commit: str, numbers: list[int]) -> int:
    """The exit code: 1 where the host gives no usable answer, since to guess would show a wrong difference."""
    try:
        for number in numbers[:MAX_ASKED]:
            if is_open(number, commit):
                print(number)
    except (OSError, ValueError) as error:
        print(f"::error::cannot ask which pull requests are open: {str(error)[:200]!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], [int(each) for each in sys.argv[2:]]))
