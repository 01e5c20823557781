"""Codes about kinds: data only, apart because it is long."""

from __future__ import annotations

KINDS: dict[str, tuple[str, str, str, str]] = {
    "ADM301": (
        "an annotation is unknown, or cannot stand there",
        "Kinds take `@ingress`, `@egress`, `@both`, `@guard`, `@state`, `@per_replica`, `@exclusive`,"
        " `@effect` and `@component`; policies take `@ingress` and `@egress`.",
        'app shop\n\n@ingres\nkind own() for http template "own.yaml"\n',
        'app shop\n\n@ingress\nkind own() for http template "own.yaml"\n',
    ),
    "ADM302": (
        "what an annotation has in parentheses does not fit",
        "Sides take a stage (`filter`, `routing`, `upstream`, `cluster`), `@state` takes "
        "`destination`, `@component` one name, `@effect` effects.",
        'app shop\n\n@ingress(filters)\nkind own() for http template "own.yaml"\n',
        'app shop\n\n@ingress(filter)\nkind own() for http template "own.yaml"\n',
    ),
    "ADM303": (
        "annotations contradict each other",
        "A kind needs a side. What is kept for each replica stays at ingress and is no state of the "
        "destination; what needs both ends keeps no state.",
        'app shop\n\n@guard\nkind own() for http template "own.yaml"\n',
        'app shop\n\n@guard @ingress\nkind own() for http template "own.yaml"\n',
    ),
    "ADM304": (
        "an effect is unknown",
        "Effects are `reads(x)`, `writes(x)`, `rejects`, `delays`, `repeats`, `counts`, `times_out`, "
        "`routes`, `copies`, where `x` is `header`, `path`, `method`, `body`, `status`, "
        "`response_header` or `response_body`; `none` says that there are none.",
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
        "A kind marked `@both` works only if sender and receiver take part.",
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
        "a template has a place that is no parameter",
        "Each `${name}` in the template is the name of a parameter of the kind. The template of the "
        "example has `${max}`.",
        'app shop\n\n@ingress\nkind own(limit: int) for http template "filter.yaml"\n',
        'app shop\n\n@ingress\nkind own(max: int) for http template "filter.yaml"\n',
    ),
    "ADM309": (
        "an annotation or an effect is given twice",
        "Each annotation stands once, except `@effect`, whose effects add up.",
        'app shop\n\n@ingress @ingress(filter)\nkind own() for http template "own.yaml"\n',
        'app shop\n\n@ingress(filter)\nkind own() for http template "own.yaml"\n',
    ),
    "ADM310": (
        "a kind of one's own has no template",
        "What a kind of the prelude becomes in a proxy is part of admc. A kind of your own is carried out by the Envoy "
        "filter that its template describes.",
        "app shop\n\n@ingress\nkind own() for http\n",
        'app shop\n\n@ingress\nkind own() for http template "own.yaml"\n',
    ),
    "ADM311": (
        "a kind of one's own is no filter",
        "A template describes a filter, so its kind works at the stage `filter`, or at the egress of `http` and `grpc` "
        "at the stage `upstream`, where it meets each attempt of a retry. Routing and clusters are for built-in kinds.",
        'app shop\n\n@egress(routing)\nkind own() for http template "own.yaml"\n',
        'app shop\n\n@egress\nkind own() for http template "own.yaml"\n',
    ),
}
