"""Codes about scopes and policies. This module holds data only."""

from __future__ import annotations

SCOPES: dict[str, tuple[str, str, str, str]] = {
    "ADM401": (
        "a kind does not support the protocol of a call in scope",
        "Only `http` and `grpc` calls have requests, and each kind lists its protocols. `*` means every call, "
        "also calls to databases. Narrow the scope with `except`. Requests inside TLS that the application itself "
        "speaks are not visible to a proxy: declare such a port as `tcp`.",
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
        "Of two timeouts, retries or load balancing choices for one request, only one can apply. Two such "
        "policies may share a call if their matches are proven to exclude each other. Each match sees the request "
        "as it is at its own policy. So if a policy between the two writes what the matches compare, nothing is "
        "proven.",
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
        "The sender calls the target, so that call has to be declared like any other call, with the protocol of "
        "the requests.",
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
        "This is a warning. A guard still refuses undeclared callers. Any other policy has no effect.",
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
        "This is a warning. No name matches the pattern, no service has the labels, or `except` leaves out all "
        "that was selected.",
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
        "This is a warning. No NetworkPolicy can close a party outside the mesh to undeclared callers, so the "
        "policy is enforced at the declared callers only.",
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
        "Envoy uses RE2, which has no lookaround, no backreferences and no possessive repetition. The expression "
        "must match the whole value, and may take 90 instructions; the message gives the number that it takes.",
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
        "The scope of a pin lies within the scope of its policy. A service or external that the pin names must be "
        "part of a call that the policy applies to.",
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
        "a place is unknown",
        "Places are `ingress` (the ADM of the destination), `egress` (the ADM of each source) and `network` (the "
        "NetworkPolicy of the destination).",
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
        "Metrics are `adms`, `sidecars`, `cpu`, `latency`, `closed`, `overhead` and `hops`.",
        "app shop\n\nobjective minimize adm\n",
        "app shop\n\nobjective minimize adms\n",
    ),
    "ADM413": (
        "a source with a port",
        "Callers have no ports. Only destinations do.",
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
        "A path starts with `/` and is compared without its query. A method is a word such as `GET`. Cookies are "
        "compared one by one, and a cookie contains neither `;` nor `,`.",
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
        "different ports of several destinations",
        "The ports of a scope apply to all its destinations. Write one policy for each group of destinations with "
        "the same ports.",
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
        "Requests that already go to the target would be sent to it again.",
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
        "A policy with named sources applies to their declared calls. An undeclared call meets only guards and "
        "policies whose source is `*`.",
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
        "an outlier detection that never ejects a replica",
        "This is a warning. `max_ejected` is the share of a service's replicas that may be ejected at a time. "
        "With several replicas, Envoy may always eject one. A single replica is never ejected, unless the share "
        "is 100%. A service has one replica unless it declares `replicas`.",
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
        "An error of a guard, elsewhere a warning. Methods are compared exactly: `get` is not `GET`, and no client "
        "sends it.",
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
    "ADM432": (
        "a port of TLS that is declared as HTTP",
        "A warning. Clients of ports 443 and 8443 mostly speak TLS. An ADM on such a call reads what a client sends as "
        "HTTP, answers 400, and the client's handshake fails. To an ADM, TLS is a connection: `tcp`.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        'external stripe { http 443  host "api.stripe.com" }\n'
        "call web -> stripe\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        'external stripe { tcp 443  host "api.stripe.com" }\n'
        "call web -> stripe\n",
    ),
    "ADM433": (
        "`accept drop` of a policy that no NetworkPolicy can enforce",
        "An ADM answers a call that it refuses; a NetworkPolicy drops it, and the caller waits for a timeout. "
        "`accept drop` allows that for declared calls that the policy refuses. It belongs to a policy of `allow` or "
        "`deny` from `*` without an `except`, without a match and without `@ingress` or `@egress`. Any other policy is "
        "enforced at ADMs only, and drops nothing.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> db\n"
        "policy only = allow(callers: [web]) on web -> db accept drop\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> db\n"
        "network_policies enforced\n"
        "policy only = allow(callers: [web]) on * -> db accept drop\n",
    ),
    "ADM434": (
        "`accept drop` in a program without `network_policies enforced`",
        "A note. Only a NetworkPolicy drops calls, and a program without that statement leaves no policy to one. An "
        "ADM answers the calls that the policy refuses.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> db\n"
        "policy only = allow(callers: [web]) on * -> db accept drop\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> db\n"
        "network_policies enforced\n"
        "policy only = allow(callers: [web]) on * -> db accept drop\n",
    ),
}
