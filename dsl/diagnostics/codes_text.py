"""Codes about text, syntax and names. This module holds data only."""

from __future__ import annotations

SYNTAX: dict[str, tuple[str, str, str, str]] = {
    "ADM001": (
        "a statement is not complete or has something out of place",
        "The statement has a word or sign in a place where another one must be, or it ends too early. The message "
        "lists the words and signs that can be there. A statement ends at the end of its line, except inside "
        "brackets and after a `,` or `->`: then it continues in the next line that is not blank, unless that line "
        "begins a statement.",
        "app shop\n\nservice web { http }\n",
        "app shop\n\nservice web { http 8080 }\n",
    ),
    "ADM002": (
        "a character has no meaning",
        "Outside strings and comments, a program consists of names, numbers, strings in double quotes, and the "
        "signs `-> == != .. { } ( ) [ ] , : = @ ?`.",
        "app shop\n\nservice web { http 8080; replicas 2 }\n",
        "app shop\n\nservice web { http 8080  replicas 2 }\n",
    ),
    "ADM003": (
        "a string is not closed",
        'A string starts and ends with `"` on one line. A line break inside a string is written `\\n`.',
        'app shop\n\nexternal stripe { tcp 443  host "api.stripe.com }\n',
        'app shop\n\nexternal stripe { tcp 443  host "api.stripe.com" }\n',
    ),
    "ADM004": (
        "an unknown escape in a string",
        'In a string, `\\"`, `\\\\`, `\\n`, `\\t`, `\\r` and `\\uXXXX` are escapes. A backslash itself is written '
        'twice, also in regular expressions: `"\\\\d+"`.',
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        'policy log = access_log() on web -> api when path matches "/\\d+"\n',
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        'policy log = access_log() on web -> api when path matches "/\\\\d+"\n',
    ),
    "ADM005": (
        "a bracket is never closed",
        "Inside brackets a statement continues after the end of the line. So that an unclosed bracket does not "
        "take the rest of the file, the statement also ends at the next line that clearly begins a statement.",
        "app shop\n\nservice web { http 8080\nservice api { http 8080 }\n",
        "app shop\n\nservice web { http 8080 }\nservice api { http 8080 }\n",
    ),
    "ADM006": (
        "nesting is too deep",
        "Brackets may be nested 64 levels deep, and `and`, `or` and `not` in a match 16 levels: Envoy accepts no "
        "deeper configuration. An `and` directly in an `and`, or an `or` directly in an `or`, is not a level.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy log = access_log() on web -> api when " + "not " * 70 + 'path == "/"\n',
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        'policy log = access_log() on web -> api when path == "/"\n',
    ),
    "ADM007": (
        "an annotation without a kind or policy",
        "An annotation stands before the `kind` or the `policy` that it describes, on the same line or on a line "
        "of its own.",
        "app shop\n\n@ingress\nservice web { http 8080 }\n",
        "app shop\n\nservice web { http 8080 }\n",
    ),
    "ADM008": (
        "a statement starts with an unknown word",
        "A statement starts with `app`, `use`, `topology`, `profile`, `external`, `service`, `call`, `kind`, "
        "`policy`, `pin`, `objective`, `request`, `network_policies` or `accept`.",
        "app shop\n\nsrvice web { http 8080 }\n",
        "app shop\n\nservice web { http 8080 }\n",
    ),
    "ADM009": (
        "a name, a number or a statement is too long",
        "A name or a number has at most 200 characters, a statement at most 500,000 words and signs.",
        "app shop\n\nservice " + "web" * 70 + " { http 8080 }\n",
        "app shop\n\nservice web { http 8080 }\n",
    ),
    "ADM010": (
        "two labels without a value stand side by side",
        "A label without a value has the name of its service as its value. Two such labels on one line need a `,` "
        'between them. Without this rule, `tier "db"`, a label whose `=` is missing, would be two labels.',
        'app shop\n\nservice web { http 8080  labels { tier "front" } }\n',
        'app shop\n\nservice web { http 8080  labels { app  tier = "front" } }\n',
    ),
}
NAMES: dict[str, tuple[str, str, str, str]] = {
    "ADM101": (
        "a service or external is not declared",
        "The name is declared neither as a service nor as an external, here or in a file that the program uses.",
        "app shop\n\nservice web { http 8080 }\nservice api { http 8080 }\ncall web -> apo\n",
        "app shop\n\nservice web { http 8080 }\nservice api { http 8080 }\ncall web -> api\n",
    ),
    "ADM102": (
        "a kind is not declared",
        "The kind is neither built in nor declared with `kind`. `admc explain kinds` lists the built-in kinds. "
        "For a name that Istio, Linkerd or Envoy uses, the message names the matching built-in kind.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy quota = ratelimit(requests: 10, per: 1s) on web -> api\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy quota = rate_limit(requests: 10, per: 1s) on web -> api\n",
    ),
    "ADM103": (
        "a policy is not declared",
        "A `pin` names a policy of the program.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy log = access_log() on web -> api\n"
        "pin logs at ingress\n",
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
    "ADM104": (
        "a port does not exist",
        "A call or a policy names a port by its name or its number. The service has no such port.",
        "app shop\n\nservice web { http 8080 }\nservice api { http 8080  http admin 9000 }\ncall web -> api:amin\n",
        "app shop\n\nservice web { http 8080 }\nservice api { http 8080  http admin 9000 }\ncall web -> api:admin\n",
    ),
    "ADM105": (
        "a name is declared twice",
        "Services and externals share one set of names. Kinds, policies and the parameters of a kind each have "
        "their own set. A kind cannot have the name of a built-in kind.",
        "app shop\n\nservice web { http 8080 }\nexternal web\n",
        "app shop\n\nservice web { http 8080 }\nexternal internet\n",
    ),
    "ADM106": (
        "the `app` line is missing",
        "A program names its application once, in the main file.",
        "service web { http 8080 }\n",
        "app shop\n\nservice web { http 8080 }\n",
    ),
    "ADM107": (
        "a second `app` line",
        "A program describes one application.",
        "app shop\napp store\n",
        "app shop\n",
    ),
    "ADM108": (
        "a used file has an `app` line",
        "A file that another file uses is part of that application, so only the main file has an `app` line. The "
        "example uses a file `other.adm` that is a program of its own.",
        'app shop\n\nuse "other.adm"\n',
        'app shop\n\nuse "kinds.adm"\n',
    ),
    "ADM109": (
        "an item of a body is given twice",
        "Each port number, port name, label, `replicas`, `rate` and so on may occur once in a body.",
        "app shop\n\nservice web { http 8080  replicas 2  replicas 3 }\n",
        "app shop\n\nservice web { http 8080  replicas 3 }\n",
    ),
    "ADM111": (
        "a callee has no port",
        "A service or external needs a port to be called, or to be the destination of a policy.",
        "app shop\n\nservice web { http 8080 }\nservice batch\ncall web -> batch\n",
        "app shop\n\nservice web { http 8080 }\nservice batch { http 8080 }\ncall web -> batch\n",
    ),
    "ADM112": (
        "a call does not say which port",
        "If the destination has several ports, the call must name one.",
        "app shop\n\nservice web { http 8080 }\nservice api { http 8080  http admin 9000 }\ncall web -> api\n",
        "app shop\n\nservice web { http 8080 }\nservice api { http 8080  http admin 9000 }\ncall web -> api:8080\n",
    ),
    "ADM113": (
        "a call between two externals",
        "Traffic between two parties outside the mesh does not pass the mesh, so no policy can be enforced on it.",
        "app shop\n\nexternal office\nexternal stripe { tcp 443 }\ncall office -> stripe\n",
        "app shop\n\nservice web { http 8080 }\nexternal stripe { tcp 443 }\ncall web -> stripe\n",
    ),
    "ADM114": (
        "a call is declared twice",
        "Source, destination and port identify a call. Its `rate` is the rate of all its requests.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "call web -> api\n"
        "call web -> api { rate 5/s }\n",
        "app shop\n\nservice web { http 8080 }\nservice api { http 8080 }\ncall web -> api { rate 5/s }\n",
    ),
    "ADM115": (
        "a second `objective`",
        "A program declares its objective once, with all metrics in their order.",
        "app shop\n\nobjective minimize adms\nobjective minimize sidecars\n",
        "app shop\n\nobjective minimize adms, then sidecars\n",
    ),
    "ADM116": (
        "a second `profile`",
        "The costs of a program are estimated by the figures of one profile, because each profile is of another "
        "platform. Figures of two profiles are never added. `admc profile diff` compares two profiles.",
        'app shop\n\nprofile meshinsight\nprofile "node.json"\n',
        "app shop\n\nprofile meshinsight\n",
    ),
    "ADM121": (
        "a second `network_policies enforced`",
        "The statement is about the whole cluster, so a program makes it once, in one of its files.",
        "app shop\n\nnetwork_policies enforced\nnetwork_policies enforced\n",
        "app shop\n\nnetwork_policies enforced\n",
    ),
    "ADM122": (
        "a second `accept host_network`",
        "The statement is about all services with `host_network`, so a program makes it once, in one of its files.",
        "app shop\n\nservice agent { http 9100  host_network }\naccept host_network\naccept host_network\n",
        "app shop\n\nservice agent { http 9100  host_network }\naccept host_network\n",
    ),
    "ADM123": (
        "`accept host_network` in a program without such a service",
        "A note. No service of the program shares the network of its node, so there is nothing to accept. It is no "
        "more than a note, since a cluster may show that a service does.",
        "app shop\n\nservice agent { http 9100 }\naccept host_network\n",
        "app shop\n\nservice agent { http 9100  host_network }\naccept host_network\n",
    ),
}
