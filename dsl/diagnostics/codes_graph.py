"""Codes about several policies, and about the graph of calls. This module holds data only."""

from __future__ import annotations

GRAPH: dict[str, tuple[str, str, str, str]] = {
    "ADM420": (
        "authorization requests that need authorization themselves",
        "For `external_authorization`, an ADM sends a request of its own to the authorization service. If that "
        "request is in the scope of the same policy, or of another such policy, it needs authorization as well. "
        "One request would cause authorization requests until the first of them times out. Leave the "
        "authorization service out of the destinations with `except`.",
        "app shop\n"
        "\n"
        "service web, api, authz { http 8080 }\n"
        "call web -> api\n"
        "policy known = external_authorization(service: authz) on * -> *\n",
        "app shop\n"
        "\n"
        "service web, api, authz { http 8080 }\n"
        "call web -> api\n"
        "policy known = external_authorization(service: authz) on * -> * except authz\n",
    ),
    "ADM421": (
        "the target of a mirror or a split is one of the senders",
        "The calls that the target makes because of a copy would be copied to it again, without end. Leave its "
        "calls out of the scope with `except`.",
        "app shop\n"
        "\n"
        "service web, api, db, shadow { http 8080 }\n"
        "call web -> api, shadow\n"
        "call api, shadow -> db\n"
        "policy m = mirror(to: shadow) on * -> api, db\n",
        "app shop\n"
        "\n"
        "service web, api, db, shadow { http 8080 }\n"
        "call web -> api, shadow\n"
        "call api, shadow -> db\n"
        "policy m = mirror(to: shadow) on web -> api\n",
    ),
    "ADM422": (
        "calls of an authorization service or a mirror's target lead back into the scope",
        "This is a warning. A service that an ADM asks, or that receives copies, may make calls of its own for "
        "each request. If one of these calls, or a call that follows from it, is in the scope of the policy, it "
        "causes one more request to that service. admc does not know whether the service makes the call for each "
        "request; if it does, the requests never end. Leave those calls out of the scope with `except`.",
        "app shop\n"
        "\n"
        "service web, api, authz, users { http 8080 }\n"
        "call web -> api\n"
        "call authz -> users\n"
        "policy known = external_authorization(service: authz) on * -> * except authz\n",
        "app shop\n"
        "\n"
        "service web, api, authz, users { http 8080 }\n"
        "call web -> api\n"
        "call authz -> users\n"
        "policy known = external_authorization(service: authz) on * except authz -> * except authz\n",
    ),
    "ADM423": (
        "a timeout for each attempt, and none for all attempts",
        "This is a note; it does not change the exit code. A timeout that is declared before a retry limits all "
        "attempts together. A timeout that is declared after it limits each attempt. Here only the second form is "
        "used, so a request may take as many times the timeout as there are attempts. This may be intended.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "call web -> api\n"
        "policy again = retry(attempts: 3) on web -> api\n"
        "policy slow = timeout(after: 2s) on web -> api\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "call web -> api\n"
        "policy slow = timeout(after: 2s) on web -> api\n"
        "policy again = retry(attempts: 3) on web -> api\n",
    ),
    "ADM424": (
        "a declared call that a guard always refuses",
        "This is a warning. The call is declared, but a guard without a `when` refuses its caller: each request "
        "gets status 403, or the connection is closed. Admit the caller, leave it out of the scope, or remove the "
        "call if it is not made. A guard whose `when` is always true counts as a guard without one. So do several "
        "guards if every request satisfies the `when` of at least one.",
        "app shop\n"
        "\n"
        "service web, api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call web, api -> db\n"
        "policy readers = allow(callers: [web]) on * -> db\n",
        "app shop\n"
        "\n"
        "service web, api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call web, api -> db\n"
        "policy readers = allow(callers: [web, api]) on * -> db\n",
    ),
    "ADM425": (
        "a guard that refuses authorization requests",
        "This is a warning. For `external_authorization`, an ADM sends a request to the authorization service, "
        "and the caller of that request is the service of the ADM. A guard in front of the authorization service "
        "admits none of the services whose ADM may send it, so every request gets status 403 (or passes without "
        "authorization, with `fail_open`).",
        "app shop\n"
        "\n"
        "service web, api, authz { http 8080 }\n"
        "call web -> api\n"
        "@ingress\n"
        "policy known = external_authorization(service: authz) on * -> api\n"
        "policy askers = allow(callers: [web]) on * -> authz\n"
        "call web -> authz\n",
        "app shop\n"
        "\n"
        "service web, api, authz { http 8080 }\n"
        "call web -> api\n"
        "@ingress\n"
        "policy known = external_authorization(service: authz) on * -> api\n"
        "policy askers = allow(callers: [web, api]) on * -> authz\n"
        "call web -> authz\n",
    ),
}
