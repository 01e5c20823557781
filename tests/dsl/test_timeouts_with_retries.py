"""Notes about a timeout that limits each attempt of a retry while no timeout limits all attempts."""

from __future__ import annotations

import pytest

from dsl.diagnostics.diagnostic import Severity
from tests.dsl.programs import findings, load

HEAD = """\
app shop
service web, api, cart { http 8080 }
call web -> api, cart
"""
RETRY = "policy again = retry(attempts: 3) on web -> api\n"
TIMEOUT = "policy slow = timeout(after: 2s) on web -> api\n"
NOTED = {
    "after": RETRY + TIMEOUT,
    "on one of its calls": RETRY + "policy slow = timeout(after: 2s) on * -> *\n",
    "for some requests": RETRY + 'policy slow = timeout(after: 2s) on web -> api when path == "/a"\n',
    "another call's is before": "policy early = timeout(after: 1s) on web -> cart\n"
    "policy again = retry(attempts: 3) on web -> api, cart\n" + TIMEOUT,
}
SILENT = {
    "before": TIMEOUT + RETRY,
    "no retry": TIMEOUT,
    "one attempt": RETRY.replace("3", "1") + TIMEOUT,
    "other calls": RETRY + "policy slow = timeout(after: 2s) on web -> cart\n",
    "other requests": 'policy again = retry(attempts: 3) on web -> api when path == "/b"\n'
    'policy slow = timeout(after: 2s) on web -> api when path == "/a"\n',
    "both": 'policy all = timeout(after: 9s) on web -> api when path starts_with "/a"\n'
    + RETRY
    + 'policy each = timeout(after: 2s) on web -> api when not path starts_with "/a"\n',
}


@pytest.mark.parametrize("name", NOTED)
def test_a_note(name: str) -> None:
    (found,) = findings(HEAD + NOTED[name])
    assert (found.code, found.severity) == ("ADM423", Severity.NOTE)
    assert found.message == "`slow` limits each attempt of `again`, and no timeout limits all attempts together"
    assert [related.message for related in found.related] == ["`again` is here"]


@pytest.mark.parametrize("name", SILENT)
def test_no_note(name: str) -> None:
    assert findings(HEAD + SILENT[name]) == ()


def test_a_note_is_no_warning() -> None:
    """Notes are not counted as warnings."""
    assert load(HEAD + RETRY + TIMEOUT).warnings == ()
