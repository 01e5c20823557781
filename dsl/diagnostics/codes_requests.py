"""Codes about requests and tests. This module holds data only."""

from __future__ import annotations

_SHOP = "app shop\n\nexternal internet\nservice web, api, db { http 8080 }\ncall internet -> web\n"

REQUESTS: dict[str, tuple[str, str, str, str]] = {
    "ADM117": (
        "a step of a request is no declared call",
        "A request passes declared calls only: `request NAME on a -> b` needs `call a -> b`, and `call c` in its "
        "braces needs `call b -> c`. Policies apply to declared calls, so any other step would be counted nowhere.",
        f"{_SHOP}call web -> api\nrequest buy on internet -> web {{ rate 5/s  call api  call db }}\n",
        f"{_SHOP}call web -> api, db\nrequest buy on internet -> web {{ rate 5/s  call api  call db }}\n",
    ),
    "ADM118": (
        "requests exceed the rate of a call",
        "A declared rate is that of all requests of a call. Requests may make less, and the remainder is other "
        "traffic, but not more: each request counts with its rate, times its chance and `times`. Without a declared "
        "rate, a call has the rate of its requests.",
        f"{_SHOP}call web -> api {{ rate 20/s }}\n"
        "request buy on internet -> web { rate 15/s  call api { times 2 } }\n",
        f"{_SHOP}call web -> api {{ rate 40/s }}\n"
        "request buy on internet -> web { rate 15/s  call api { times 2 } }\n",
    ),
    "ADM119": (
        "a request is too large",
        "A request has at most 10,000 steps, and makes at most 1,000,000 calls if each of its chances occurs. Divide "
        "it into several requests.",
        f"{_SHOP}call web -> api\ncall api -> db\n"
        "request buy on internet -> web { call api { times 1000  call db { times 1000 } } }\n",
        f"{_SHOP}call web -> api\ncall api -> db\n"
        "request buy on internet -> web { call api { times 1000  call db { times 900 } } }\n",
    ),
    "ADM120": (
        "the chances of a request have too many outcomes",
        "The mean of the added latency is exact: of calls that run together the longest counts, and which one that is "
        "depends on the chances of all. So a request has at most 4,096 outcomes. Each call with a chance doubles "
        "them; of calls that are repeated with `times` only the number of each outcome counts. Chances in `async` "
        "calls do not count. Write several requests instead, each with its share of the rate.",
        f"{_SHOP}call web -> api, db\nrequest buy on internet -> web {{ rate 5/s\n"
        + "  call api { chance 50% }\n" * 13
        + "}\n",
        f"{_SHOP}call web -> api, db\nrequest buy on internet -> web {{ rate 5/s\n"
        + "  call api { chance 50% }\n" * 12
        + "}\n",
    ),
}

TESTS: dict[str, tuple[str, str, str, str]] = {
    "ADM130": (
        "a test stands in a program",
        "Tests about a program `shop.adm` stand in a file of their own beside it, `shop.test.adm`, which has no other "
        "statements. `admc test shop.adm` runs them. A program is the same with and without its tests.",
        f"{_SHOP}call web -> api\ntest reached = web -> api is admitted\n",
        f"{_SHOP}call web -> api\n",
    ),
    "ADM131": (
        "a gate stands in a program",
        "Gates about a program `shop.adm` stand in a file of their own beside it, `shop.gates.adm`, which has no other "
        "statements. `admc diff` reads it. A program is the same with and without its gates.",
        f"{_SHOP}call web -> api\ngate safe = fail when weaker\n",
        f"{_SHOP}call web -> api\n",
    ),
}
