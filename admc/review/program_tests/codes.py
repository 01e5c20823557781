"""Codes about tests of programs: title, explanation, and examples. This module holds data only."""

from __future__ import annotations

from collections.abc import Mapping

CODES: Mapping[str, tuple[str, ...]] = {
    "ADM840": (
        "a statement of a program stands in a file of tests",
        "`shop.test.adm` is about the program `shop.adm` beside it, and has statements that begin with `test`, and no "
        "others. It needs no `use`: the program is found by its name.",
        "policy quota = rate_limit(requests: 5, per: 1s) on * -> cart",
        "test limited = web -> cart meets quota",
    ),
    "ADM841": (
        "a test depends on what it leaves open",
        "What a test does not say about its request may be anything. Here a policy reads something that the test does "
        "not give, and the test would hold for some requests and fail for others. The hint says what to add. Of a "
        "token, the answer of an authorization service, or a chance, a test can only assume that the policy accepts "
        "the request: `passes POLICY`. Who the caller is may be open, too: an ADM at ingress and a NetworkPolicy know "
        "callers by their addresses, and the address of a node, or of two externals, is not that of one party.",
        "test members = web -> cart meets member_quota",
        'test members = web -> cart { header("x-member") "1" } meets member_quota',
    ),
    "ADM842": (
        "no request is like that",
        "A path begins with `/`; over gRPC it is `/package.Service/Method`, and the method is `POST`. A `tcp` call has "
        "no request, so nothing can be said about it. Each of `path` and `method` is given once; a header may have "
        "several lines, but cannot be absent as well. What no HTTP client can send is refused: blanks and letters "
        "beyond ASCII in a path, blanks around the value of a header, a request without `host`, a `CONNECT` with a "
        "path. So is an `upgrade` that ADMs do not pass on, since no policy sees it.",
        'test reads = web -> db { path "/carts" } is admitted',
        "test reads = web -> db is admitted",
    ),
    "ADM843": (
        "a test assumes what the program decides",
        "`passes` is for policies whose decision a test cannot show: `jwt`, `external_authorization`, a `fault_abort` "
        "with a chance, and kinds of your own that may reject. What `allow` and `deny` decide follows from the caller "
        "and the request.",
        "test reads = geo -> rate { passes rate_readers } is admitted",
        "test reads = geo -> rate is refused by rate_readers",
    ),
    "ADM844": (
        "a test about no service",
        "`adm at` and `no adm at` select services, as the scope of a policy does. A selector that selects none would "
        "make a test that holds for every placement.",
        "test bare = no adm at mongo-*",
        "test bare = no adm at mongodb-*",
    ),
    "ADM845": (
        "there are no tests",
        "The tests of `shop.adm` are in `shop.test.adm` beside it. A folder stands for all files below it whose names "
        "end in `.test.adm`. Without any test, a wrong path would look like tests that pass.",
        "",
        "admc test shop.adm",
    ),
    "ADM846": (
        "a file of tests is not a program",
        "A file whose name ends in `.test.adm` has tests about the program beside it, whose name is the same without "
        "`.test`. `admc test`, `admc check` and `admc fmt` read both.",
        "admc compile shop.test.adm",
        "admc compile shop.adm\nadmc test shop.test.adm",
    ),
    "ADM847": (
        "a file has too many tests",
        "A file has at most 10,000 tests.",
    ),
}
