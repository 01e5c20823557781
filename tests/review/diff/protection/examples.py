"""Pairs of programs, one for each word, its reverse, and each way to lose a call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.review.diff.identity import renames
from admc.review.diff.protection import findings
from tests.review.diff.protection.plans import plan_of

if TYPE_CHECKING:
    from admc.review.diff.model import Finding

GOLDEN: Final = Path(__file__).with_name("examples.golden")

SERVICES: Final = """
app shop
external internet
external office { cidr "10.9.0.0/16" }
service a, c, f { http 8080 }
service b { http 8080  labels { app = "b"  tier = "db" } }
service d { http 8080 }
call a, c -> b
call b -> d
call internet -> a
"""


class Example(NamedTuple):
    name: str
    base: str
    head: str


def shop(policies: str, *edits: tuple[str, str]) -> str:
    text = SERVICES
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text + policies


COUNTS: Final = "policy seen = request_count() on {} -> {}\n"
QUOTA: Final = "@ingress\npolicy quota = rate_limit({}) on * -> b\n"
ALLOW: Final = "@ingress\npolicy readers = allow(callers: [{}]) on {} -> b\n"
F_LABELS: Final = (
    "service a, c, f { http 8080 }",
    'service a, c { http 8080 }\nservice f { http 8080  labels { app = "f" } }',
)
DENY: Final = "@ingress\npolicy no = deny() on {} -> b\n"
WHEN: Final = "@ingress\npolicy quota = rate_limit(requests: 90, per: 60s) on * -> b when {}\n"
HEADER: Final = 'policy tier = set_request_header(name: "x-tier", value: "gold") on * -> b{}\n'
GOLD: Final = '@ingress\npolicy gold = deny() on * -> b when header("x-tier") == "free"\n'
OFFICE: Final = 'external office { cidr "10.9.0.0/16" }'
NO_CALL: Final = ("call a, c -> b", "call a -> b")
TWO: Final = ("service b { http 8080", "service b { http 8080  http 8081")
ONE: Final = ("call a, c -> b", "call a, c -> b:8080")
BOTH: Final = ("call a, c -> b", "call a, c -> b:8080\ncall a, c -> b:8081")
F_TO_TWO: Final = ("call a, c -> b", "call a, c -> b:8080\ncall f -> b:8081")
ONE_CLOSED: Final = "@egress\npolicy seen = request_count() on * -> b:8080\n"
TWO_CLOSED: Final = "@egress\npolicy seen = request_count() on * -> b\n"
NEW_CALL: Final = ("call a, c -> b", "call a, c, f -> b")
OUTSIDE: Final = "policy few = connection_rate_limit(connections: 9, per: 60s) on a -> {stripe, bank}\n"
STRIPE: Final = (
    "external internet\n",
    """external internet
external stripe { tcp 443  host "api.stripe.com" }
external bank { tcp 443  host "bank.example"  cidr "10.8.0.0/16" }
call a -> stripe, bank
""",
)
ELSEWHERE: Final = ("service a, c, f { http 8080 }", "service a, c, f { http 8080  namespace web }")
OWN: Final = """
@ingress @egress
{}
kind mine(value: string) for http template "mine.yaml"
policy own = mine(value: "1") on a -> b
"""

TO_BANK: Final = "policy no = deny() on {} -> bank\n"
BANK: Final = (
    "external internet\n",
    'external internet\nexternal bank { http 80  host "bank.example" }\ncall a -> bank\n',
)
NO_BANK: Final = (BANK[0], BANK[1].replace("call a -> bank\n", ""))
BANK_RENAMED: Final = (BANK[0], BANK[1].replace("bank {", "money {").replace("-> bank", "-> money"))
FEW: Final = "@ingress\npolicy few = rate_limit(requests: 9, per: 60s) on {} -> a\n"
NOT_INTERNET: Final = ("call internet -> a\n", "")
_OUTSIDE: Final = (
    # ---- calls without a declaration that go on ----
    Example(
        "an open policy to an external went with its call",
        shop(COUNTS.format("*", "bank"), BANK),
        shop(COUNTS.format("*", "bank"), NO_BANK),
    ),
    Example(
        "a guard to an external went with its call", shop(TO_BANK.format("a"), BANK), shop(TO_BANK.format("a"), NO_BANK)
    ),
    Example(
        "a policy to an external that names its caller went with its call",
        shop(COUNTS.format("a", "bank"), BANK),
        shop(COUNTS.format("a", "bank"), NO_BANK),
    ),
    Example(
        "an open policy to an external went with its call and the external",
        shop(COUNTS.format("*", "bank"), BANK),
        shop(""),
    ),
    Example(
        "an open policy to an external went with its caller",
        shop(COUNTS.format("*", "bank"), BANK),
        shop(
            COUNTS.format("*", "bank"),
            NO_BANK,
            ("service a, c, f", "service c, f"),
            ("call a, c -> b", "call c -> b"),
            NOT_INTERNET,
        ),
    ),
    Example(
        "an external that an open policy is about was renamed",
        shop(COUNTS.format("*", "bank"), BANK),
        shop(COUNTS.format("*", "money"), BANK_RENAMED),
    ),
    Example(
        "a policy from an external went with its call",
        shop(FEW.format("internet")),
        shop(FEW.format("internet"), NOT_INTERNET),
    ),
    Example(
        "a policy from an external went with its call, and a guard refuses it",
        shop(FEW.format("internet")),
        shop(FEW.format("internet") + "@ingress\npolicy mesh = allow(callers: [c]) on * -> a\n", NOT_INTERNET),
    ),
    Example(
        "an external went into another one with the same policies",
        shop(FEW.format("{internet, office}"), ("call internet -> a", "call internet, office -> a")),
        shop(FEW.format("internet"), (OFFICE + "\n", "")),
    ),
)

ODD: Final = """
@ingress @egress
kind odd(value: string = "1") for http template "mine.yaml"
"""
SCRIPT: Final = ODD + "policy script = odd() on a -> b{}\n"
SLOW: Final = "policy slow = timeout(after: 300ms) on a -> b{}\n"
AGAIN: Final = "policy again = retry(attempts: 3) on a -> b\n"
_UNKNOWN: Final = (
    # ---- a policy of which nothing is known beside others ----
    Example("a script before a timeout", shop(ODD + SLOW.format("")), shop(SCRIPT.format("") + SLOW.format(""))),
    Example(
        "a script before a count and a quota",
        shop(ODD + COUNTS.format("a", "b") + QUOTA.format("requests: 9, per: 60s")),
        shop(SCRIPT.format("") + COUNTS.format("a", "b") + QUOTA.format("requests: 9, per: 60s")),
    ),
    Example(
        "a script behind a count",
        shop(ODD + COUNTS.format("a", "b")),
        shop(COUNTS.format("a", "b") + SCRIPT.format("")),
    ),
    Example("a script behind a retry", shop(ODD + AGAIN), shop(AGAIN + SCRIPT.format(""))),
    Example(
        "a script on more requests before a timeout",
        shop(SCRIPT.format(' when path == "/x"') + SLOW.format("")),
        shop(SCRIPT.format("") + SLOW.format("")),
    ),
    Example(
        "a script for other requests than a timeout",
        shop(ODD + SLOW.format(' when path == "/y"')),
        shop(SCRIPT.format(' when path == "/x"') + SLOW.format(' when path == "/y"')),
    ),
)

EXAMPLES: Final = (
    # ---- each way to lose a call ----
    *_OUTSIDE,
    *_UNKNOWN,
    Example("the policy went", shop(COUNTS.format("a", "b")), shop("")),
    Example(
        "the scope shrank",
        shop("@ingress\n" + COUNTS.format("{a, c}", "b")),
        shop("@ingress\n" + COUNTS.format("a", "b")),
    ),
    Example(
        "a label stopped picking it",
        shop(COUNTS.format("a", '[tier = "db"]')),
        shop(
            COUNTS.format("a", '[tier = "db"]'),
            ('tier = "db"', 'tier = "web"'),
            ("d {", 'd {  labels { tier = "db" } '),
        ),
    ),
    Example(
        "`*` became names",
        shop("@ingress\n" + COUNTS.format("*", "b")),
        shop("@ingress\n" + COUNTS.format("{a, c}", "b")),
    ),
    Example(
        "`*` leaves one out",
        shop("@ingress\n" + COUNTS.format("*", "b")),
        shop("@ingress\n" + COUNTS.format("* except f", "b")),
    ),
    Example(
        "a guard names fewer",
        shop("@ingress\npolicy no = deny() on {c, f} -> b\n"),
        shop("@ingress\npolicy no = deny() on c -> b\n"),
    ),
    Example(
        "a port went out of scope",
        shop("@ingress\n" + COUNTS.format("a", "d")),
        shop("@ingress\n" + COUNTS.format("a", "b")),
    ),
    Example(
        "a new call outside of the new scope",
        shop("@ingress\n" + COUNTS.format("*", "b")),
        shop("@ingress\n" + COUNTS.format("{a, c}", "b"), NEW_CALL),
    ),
    # ---- matches ----
    Example("narrowed", shop(WHEN.format('path starts_with "/"')), shop(WHEN.format('path == "/user"'))),
    Example(
        "narrowed from every request",
        shop(QUOTA.format("requests: 90, per: 60s")),
        shop(WHEN.format('path == "/user"')),
    ),
    Example("another match", shop(WHEN.format('path == "/user"')), shop(WHEN.format('path == "/users"'))),
    Example("another expression", shop(WHEN.format('path matches "/u.*"')), shop(WHEN.format('path matches "/us.*"'))),
    # ---- arguments ----
    Example(
        "more requests", shop(QUOTA.format("requests: 90, per: 60s")), shop(QUOTA.format("requests: 900, per: 60s"))
    ),
    Example(
        "a shorter period", shop(QUOTA.format("requests: 90, per: 60s")), shop(QUOTA.format("requests: 90, per: 1s"))
    ),
    Example(
        "a larger burst",
        shop(QUOTA.format("requests: 90, per: 60s")),
        shop(QUOTA.format("requests: 90, per: 60s, burst: 95")),
    ),
    Example(
        "fewer and other conditions",
        shop("policy again = retry(attempts: 3, on: [unavailable, reset]) on a -> b\n"),
        shop("policy again = retry(attempts: 2, on: [reset, unavailable, internal]) on a -> b\n"),
    ),
    Example(
        "a limit is left out",
        shop("policy few = circuit_breaking(max_requests: 9, max_pending: 5) on a -> b\n"),
        shop("policy few = circuit_breaking(max_pending: 5) on a -> b\n"),
    ),
    Example(
        "an argument without a direction",
        shop(HEADER.format("")),
        shop(HEADER.format("").replace("gold", "silver")),
    ),
    Example(
        "more replicas of a limit of each",
        shop("policy few = circuit_breaking(max_requests: 9) on a -> b\n"),
        shop(
            "policy few = circuit_breaking(max_requests: 9) on a -> b\n",
            ("service b { http 8080", "service b { http 8080  replicas 3"),
        ),
    ),
    # ---- guards ----
    Example("a guard admits one more", shop(ALLOW.format("a, c", "*")), shop(ALLOW.format("a, c, f", "*"))),
    Example("a guard admits one less", shop(ALLOW.format("a, c", "*")), shop(ALLOW.format("a", "*"))),
    Example("a new guard", shop(""), shop(ALLOW.format("a", "*"))),
    Example("a guard selects more requests", shop(GOLD), shop(GOLD.split(" when ")[0] + "\n")),
    Example(
        "a new call that a guard refuses", shop(ALLOW.format("a, c", "*")), shop(ALLOW.format("a, c", "*"), NEW_CALL)
    ),
    Example(
        "an external of a guard has more addresses",
        shop(ALLOW.format("a, c, office", "*")),
        shop(ALLOW.format("a, c, office", "*"), ("10.9.0.0/16", "10.0.0.0/8")),
    ),
    Example(
        "an external without a guard has fewer addresses",
        shop("policy no = deny() on office -> b\n", ("call a, c -> b", "call a, c, office -> b")),
        shop(
            "policy no = deny() on office -> b\n",
            ("call a, c -> b", "call a, c, office -> b"),
            ("10.9.0.0/16", "10.9.1.0/24"),
        ),
    ),
    Example(
        "an external comes beside one without addresses",
        shop("policy quota = rate_limit(requests: 9, per: 60s) on internet -> a\n", (OFFICE, "")),
        shop("policy quota = rate_limit(requests: 9, per: 60s) on internet -> a\n"),
    ),
    Example(
        "an external goes beside one without addresses that a guard admits",
        shop("policy readers = allow(callers: [internet]) on * -> a\n"),
        shop("policy readers = allow(callers: [internet]) on * -> a\n", (OFFICE, "")),
    ),
    # ---- assumptions ----
    Example(
        "a guard moves to its senders",
        shop(ALLOW.format("a, c", "*")),
        shop(ALLOW.format("a, c", "*").replace("@in", "@e")),
    ),
    Example(
        "a log moves to its senders",
        shop("@ingress\n" + COUNTS.format("*", "b")),
        shop("@egress\n" + COUNTS.format("*", "b")),
    ),
    Example(
        "a sender is not trusted any more",
        shop("@egress\n" + COUNTS.format("a", "b")),
        shop(
            "@egress\n" + COUNTS.format("a", "b"),
            ("service a, c, f { http 8080 }", "service a { http 8080  untrusted }\nservice c, f { http 8080 }"),
        ),
    ),
    Example(
        "a new sender of a closed destination",
        shop("@egress\n" + COUNTS.format("*", "b")),
        shop("@egress\n" + COUNTS.format("*", "b"), NEW_CALL),
    ),
    # ---- ports of a closed destination ----
    Example("a port is closed beside another one", shop(ONE_CLOSED, TWO, BOTH), shop(TWO_CLOSED, TWO, BOTH)),
    Example(
        "a new policy needs a port closed beside another one",
        shop(ONE_CLOSED, TWO, BOTH),
        shop(ONE_CLOSED + "@egress\npolicy more = access_log() on * -> b:8081\n", TWO, BOTH),
    ),
    Example(
        "a port that was closed by its target alone",
        shop(ONE_CLOSED, ("service b { http 8080", "service b { http 8080  http 8081 -> 8080"), BOTH),
        shop(ONE_CLOSED, TWO, BOTH),
    ),
    Example(
        "a new sender of an open port of a closed destination",
        shop(ONE_CLOSED, TWO, ONE),
        shop(ONE_CLOSED, TWO, F_TO_TWO),
    ),
    Example("an open port of a closed destination comes", shop(ONE_CLOSED, ONE), shop(ONE_CLOSED, TWO, ONE)),
    Example(
        "another number of a closed target",
        shop(ONE_CLOSED, ONE),
        shop("", ("service b { http 8080", "service b { http 8090 -> 8080"), ("a, c -> b", "a, c -> b:8090")),
    ),
    Example(
        "other pods are selected",
        shop(ALLOW.format("a, c", "*")),
        shop(
            ALLOW.format("a, c", "*"),
            ("service a, c, f { http 8080 }", "service a { http 8080  namespace web }\nservice c, f { http 8080 }"),
        ),
    ),
    # ---- order, kinds, ports ----
    Example("reordered", shop(HEADER.format("") + GOLD), shop(GOLD + HEADER.format(""))),
    Example(
        "a new policy writes what another reads",
        shop(GOLD),
        shop("@ingress\n" + HEADER.format("") + GOLD),
    ),
    Example(
        "a new policy writes what another writes",
        shop(HEADER.format("")),
        shop(HEADER.format("") + HEADER.format("").replace("tier =", "late =").replace("gold", "free")),
    ),
    Example(
        "a new split before a policy",
        shop("@egress\n" + COUNTS.format("a", "b"), ("call b -> d", "call b -> d\ncall a -> d")),
        shop(
            "policy canary = split(to: d, percent: 5%) on a -> b\n@ingress\n" + COUNTS.format("a", "b"),
            ("call b -> d", "call b -> d\ncall a -> d"),
        ),
    ),
    Example(
        "a new retry before a timeout",
        shop("policy slow = timeout(after: 1s) on a -> b\n"),
        shop("policy again = retry(attempts: 2) on a -> b\npolicy slow = timeout(after: 1s) on a -> b\n"),
    ),
    Example(
        "another kind",
        shop("policy edge = request_count() on a -> b\n"),
        shop("policy edge = deny() on a -> b\n"),
    ),
    Example(
        "another effect of the program's own kind",
        shop(OWN.format("@effect(writes(header))")),
        shop(OWN.format("@effect(reads(header))")),
    ),
    Example(
        "another protocol",
        shop(COUNTS.format("a", "b")),
        shop(COUNTS.format("a", "b"), ("service b { http", "service b { grpc")),
    ),
    Example(
        "a script before other policies",
        shop(GOLD + HEADER.format("")),
        shop('@ingress\npolicy own = lua(script: "filter.lua") on a -> b\n' + GOLD + HEADER.format("")),
    ),
    Example(
        "a kind turns its own direction round, and an argument changes",
        shop(OWN.format("@weaker(value: more)").replace("string", "int").replace('"1"', "1")),
        shop(OWN.format("@weaker(value: less)").replace("string", "int").replace('"1"', "9")),
    ),
    Example(
        "a kind becomes a guard", shop(OWN.format("@effect(rejects)")), shop(OWN.format("@guard @effect(rejects)"))
    ),
    Example(
        "a kind has another parameter",
        shop(OWN.format("")),
        shop(OWN.format("").replace("string", "string, more: int = 1")),
    ),
    # ---- names and addresses ----
    Example("another host of an external", shop(OUTSIDE, STRIPE), shop(OUTSIDE, STRIPE, ("stripe.com", "stripe.org"))),
    Example(
        "fewer addresses of an external that is called",
        shop(OUTSIDE, STRIPE),
        shop(OUTSIDE, STRIPE, ("10.8.0.0/16", "10.8.1.0/24")),
    ),
    Example(
        "more addresses of an external that `*` leaves out",
        shop("@ingress\n" + COUNTS.format("* except office", "b")),
        shop("@ingress\n" + COUNTS.format("* except office", "b"), ("10.9.0.0/16", "10.0.0.0/8")),
    ),
    Example(
        "senders of a closed destination are elsewhere",
        shop("@egress\n" + COUNTS.format("*", "b")),
        shop("@egress\n" + COUNTS.format("*", "b"), ELSEWHERE),
    ),
    Example(
        "a named caller has other labels",
        shop("@ingress\n" + COUNTS.format("a", "b")),
        shop(
            "@ingress\n" + COUNTS.format("a", "b"),
            (
                "service a, c, f { http 8080 }",
                'service a { http 8080  labels { app = "x" } }\nservice c, f { http 8080 }',
            ),
        ),
    ),
    Example(
        "a guard admits one more, for more requests",
        shop('@ingress\npolicy readers = allow(callers: [a]) on * -> b when path == "/x"\n'),
        shop('@ingress\npolicy readers = allow(callers: [a, f]) on * -> b when path starts_with "/x"\n'),
    ),
    # ---- undeclared callers that a guard names ----
    Example(
        "an external that a guard names goes",
        shop(DENY.format("{office, f}")),
        shop(DENY.format("f"), (OFFICE, "")),
    ),
    Example(
        "a service that a guard names goes",
        shop(DENY.format("{office, f}")),
        shop(DENY.format("office"), ("service a, c, f", "service a, c")),
    ),
    Example(
        "an external that a guard names has fewer addresses",
        shop(DENY.format("office")),
        shop(DENY.format("office"), ("10.9.0.0/16", "10.9.0.0/24")),
    ),
    Example(
        "an external comes beside one without addresses that a guard names",
        shop(DENY.format("{internet, f}"), (OFFICE, "")),
        shop(DENY.format("{internet, f}")),
    ),
    Example(
        "an external comes inside one that a guard names",
        shop(DENY.format("office")),
        shop(DENY.format("office"), (OFFICE, OFFICE + '\nexternal branch { cidr "10.9.1.0/24" }')),
    ),
    Example(
        "an external goes inside one that a guard admits",
        shop(ALLOW.format("office", "*"), (OFFICE, OFFICE + '\nexternal branch { cidr "10.9.1.0/24" }')),
        shop(ALLOW.format("office", "*")),
    ),
    Example(
        "a service becomes an unknown caller, and a guard admits these",
        shop(ALLOW.format("internet", "*")),
        shop(
            ALLOW.format("internet", "*"),
            ("service a, c, f { http 8080 }", "service a, c { http 8080 }\nservice f { http 8080  host_network }"),
        ),
    ),
    Example(
        "a service that a guard names has other labels",
        shop(DENY.format("f")),
        shop(
            DENY.format("f"),
            (
                "service a, c, f { http 8080 }",
                'service a, c { http 8080 }\nservice f { http 8080  labels { app = "x" } }',
            ),
        ),
    ),
    Example(
        "a guard no longer names a caller whose call goes",
        shop(DENY.format("{c, f}")),
        shop(DENY.format("f"), NO_CALL),
    ),
    Example(
        "`*` leaves out a caller whose call goes",
        shop(QUOTA.format("requests: 90, per: 60s")),
        shop(QUOTA.format("requests: 90, per: 60s").replace("*", "* except c"), NO_CALL),
    ),
    Example(
        "a service that a guard names gets another name, and keeps its pods",
        shop(DENY.format("{c, f}"), F_LABELS),
        shop(DENY.format("c"), F_LABELS, ("service f {", "service g {")),
    ),
    Example(
        "an external goes with its call, and a guard named it",
        shop(DENY.format("{c, office}"), ("call a, c -> b", "call a, c, office -> b")),
        shop(DENY.format("c"), (OFFICE, "")),
    ),
    Example(
        "a caller gets another name, and keeps its pods",
        shop(COUNTS.format("{a, f}", "b"), F_LABELS, NEW_CALL),
        shop(
            COUNTS.format("a", "b"),
            F_LABELS,
            ("service f {", "service g {"),
            ("call a, c -> b", "call a, c, g -> b"),
        ),
    ),
    Example(
        "a caller gets another name, and its policy follows",
        shop(COUNTS.format("{a, f}", "b"), F_LABELS, NEW_CALL),
        shop(
            COUNTS.format("{a, g}", "b"),
            F_LABELS,
            ("service f {", "service g {"),
            ("call a, c -> b", "call a, c, g -> b"),
        ),
    ),
    Example(
        "a script after a policy with a match",
        shop(GOLD),
        shop(GOLD + '@ingress\npolicy own = lua(script: "filter.lua") on * -> b\n'),
    ),
    # ---- calls ----
    Example(
        "a destination gets another name, and keeps its pods",
        shop("@ingress\n" + COUNTS.format("*", "{b, d}")),
        shop(
            "@ingress\n" + COUNTS.format("*", "d"),
            ("service b {", "service bb {"),
            ("call a, c -> b", "call a, c -> bb"),
            ("call b ->", "call bb ->"),
        ),
    ),
    Example(
        "a destination goes, and a new one shares labels with others",
        shop(
            "@ingress\n" + COUNTS.format("*", "{b, d}"), ("service d {", 'service d { labels { app = "b" tier = "db" }')
        ),
        shop(
            "@ingress\n" + COUNTS.format("*", "d"),
            ("service d {", 'service d { labels { app = "b" tier = "db" }'),
            ("service b {", "service bb {"),
            ("call a, c -> b", "call a, c -> bb"),
            ("call b ->", "call bb ->"),
        ),
    ),
    Example(
        "a destination gets another name, and its policy follows",
        shop("@ingress\n" + COUNTS.format("*", "b")),
        shop(
            "@ingress\n" + COUNTS.format("*", "bb"),
            ("service b {", "service bb {"),
            ("call a, c -> b", "call a, c -> bb"),
            ("call b ->", "call bb ->"),
        ),
    ),
    Example(
        "a second port leads to the first one's target",
        shop("@ingress\n" + COUNTS.format("*", "b:8080")),
        shop(
            "@ingress\n" + COUNTS.format("*", "b:8080"),
            ("service b { http 8080", "service b { http 8080  http 9090 -> 8080"),
            ("call a, c -> b", "call a, c -> b:8080"),
        ),
    ),
    Example(
        "another port number, the same target",
        shop("@ingress\n" + COUNTS.format("*", "{b, d}")),
        shop("@ingress\n" + COUNTS.format("*", "d"), ("service b { http 8080", "service b { http 9090 -> 8080")),
    ),
    Example(
        "another port number",
        shop("@ingress\n" + COUNTS.format("*", "b")),
        shop("@ingress\n" + COUNTS.format("*", "b"), ("service b { http 8080", "service b { http 8081")),
    ),
    Example(
        "a call went with its policy", shop(COUNTS.format("{a, c}", "b")), shop(COUNTS.format("{a, c}", "b"), NO_CALL)
    ),
    Example(
        "a call went, and a guard refuses it",
        shop(ALLOW.format("a", "*") + "@ingress\n" + COUNTS.format("{a, c}", "b")),
        shop(ALLOW.format("a", "*") + "@ingress\n" + COUNTS.format("{a, c}", "b"), NO_CALL),
    ),
    Example(
        "a service went",
        shop("@ingress\n" + COUNTS.format("*", "d")),
        shop("", ("service d { http 8080 }", ""), ("call b -> d", "")),
    ),
)


def found(base: str, head: str) -> tuple[str, ...]:
    before, after = plan_of(base), plan_of(head)
    result = findings(before, after, renames(before, after))
    return tuple(line(each) for each in (*result.weaker, *result.stricter, *result.gone))


def line(finding: Finding) -> str:
    calls = ", ".join(f"{call.source} -> {call.destination}" for call in finding.calls)
    return f"{finding.word} {finding.policy}: {calls}: {finding.text}"


def listing(example: Example) -> str:
    """What the golden file has of an example: its findings, and those of its reverse."""
    forward = (f"    {each}" for each in found(example.base, example.head))
    back = (f"    {each}" for each in found(example.head, example.base))
    return "\n".join((f"## {example.name}", *forward, "reverse", *back, ""))
