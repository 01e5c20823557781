"""Codes about what policies mean together, on the graph of calls: data only, apart because it is long."""

from __future__ import annotations

GRAPH: dict[str, tuple[str, str, str, str]] = {
    "ADM420": (
        "questions about questions, without an end",
        "What an ADM asks for an `external_authorization` is a call to the asked service. Where that call is in the "
        "scope of the same policy, or of another one that asks, it is asked about as well. One request would then make "
        "questions until the first of them times out. Leave the asked service out of the destinations with `except`.",
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
        "What the target calls because of a copy would come back to it as one more copy, and so on without an end. "
        "Leave its calls out of the scope with `except`.",
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
        "what an asked service calls leads back into the scope",
        "This is a warning. A service that is asked, or gets copies, may make calls of its own to answer. Where one of "
        "these calls, or one that follows from it, is in the scope of the policy, it makes another question or copy. "
        "admc cannot see whether the service makes that call for each request; if so, requests never end. Leave those "
        "calls out of the scope with `except`.",
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
        "a timeout of each attempt, and none of all",
        "This is a note, and has no say in any exit code. A timeout that is declared before a retry limits all "
        "attempts together; one that is declared after it limits each attempt by itself. Here only the second form is "
        "used, so a request may take as many times as long as there are attempts. That may be what is meant.",
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
        "This is a warning. The program says that the call is made, and a guard without a `when` refuses its caller: "
        "each of its requests gets 403 (or a closed connection). Admit the caller, leave it out of the scope, or "
        "remove the call, if it is not made. A guard whose `when` is always true counts as one without; so do several "
        "guards of which every request fits the `when` of at least one.",
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
        "a guard that refuses questions",
        "This is a warning. For an `external_authorization` an ADM asks a service, and that question is a call from "
        "the service of the ADM. Here a guard in front of the asked service admits none of the services whose ADM may "
        "ask, so that every request is answered 403 (or passes unasked, with `fail_open`).",
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
