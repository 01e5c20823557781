"""Codes about scopes and policies: data only, apart because it is long."""

from __future__ import annotations

SCOPES: dict[str, tuple[str, str, str, str]] = {
    "ADM401": (
        "a kind does not carry the protocol of a call in scope",
        "Requests can be seen on `http` and `grpc` only, and each kind says which protocols it is "
        "for. `*` means every call, also those of databases. Narrow the scope with `except`. What is inside TLS "
        "that the application speaks itself cannot be seen either: such a port is `tcp`, whatever it carries.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy quota = rate_limit(requests: 10, per: 1s) on * -> *\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy quota = rate_limit(requests: 10, per: 1s) on * -> * except db\n",
    ),
    "ADM402": (
        "two policies of an exclusive kind on one call",
        "Of two timeouts, retries or balancing choices for the same request only one could hold. They"
        " may share a call if their matches are proven to exclude each other. A policy between the two that writes what"
        " the matches look at leaves nothing to prove: each match is looked at where its policy stands.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy slow = timeout(after: 1s) on web -> api\n"
        "policy slower = timeout(after: 2s) on web -> api\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        'policy slow = timeout(after: 1s) on web -> api when path == "/a"\n'
        'policy slower = timeout(after: 2s) on web -> api when path == "/b"\n',
    ),
    "ADM403": (
        "the target of a mirror or a split is not a declared call",
        "The sender itself calls the target, so that call has to be declared like any other, with the"
        " protocol of the requests.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "service shadow { http 8080 }\n"
        "policy m = mirror(to: shadow) on web -> api\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "service shadow { http 8080 }\n"
        "call web -> shadow\n"
        "policy m = mirror(to: shadow) on web -> api\n",
    ),
    "ADM404": (
        "a policy applies to no declared call",
        "This is a warning. A guard still refuses undeclared callers; any other policy does nothing.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy log = access_log() on api -> web\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy log = access_log() on web -> api\n",
    ),
    "ADM405": (
        "a selector selects nothing",
        "This is a warning: no service has a name that fits the pattern, or those labels, or `except` leaves all out "
        "again that were selected.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy log = access_log() on * -> {api, mongo_*}\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy log = access_log() on * -> {api, d*}\n",
    ),
    "ADM406": (
        "`*` cannot mean every caller of an external",
        "This is a warning. No NetworkPolicy closes a party outside the mesh, so the policy is "
        "enforced at the callers that the program declares.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "external stripe { http 80 }\n"
        "call web -> stripe\n"
        "policy log = access_log() on * -> stripe\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "external stripe { http 80 }\n"
        "call web -> stripe\n"
        "policy log = access_log() on web -> stripe\n",
    ),
    "ADM407": (
        "not a regular expression that Envoy can run",
        "Envoy uses RE2: no lookaround, no backreferences, no possessive repetition. The whole value has to match, and "
        "the expression may take 90 instructions (`admc check` says how many it takes).",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        'policy log = access_log() on web -> api when path matches "/(?=a)"\n',
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        'policy log = access_log() on web -> api when path matches "/a.*"\n',
    ),
    "ADM408": (
        "a match compares something unknown",
        'A match compares `path`, `method`, or a header: `header("x-tier")`.',
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        'policy log = access_log() on web -> api when verb == "GET"\n',
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        'policy log = access_log() on web -> api when method == "GET"\n',
    ),
    "ADM409": (
        "a match on a `tcp` call",
        "A `tcp` call is a stream of bytes: it has no path, method or headers.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        'policy log = access_log() on * -> * when path == "/"\n',
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        'policy log = access_log() on * -> * except db when path == "/"\n',
    ),
    "ADM410": (
        "a pin has no effect",
        "The calls of a pin are among those of its policy, and so is whatever it names.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy log = access_log() on web -> api\n"
        "pin log at ingress on api -> db\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy log = access_log() on web -> api\n"
        "pin log at ingress on web -> api\n",
    ),
    "ADM411": (
        "a side is unknown",
        "Sides are `ingress` (at the destination) and `egress` (at the source).",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy log = access_log() on web -> api\n"
        "pin log at server\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy log = access_log() on web -> api\n"
        "pin log at ingress\n",
    ),
    "ADM412": (
        "a metric is unknown or named twice",
        "Metrics are `adms`, `sidecars`, `cpu`, `latency` and `overhead`.",
        "app shop\n\nobjective minimize adm\n",
        "app shop\n\nobjective minimize adms\n",
    ),
    "ADM413": (
        "a port among the sources",
        "Callers have no port that a policy could speak of; destinations have.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy log = access_log() on web:8080 -> api\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy log = access_log() on web -> api:8080\n",
    ),
    "ADM414": (
        "no request has such a value",
        "A path starts with `/` and is compared without its query; a method is a word such as `GET`; cookies are "
        "compared one by one, and none holds `;` or `,`.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        'policy log = access_log() on web -> api when path == "users"\n',
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        'policy log = access_log() on web -> api when path == "/users"\n',
    ),
    "ADM415": (
        "the ports of a scope cannot be told apart",
        "The ports of a scope hold for all its destinations. Destinations of which different ports "
        "are meant need policies of their own.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api, cart { http 8080  http admin 9000 }\n"
        "call web -> api:8080, cart:9000\n"
        "policy log = access_log() on * -> api:8080, cart:9000\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api, cart { http 8080  http admin 9000 }\n"
        "call web -> api:8080, cart:9000\n"
        "policy log_a = access_log() on * -> api:8080\n"
        "policy log_c = access_log() on * -> cart:9000\n",
    ),
    "ADM416": (
        "the target of a mirror or a split is in its own scope",
        "Requests that go to the target already would be sent there again.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy m = mirror(to: api) on web -> api\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "service shadow { http 8080 }\n"
        "call web -> shadow\n"
        "policy m = mirror(to: shadow) on web -> api\n",
    ),
    "ADM417": (
        "a named source is not declared to call a destination",
        "A policy whose sources are named holds for their declared calls. One that is not declared meets no policy "
        "there, except guards, and policies whose source is `*`.",
        "app shop\n"
        "\n"
        "service web, mobile { http 8080 }\n"
        "service api { http 8080 }\n"
        "call web -> api\n"
        "policy log = access_log() on web, mobile -> api\n",
        "app shop\n"
        "\n"
        "service web, mobile { http 8080 }\n"
        "service api { http 8080 }\n"
        "call web, mobile -> api\n"
        "policy log = access_log() on web, mobile -> api\n",
    ),
    "ADM418": (
        "an outlier detection that never puts anybody out",
        "This is a warning. `max_ejected` is the share of a service's replicas that may be out at a time. Where there "
        "are several, one of them may always be; the only one stays, whatever it answers, unless the share is 100%. A "
        "service has one replica unless it says how many.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "call web -> api\n"
        "policy out = outlier_detection() on web -> api\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080  replicas 3 }\n"
        "call web -> api\n"
        "policy out = outlier_detection() on web -> api\n",
    ),
    "ADM419": (
        "a method that is not written in capitals",
        "This is a warning. Methods of requests are compared letter by letter: `get` is another method than `GET`, and "
        "no client sends it.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "call web -> api\n"
        'policy log = access_log() on web -> api when method == "get"\n',
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "call web -> api\n"
        'policy log = access_log() on web -> api when method == "GET"\n',
    ),
}
