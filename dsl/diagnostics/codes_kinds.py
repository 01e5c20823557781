"""Codes about kinds. This module holds data only."""

from __future__ import annotations

KINDS: dict[str, tuple[str, str, str, str]] = {
    "ADM301": (
        "an annotation is unknown, or not allowed here",
        "Kinds take `@ingress`, `@egress`, `@both`, `@guard`, `@state`, `@per_replica`, `@exclusive`,"
        " `@effect`, `@component` and `@weaker`; policies take `@ingress` and `@egress`. The network is no narrowing: "
        "write `pin NAME at network`.",
        'app shop\n\n@ingres\nkind own() for http template "own.yaml"\n',
        'app shop\n\n@ingress\nkind own() for http template "own.yaml"\n',
    ),
    "ADM302": (
        "the parentheses of an annotation are wrong",
        "The sides take a stage (`filter`, `routing`, `upstream`, `cluster`), `@state` takes `destination`, "
        "`@component` takes one name, `@effect` takes effects, and `@weaker` takes parameters with a direction.",
        'app shop\n\n@ingress(filters)\nkind own() for http template "own.yaml"\n',
        'app shop\n\n@ingress(filter)\nkind own() for http template "own.yaml"\n',
    ),
    "ADM303": (
        "annotations contradict each other",
        "A kind needs at least one side. A kind with a limit for each replica can only be enforced at ingress, "
        "and its state is not that of the destination as a whole. A kind that works at both ends cannot count: it "
        "would count each request twice.",
        'app shop\n\n@guard\nkind own() for http template "own.yaml"\n',
        'app shop\n\n@guard @ingress\nkind own() for http template "own.yaml"\n',
    ),
    "ADM304": (
        "an effect is unknown",
        "Effects are `reads(x)`, `writes(x)`, `rejects`, `delays`, `repeats`, `counts`, `times_out`, `routes` and "
        "`copies`, where `x` is `header`, `path`, `method`, `body`, `status`, `response_header` or "
        "`response_body`. `none` declares that the kind has no effects.",
        'app shop\n\n@ingress @effect(reads(headers))\nkind own() for http template "own.yaml"\n',
        'app shop\n\n@ingress @effect(reads(header))\nkind own() for http template "own.yaml"\n',
    ),
    "ADM305": (
        "a protocol is unknown or given twice",
        "Protocols are `tcp`, `http` and `grpc`.",
        'app shop\n\n@ingress\nkind own() for https template "own.yaml"\n',
        'app shop\n\n@ingress\nkind own() for http template "own.yaml"\n',
    ),
    "ADM306": (
        "a policy is narrowed to a side that its kind does not allow",
        "The annotations of a policy choose among the sides of its kind; they cannot add one.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "@ingress\n"
        "policy slow = timeout(after: 1s) on web -> api\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "@egress\n"
        "policy slow = timeout(after: 1s) on web -> api\n",
    ),
    "ADM307": (
        "a policy that needs both ends is narrowed to one",
        "A kind with `@both` works only if it is enforced at sender and receiver.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "@both\n"
        'kind sealed() for http template "own.yaml"\n'
        "@ingress\n"
        "policy s = sealed() on web -> api\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "@both\n"
        'kind sealed() for http template "own.yaml"\n'
        "policy s = sealed() on web -> api\n",
    ),
    "ADM308": (
        "a template uses an undeclared parameter",
        "Each `${name}` in the template must be the name of a parameter of the kind. The template of the example "
        "has `${max}`.",
        'app shop\n\n@ingress\nkind own(limit: int) for http template "filter.yaml"\n',
        'app shop\n\n@ingress\nkind own(max: int) for http template "filter.yaml"\n',
    ),
    "ADM309": (
        "an annotation, an effect or a direction is given twice",
        "An annotation may occur once. Only `@effect` may occur several times; its effects add up. A parameter has at "
        "most one direction in `@weaker`.",
        'app shop\n\n@ingress @ingress(filter)\nkind own() for http template "own.yaml"\n',
        'app shop\n\n@ingress(filter)\nkind own() for http template "own.yaml"\n',
    ),
    "ADM310": (
        "a user's kind has no template",
        "Only for built-in kinds does admc provide the Envoy configuration. A kind of your own needs a template "
        "of the Envoy filter that implements it.",
        "app shop\n\n@ingress\nkind own() for http\n",
        'app shop\n\n@ingress\nkind own() for http template "own.yaml"\n',
    ),
    "ADM311": (
        "a stage that a user's kind cannot have",
        "A template describes a filter, so its kind works at the stage `filter`. At the egress of `http` and "
        "`grpc` it may also work at the stage `upstream`, where it handles each attempt of a retry. Only built-in "
        "kinds work in routing and in clusters.",
        'app shop\n\n@egress(routing)\nkind own() for http template "own.yaml"\n',
        'app shop\n\n@egress\nkind own() for http template "own.yaml"\n',
    ),
    "ADM312": (
        "a direction in `@weaker` is wrong",
        "`@weaker` says which way a change of an argument makes a policy weaker: `more` or `less` for a number, a "
        "duration, a size or a percentage, `added` or `removed` for the items of a list. A parameter of another type "
        "has no direction, so each change of it is unclear.",
        'app shop\n\n@ingress @weaker(max: added)\nkind own(max: int) for http template "own.yaml"\n',
        'app shop\n\n@ingress @weaker(max: more)\nkind own(max: int) for http template "own.yaml"\n',
    ),
    "ADM313": (
        "a kind of a program in the network",
        "In the network, a NetworkPolicy alone decides which connections a destination receives. It runs no template, "
        "so `@network` is an annotation of the built-in kinds `allow` and `deny` only.",
        'app shop\n\n@ingress @network\nkind own() for http template "own.yaml"\n',
        'app shop\n\n@ingress\nkind own() for http template "own.yaml"\n',
    ),
}
