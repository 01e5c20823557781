"""Codes about values and files: data only, apart because it is long."""

from __future__ import annotations

_SHOP = "app shop\n\nservice web { http 8080 }\nservice api { http 8080 }\ncall web -> api\n"
VALUES: dict[str, tuple[str, str, str, str]] = {
    "ADM201": (
        "a value is of another type",
        "The parameter of the kind says what fits: `admc explain KIND` shows the parameters of one kind, "
        "and `docs/kinds.md` those of every built-in one.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        'policy quota = rate_limit(requests: "10", per: 1s) on web -> api\n',
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy quota = rate_limit(requests: 10, per: 1s) on web -> api\n",
    ),
    "ADM202": (
        "a unit does not fit",
        "Durations are in `us`, `ms`, `s`, `m`, `h` or `d`; sizes in `B`, `KB`, `MB`, `GB`, `KiB`, "
        "`MiB` or `GiB`; rates end in `/s`, `/m` or `/h`; percentages in `%`. Counts have no unit.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy slow = timeout(after: 250) on web -> api\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy slow = timeout(after: 250ms) on web -> api\n",
    ),
    "ADM203": (
        "a number is out of range",
        "The hint says between which values it has to be, or what it has to be a whole multiple of. The kinds declare "
        "what Envoy can keep: a timeout in whole milliseconds, an age in whole seconds.",
        "app shop\n\nservice web { http 80800 }\n",
        "app shop\n\nservice web { http 8080 }\n",
    ),
    "ADM204": (
        "an argument is missing",
        "Parameters without a default, and not marked optional with `?`, have to be given.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy quota = rate_limit(requests: 10) on web -> api\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy quota = rate_limit(requests: 10, per: 1s) on web -> api\n",
    ),
    "ADM205": (
        "an argument is unknown",
        "The kind has no parameter of that name.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy quota = rate_limit(request: 10, per: 1s, requests: 10) on web -> api\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy quota = rate_limit(requests: 10, per: 1s) on web -> api\n",
    ),
    "ADM206": (
        "an argument or an item is given twice",
        "Each parameter gets one value, and a list has each item once.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy quota = rate_limit(requests: 10, per: 1s, per: 2s) on web -> api\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy quota = rate_limit(requests: 10, per: 1s) on web -> api\n",
    ),
    "ADM207": (
        "too many arguments, or one that needs a name",
        "Arguments without a name are taken in the order of the parameters, and none of them stands after a named one.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy quota = rate_limit(requests: 10, 1s) on web -> api\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy quota = rate_limit(10, per: 1s) on web -> api\n",
    ),
    "ADM208": (
        "not the name of a header",
        "Names of headers have letters, digits and signs such as `-`. They are compared in lower case. Path and method "
        "are no headers. Headers about one connection (`connection`, `keep-alive`, `proxy-connection`, `te`, "
        "`transfer-encoding`, `upgrade`) are for the next hop alone, so no policy works on them, except that a match "
        "may ask for `upgrade`; and `host` can be read, but not written.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        'policy tier = set_request_header(name: "x tier", value: "gold") on web -> api\n',
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        'policy tier = set_request_header(name: "x-tier", value: "gold") on web -> api\n',
    ),
    "ADM209": (
        "not one of the words that fit",
        "The parameter takes one of a few words, which the message lists.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy log = access_log(format: jason) on web -> api\n",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "service db { tcp 5432 }\n"
        "call web -> api\n"
        "call api -> db\n"
        "policy log = access_log(format: json) on web -> api\n",
    ),
    "ADM210": (
        "a name, label, host or address range cannot be used",
        "Labels and namespaces follow the rules of Kubernetes; `host` takes a host name or an "
        "address, `cidr` an address range.",
        'app shop\n\nexternal office { cidr "10.9.0.1/16" }\n',
        'app shop\n\nexternal office { cidr "10.9.0.0/16" }\n',
    ),
    "ADM211": (
        "not a type",
        "Types are `int`, `float`, `bool`, `string`, `duration`, `size`, `percent`, `header`, "
        "`path`, `service`, `caller`, `file`, `one_of(a, b)`, and `[T]` for a list; `T?` can be left out. "
        "Numbers, with units or without, and strings (in bytes) take a range: `int(1..10)`, `string(1..)`, "
        "`duration(1ms.. by 1ms)`, where `by` is what each value is a whole multiple of. A file can have a format: "
        "`file(jwks)`, `file(lua)`, `file(wasm)`.",
        'app shop\n\n@ingress\nkind own(max: number) for http template "own.yaml"\n',
        'app shop\n\n@ingress\nkind own(max: int) for http template "own.yaml"\n',
    ),
    "ADM212": (
        "a default does not fit",
        "A default is a literal, or the name of an earlier parameter of the same type.",
        'app shop\n\n@ingress\nkind own(burst: int = requests, requests: int) for http template "own.yaml"\n',
        'app shop\n\n@ingress\nkind own(requests: int, burst: int = requests) for http template "own.yaml"\n',
    ),
    "ADM213": (
        "not a path of requests",
        "A path begins with one `/`, and has no query and no fragment. Letters, digits and `-._~!$&'()*+,;=:@` stand "
        "for themselves; what else there is stands as `%` and two hexadecimal digits, as it does in a request. A "
        "path goes into a request line as it is, so it must not end the line or be an address. An empty one begins "
        "every path.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "call web -> api\n"
        'policy moved = rewrite_path(prefix: "/old", to: "/new place") on web -> api\n',
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "call web -> api\n"
        'policy moved = rewrite_path(prefix: "/old", to: "/new%20place") on web -> api\n',
    ),
    "ADM214": (
        "a header that no policy can write",
        "Some headers say how a message is framed or encoded (`content-length`, `content-encoding`, `trailer`, "
        "`expect`, `http2-settings`, `proxy-...`, `grpc-status`, `grpc-message`, `grpc-encoding`): a message that does "
        "not fit them is read as another one, or not at all. `content-type` of a request tells a proxy whether a call "
        "is gRPC, and no answer of gRPC has another; proxies write the `date` of an answer. Names that begin with "
        "`x-admc-` belong to ADMs: they can neither be written nor matched.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "call web -> api\n"
        'policy short = set_request_header(name: "content-length", value: "0") on web -> api\n',
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "call web -> api\n"
        'policy short = set_request_header(name: "x-length", value: "0") on web -> api\n',
    ),
    "ADM215": (
        "an item of `cors` that does not fit into its header",
        "The lists of `cors` go into headers, their items side by side. Methods and headers are single words, an "
        "origin is a scheme, a host and maybe a port, as a browser writes it.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "call web -> api\n"
        'policy share = cors(origins: ["https://shop.example"], expose: ["x-a, x-b"]) on web -> api\n',
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "call web -> api\n"
        'policy share = cors(origins: ["https://shop.example"], expose: ["x-a", "x-b"]) on web -> api\n',
    ),
    "ADM216": (
        "the value of a header begins or ends with a blank",
        "A receiver takes blanks at the ends of a value away, so a later match would see them at one side only.",
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "call web -> api\n"
        'policy tier = set_request_header(name: "x-tier", value: "gold ") on web -> api\n',
        "app shop\n"
        "\n"
        "service web { http 8080 }\n"
        "service api { http 8080 }\n"
        "call web -> api\n"
        'policy tier = set_request_header(name: "x-tier", value: "gold") on web -> api\n',
    ),
    "ADM218": (
        "a key set that cannot be used",
        "A key set (JWKS) is a JSON object with a list `keys` of an issuer's public keys. Envoy verifies with RSA keys "
        "(`RS...` and `PS...`), EC keys on P-256, P-384 and P-521, and Ed25519 keys. It leaves out each key that it "
        "cannot use and says nothing, so a set is refused for one such key, and for one that is not for verifying "
        "signatures. RSA keys have 2048 to 8192 bits. The example uses a file `empty.json` without keys.",
        _SHOP + 'policy tokens = jwt(issuer: "https://id.example", jwks: "empty.json") on web -> api\n',
        _SHOP + 'policy tokens = jwt(issuer: "https://id.example", jwks: "keys.json") on web -> api\n',
    ),
    "ADM219": (
        "a key set with a secret in it",
        "Keys for verifying are public. A private part of a key (`d`, `p`, `q`, `dp`, `dq`, `qi`, `oth`), or a "
        "symmetric key (`kty` is `oct`, `k`), lets its holder make tokens, and the configuration of a proxy is read by "
        "many. It is not shown here, and not put into any file. The example uses a file `secret.json`.",
        _SHOP + 'policy tokens = jwt(issuer: "https://id.example", jwks: "secret.json") on web -> api\n',
        _SHOP + 'policy tokens = jwt(issuer: "https://id.example", jwks: "keys.json") on web -> api\n',
    ),
    "ADM220": (
        "a Lua script that cannot be read, or does nothing",
        "Envoy runs LuaJIT, which reads Lua 5.1 with some of 5.2. The script is read here by the same engine, and "
        "nothing of it is run: what its first lines do when Envoy loads it is not known. Compiled Lua is not taken. "
        "Envoy calls `envoy_on_request` and `envoy_on_response`; a script without either would let every request by. "
        "The example uses a file `broken.lua` that lacks an `end`.",
        _SHOP + 'policy own = lua(script: "broken.lua") on web -> api\n',
        _SHOP + 'policy own = lua(script: "filter.lua") on web -> api\n',
    ),
    "ADM221": (
        "a WebAssembly module that cannot be used",
        "A module is compiled WebAssembly of version 1, whole, and exports a `proxy_abi_version_...`, by which Envoy "
        "knows its interface. What its code does is for Envoy to judge. The text form (`.wat`) is not taken. "
        "The example uses a file `binary.adm` that is something else.",
        _SHOP + 'policy own = wasm(module: "binary.adm") on web -> api\n',
        _SHOP + 'policy own = wasm(module: "filter.wasm") on web -> api\n',
    ),
}
FILES: dict[str, tuple[str, str, str, str]] = {
    "ADM501": (
        "a file cannot be read",
        "Paths are relative to the file that they are written in.",
        'app shop\n\nuse "kidns.adm"\n',
        'app shop\n\nuse "kinds.adm"\n',
    ),
    "ADM502": (
        "a file is not text",
        "Programs, templates and topologies are UTF-8 text. The example uses a file `binary.adm` that is not.",
        'app shop\n\nuse "binary.adm"\n',
        'app shop\n\nuse "kinds.adm"\n',
    ),
    "ADM503": (
        "a file is too large, or there are too many",
        "One file has at most 64 MiB, and a program is made of at most 1000 files with 256 MiB in "
        "all. The example uses a file `large.adm` of 100 MB.",
        'app shop\n\nuse "large.adm"\n',
        'app shop\n\nuse "kinds.adm"\n',
    ),
    "ADM504": (
        "a path cannot be used",
        "Paths are relative, with `/` between folders, so that a program means the same on every "
        "machine. Programs end in `.adm`, topologies in `.json`, templates in `.yaml`, "
        "`.yml` or `.json`: what is wrong with a file is told with its lines, so no other is read.",
        'app shop\n\nuse "/etc/kinds.adm"\n',
        'app shop\n\nuse "shared/kinds.adm"\n',
    ),
    "ADM505": (
        "files use each other in a circle",
        "Which of their policies come first could not be said. The example uses a file `cycle.adm`, "
        "which uses the program.",
        'app shop\n\nuse "cycle.adm"\n',
        'app shop\n\nuse "kinds.adm"\n',
    ),
    "ADM506": (
        "a topology is not JSON",
        "The position is that of the first character that does not fit. The example uses a file "
        "`broken.json` that lacks a bracket.",
        'app shop\n\ntopology "broken.json"\n',
        'app shop\n\ntopology "graph.json"\n',
    ),
    "ADM507": (
        "a topology has another shape",
        "A topology is an object with `services`, `externals` and `calls`; docs/language.md lists "
        "their fields. The example uses a file `shape.json` with a misspelt field.",
        'app shop\n\ntopology "shape.json"\n',
        'app shop\n\ntopology "graph.json"\n',
    ),
    "ADM508": (
        "`use` is nested too deeply",
        "Files use each other at most 64 levels deep. The example uses a file `deep0.adm`, which uses"
        " `deep1.adm`, and so on.",
        'app shop\n\nuse "deep0.adm"\n',
        'app shop\n\nuse "kinds.adm"\n',
    ),
    "ADM509": (
        "a file outside the program's folder",
        "What a program names lies in its folder or below it, so that a program from elsewhere cannot bring any file "
        "of the machine into findings or configuration. Links are followed first. Another folder is allowed with "
        "`--include DIR`.",
        'app shop\n\nuse "../kinds.adm"\n',
        'app shop\n\nuse "kinds.adm"\n',
    ),
}
