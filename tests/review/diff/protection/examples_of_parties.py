"""Pairs of programs in which parties get other names, pods or addresses, or ADMs call something else."""

from __future__ import annotations

from typing import Final

from tests.review.diff.protection.examples import BANK, COUNTS, EXAMPLES, ODD, OFFICE, OUTSIDE, STRIPE, Example, shop

AUTHZ: Final = ("service d {", "service authz { http 8080 }\nservice d {")
ASKS: Final = "@ingress\npolicy known = external_authorization(service: authz, fail_open: true) on * -> b\n"
SLOW: Final = "policy slow = fault_delay(delay: 90ms) on * -> authz\n"
LIMITED: Final = "policy few = circuit_breaking(max_requests: 1) on * -> authz\n"
TIERED: Final = 'policy no = deny() on * -> {} when header("x-tier") == "free"\n'
TWO: Final = (("service b { http 8080", "service b { http 8080  http two 8081"), ("a, c -> b", "a, c -> b:8080, b:two"))
ON_TWO: Final = "policy script = odd() on a -> b:two\n" + COUNTS.format("a", "b")
STOP: Final = "policy stop = fault_abort(status: 403, percent: 50%) on * -> authz\n"

ONLY_A: Final = "network_policies enforced\npolicy only = allow(callers: [a, c]) on * -> b\n"
PINNED: Final = "pin only at {}\n"

OF_PARTIES: Final = (
    # ---- what an ADM asks, copies to, or sends a share to ----
    *(
        Example(f"what is asked: {name}", shop(ASKS + before, AUTHZ), shop(ASKS + after, AUTHZ, *edits))
        for name, before, after, edits in (
            ("a fault answers in its place", "", "policy d = fault_abort(status: 200) on * -> authz\n", ()),
            ("a fault on a fail-open way", "", "policy d = fault_abort(status: 503) on * -> authz\n", ()),
            ("its own header is removed", "", 'policy d = remove_request_header(name: "x-in") on * -> authz\n', ()),
            ("only what counts comes", "", "policy d = request_count() on * -> authz\n", ()),
            (
                "not on its way",
                "",
                "policy d = fault_abort(status: 200) on a -> authz\n",
                (("call a,", "call a -> authz\ncall a,"),),
            ),
            (
                *("another order on the way", SLOW + STOP, STOP + SLOW),
                (),
            ),
            ("another port", "", "", (("authz { http 8080", "authz { http 8081"),)),
            ("another target", "", "", (("authz { http 8080", "authz { http 8080 -> 8081"),)),
            ("another namespace", "", "", (("authz { http 8080", "authz { http 8080  namespace web"),)),
            ("other pods", "", "", (("authz { http 8080", 'authz { http 8080  labels { app = "f" }'),)),
            (
                "an external",
                "",
                "",
                (("service authz { http 8080", 'external authz { http 8080  host "authz.example"'),),
            ),
        )
    ),
    Example(
        "what is asked: another name, the same pods",
        shop(ASKS, AUTHZ),
        shop(
            ASKS.replace("authz", "door"),
            (AUTHZ[0], 'service door { http 8080  labels { app = "authz" } }\n' + AUTHZ[0]),
        ),
    ),
    Example(
        "what is asked: fewer replicas, and each has a limit",
        shop(ASKS + LIMITED, (AUTHZ[0], "service authz { http 8080  replicas 3 }\n" + AUTHZ[0])),
        shop(ASKS + LIMITED, AUTHZ),
    ),
    Example(
        "a copy is refused on its way",
        shop("policy copies = mirror(to: d) on a -> b\n", ("call a,", "call a -> d\ncall a,")),
        shop(
            "policy copies = mirror(to: d) on a -> b\n@ingress\npolicy no = deny() on a -> d\n",
            ("call a,", "call a -> d\ncall a,"),
        ),
    ),
    # ---- names of parties ----
    Example(
        "a caller becomes an external",
        shop("@ingress\npolicy readers = allow(callers: [a, f]) on * -> b\n", ("call a, c", "call a, f")),
        shop(
            "@ingress\npolicy readers = allow(callers: [a, f]) on * -> b\n",
            ("call a, c", "call a, f"),
            ("service a, c, f {", "external f\nservice a, c {"),
        ),
    ),
    Example(
        "an external gets another name, and its policy stays behind",
        shop(
            "@ingress\npolicy quota = rate_limit(requests: 9, per: 60s) on office -> b\n",
            ("call a,", "call office, a,"),
        ),
        shop("", ("external office", "external bureau"), ("call a,", "call bureau, a,")),
    ),
    Example(
        "an external is split, and one part is left out",
        shop(
            "@ingress\npolicy quota = rate_limit(requests: 9, per: 60s) on office -> b\n",
            ("call a,", "call office, a,"),
        ),
        shop(
            "@ingress\npolicy quota = rate_limit(requests: 9, per: 60s) on office -> b\n",
            (OFFICE, 'external office { cidr "10.9.0.0/17" }\nexternal annex { cidr "10.9.128.0/17" }'),
            ("call a,", "call office, annex, a,"),
        ),
    ),
    Example(
        "an external is written in parts",
        shop(
            "@ingress\npolicy quota = rate_limit(requests: 9, per: 60s) on office -> b\n",
            ("call a,", "call office, a,"),
        ),
        shop(
            "@ingress\npolicy quota = rate_limit(requests: 9, per: 60s) on office -> b\n",
            (OFFICE, 'external office { cidr "10.9.0.0/17"  cidr "10.9.128.0/17" }'),
            ("call a,", "call office, a,"),
        ),
    ),
    Example(
        "two halves are every address",
        shop("@egress\npolicy readers = allow(callers: [a, c, office]) on * -> b\n"),
        shop(
            "@ingress\npolicy readers = allow(callers: [a, c, office]) on * -> b\n",
            (OFFICE, 'external office { cidr "0.0.0.0/1"  cidr "128.0.0.0/1" }'),
        ),
    ),
    Example(
        "a host gets another external",
        shop(OUTSIDE, STRIPE),
        shop(
            OUTSIDE,
            STRIPE,
            ("external stripe {", 'external pay { tcp 443  host "api.stripe.com" }\nexternal stripe {'),
            ("call a -> stripe", "call a -> pay, stripe"),
        ),
    ),
    Example(
        "a limit holds twice for a host of two externals",
        shop(OUTSIDE, STRIPE),
        shop(
            OUTSIDE.replace("{stripe, bank}", "{stripe, bank, pay}"),
            STRIPE,
            ("external stripe {", 'external pay { tcp 443  host "api.stripe.com" }\nexternal stripe {'),
            ("call a -> stripe", "call a -> pay, stripe"),
        ),
    ),
    Example(
        "a header is written on a new way to a host",
        shop(TIERED.format("bank"), BANK),
        shop(
            'policy gold = set_request_header(name: "x-tier", value: "gold") on * -> pay\n'
            + TIERED.format("{bank, pay}"),
            BANK,
            ("external bank {", 'external pay { http 80  host "bank.example" }\nexternal bank {'),
            ("call a -> bank", "call a -> pay, bank"),
        ),
    ),
    Example(
        "a script is on a port that newly leads where another one led",
        shop(ODD + ON_TWO, *TWO),
        shop(ODD + ON_TWO, *TWO, ("http two 8081", "http two 8081 -> 8080")),
    ),
    Example(
        "a service gets another name, and keeps its pods by the default label",
        shop("@ingress\npolicy quota = rate_limit(requests: 9, per: 60s) on * -> d\n"),
        shop("", ("service d {", 'service dd { labels { app = "d" } '), ("call b -> d", "call b -> dd")),
    ),
    Example(
        "a service is split, and its pods are the same",
        shop("@ingress\n" + COUNTS.format("*", "d")),
        shop(
            "@ingress\n" + COUNTS.format("*", "d"),
            ("service d {", 'service dd { http 8080  labels { app = "d" } }\nservice d {'),
        ),
    ),
    Example("a guard goes from the destination to the network", shop(ONLY_A + PINNED.format("ingress")), shop(ONLY_A)),
    Example("a guard goes from the senders to the network", shop(ONLY_A + PINNED.format("egress")), shop(ONLY_A)),
    Example("a guard goes from the network to the destination", shop(ONLY_A), shop(ONLY_A + PINNED.format("ingress"))),
    Example(
        "a guard of the network admits a caller without a declared call",
        shop(ONLY_A + PINNED.format("network")),
        shop(ONLY_A.replace("[a, c]", "[a, c, f]") + PINNED.format("network")),
    ),
    Example(
        "a closing for a policy of the senders goes to a guard of the network that admits one more",
        shop(COUNTS.format("*", "b") + "pin seen at egress\n"),
        shop(ONLY_A.replace("[a, c]", "[a, c, f]") + PINNED.format("network")),
    ),
    Example(
        "a service gets the network of its node, beside a guard of the network",
        shop("accept host_network\n" + ONLY_A),
        shop("accept host_network\n" + ONLY_A, ("service d { http 8080 }", "service d { http 8080  host_network }")),
    ),
    Example(
        "a guard of the network admits a caller whose call is no longer declared",
        shop(ONLY_A + PINNED.format("network") + COUNTS.format("a", "b")),
        shop(ONLY_A + PINNED.format("network") + COUNTS.format("a", "b"), ("call a, c -> b", "call c -> b")),
    ),
    Example(
        "a declared sender gets the pods of a caller that a guard of the network admits",
        shop(ONLY_A.replace("[a, c]", "[a, c, f]") + PINNED.format("network")),
        shop(
            ONLY_A.replace("[a, c]", "[a, c, f]") + PINNED.format("network"),
            (
                "service a, c, f { http 8080 }",
                'service a, f { http 8080 }\nservice c { http 8080  labels { app = "f" } }',
            ),
        ),
    ),
    Example(
        "a caller gets the pods of another one",
        shop("@ingress\n" + COUNTS.format("a", "b")),
        shop(
            "@ingress\n" + COUNTS.format("a", "b"),
            (
                "service a, c, f { http 8080 }",
                'service a, f { http 8080 }\nservice c { http 8080  labels { app = "a" } }',
            ),
        ),
    ),
)
ALL: Final = (*EXAMPLES, *OF_PARTIES)
