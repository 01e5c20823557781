"""Where nothing is called weaker, HEAD lets nothing through that BASE refuses or counts."""

from __future__ import annotations

from typing import Final

import pytest

from admc.review.diff.model import Word
from admc.review.diff.protection import findings
from tests.review.diff.protection import specs
from tests.review.diff.protection.edits import WIDER
from tests.review.diff.protection.judged import breaches
from tests.review.diff.protection.plans import compiled
from tests.review.diff.protection.soak import NAMES, soak

LONG: Final = 1000
LEAST: Final = LONG // 100
"""Draws of each class: half of what 100 in 5,000 pairs would be here, since few pairs vary more."""
SEED: Final = 100_000


@pytest.mark.long
def test_what_is_not_weaker_lets_nothing_through() -> None:
    table = soak(range(SEED, SEED + LONG), first=True)
    assert not table.breaches, table.breaches[0]
    assert table.judged * 4 > table.pairs, f"only {table.judged} of {table.pairs} pairs say anything"
    weaker = {name: table.network[name] - table.network[f"{name}, silent"] for name in NAMES}
    assert all(table.network[name] * 50 > table.pairs and weaker[name] for name in NAMES), table.text()
    rare = [each.name for each in WIDER if table.drawn[each.name] < LEAST]
    assert not rare, table.text()


SHOP: Final = """
app shop
external internet
external office { cidr "10.9.0.0/16" }
service a, c { http 8080 }
service b { http 8080 }
service s, judge { http 8001 }
call a -> b, s
"""
QUOTA: Final = "@ingress\npolicy quota = rate_limit(requests: {}, per: 1h) on {} -> b{}\n"
SET: Final = '@ingress\npolicy writer = set_request_header(name: "x-in", value: "set") on * -> b\n'
DENY: Final = '@ingress\npolicy guard = deny() on * -> b when header("x-in") == "client"\n'
COUNT: Final = "policy seen = request_count() on {} -> b\n"
ODD: Final = '@ingress @egress\nkind odd() for http template "odd.yaml"\n'
SCRIPT: Final = "@ingress\npolicy script = odd() on a -> b\n"
BANK: Final = 'external bank { http 80  host "bank.example" }\npolicy closed = deny() on * -> bank\n'
WEAKENED: Final = {
    "the policy went": (Word.LOST, DENY, ""),
    "`*` became names": (Word.LOST, "@ingress\n" + COUNT.format("*"), "@ingress\n" + COUNT.format("a")),
    "narrowed": (Word.NARROWED, QUOTA.format(1, "*", ""), QUOTA.format(1, "*", ' when method == "POST"')),
    "a larger quota": (Word.LOOSENED, QUOTA.format(1, "*", ""), QUOTA.format(2, "*", "")),
    "a guard admits one more": (
        Word.LOOSENED,
        "@ingress\npolicy readers = allow(callers: [a]) on * -> b\n",
        "@ingress\npolicy readers = allow(callers: [a, c]) on * -> b\n",
    ),
    "no longer closed": (Word.LOOSENED, "@egress\n" + COUNT.format("*"), "@ingress\n" + COUNT.format("*")),
    "reordered": (Word.REORDERED, DENY + SET, SET + DENY),
    "a new writer": (Word.UNCLEAR, DENY, SET + DENY),
    "another match": (Word.UNCLEAR, DENY, DENY.replace("client", "set")),
    "a script": (Word.UNCLEAR, ODD + "@ingress\n" + COUNT.format("a"), ODD + SCRIPT + "@ingress\n" + COUNT.format("a")),
    "a call from outside goes": (
        Word.LOST,
        "call office -> b\n" + QUOTA.format(1, "office", ""),
        QUOTA.format(1, "office", ""),
    ),
    "a call to the outside goes": (Word.LOST, BANK + "call a -> bank\n", BANK),
    "another kind": (Word.UNCLEAR, DENY, DENY.replace("deny()", "request_count()")),
}


@pytest.mark.parametrize("name", WEAKENED)
def test_the_judge_lets_through_what_each_word_alone_warns_of(name: str) -> None:
    """So a comparison that is silent about the word would not be sound."""
    word, before, after = WEAKENED[name]
    base, head = (compiled(SHOP + side, {"odd.yaml": specs.ODD}) for side in (before, after))
    assert {each.word for each in findings(base.plan, head.plan).weaker} == {word}
    assert list(breaches(base, head, {}))
