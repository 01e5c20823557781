"""Codes about values and files. This module holds data only."""

from __future__ import annotations

_SHOP = "app shop\n\nservice web { http 8080 }\nservice api { http 8080 }\ncall web -> api\n"
VALUES: dict[str, tuple[str, str, str, str]] = {
    "ADM201": (
        "a value is of another type",
        "The value does not have the type of the parameter. `admc explain KIND` shows the parameters of a kind, "
        "and `docs/kinds.md` those of every built-in kind.",
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
        "The hint gives the range of the value, or the number of which it must be a whole multiple. Kinds declare "
        "the values that Envoy supports: a timeout in whole milliseconds, an age in whole seconds.",
        "app shop\n\nservice web { http 80800 }\n",
        "app shop\n\nservice web { http 8080 }\n",
    ),
    "ADM204": (
        "an argument is missing",
        "A parameter that has no default and is not optional (`?`) needs an argument.",
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
        "A parameter takes one value, and a list holds each item once.",
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
        "Arguments without a name are assigned in the order of the parameters. All of them stand before the first "
        "argument with a name.",
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
        "The name of a header consists of letters, digits and signs such as `-`, and is compared in lower case. "
        "Path and method are not headers. Headers about one connection (`connection`, `keep-alive`, "
        "`proxy-connection`, `te`, `transfer-encoding`, `upgrade`) are for the next hop alone, so no policy can "
        "use them; only a match may compare `upgrade`. The header `host` can be read but not written.",
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
        "not one of the words of a parameter",
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
        "Labels and namespaces follow the rules of Kubernetes. `host` takes a host name or an address, `cidr` an "
        "address range.",
        'app shop\n\nexternal office { cidr "10.9.0.1/16" }\n',
        'app shop\n\nexternal office { cidr "10.9.0.0/16" }\n',
    ),
    "ADM211": (
        "not a type",
        "Types are `int`, `float`, `bool`, `string`, `duration`, `size`, `percent`, `header`, `path`, `service`, "
        "`caller`, `file`, `one_of(a, b)`, and `[T]` for a list. A parameter of type `T?` is optional. Numbers, "
        "with units or without, and strings (by their length in bytes) can have a range: `int(1..10)`, "
        "`string(1..)`, `duration(1ms.. by 1ms)`. After `by` stands the number of which each value is a whole "
        "multiple. A file can have a format: `file(jwks)`, `file(lua)`, `file(wasm)`.",
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
        "A path begins with one `/`, and has neither a query nor a fragment. Letters, digits and "
        "`-._~!$&'()*+,;=:@` are written as they are; any other character is written as `%` and two hexadecimal "
        "digits. The path becomes part of a request line unchanged, so it must not contain a line end or look "
        "like a host. An empty path is a prefix of every path.",
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
        "Some headers describe how a message is framed or encoded (`content-length`, `content-encoding`, "
        "`trailer`, `expect`, `http2-settings`, `proxy-...`, `grpc-status`, `grpc-message`, `grpc-encoding`). If "
        "such a header does not match the message, a receiver reads another message, or none. From the "
        "`content-type` of a request, a proxy decides whether a call is gRPC, and a gRPC response always has the "
        "same one. Proxies write the `date` of a response. Names that begin with `x-admc-` are reserved for ADMs "
        "and can be neither written nor matched.",
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
        "an invalid item in a list of `cors`",
        "The items of each list of `cors` are joined into one header. A method or a header is a single word, "
        "or `*` for all. An origin is a scheme, a host and optionally a port, as browsers send it: in lower case, "
        "without a path, and without the port that the scheme has anyway. One `*.` right before the host admits all "
        "its subdomains, and `*` alone all origins. Any other `*` would be compared as a letter, and admit no page.",
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
        "Receivers remove blanks at both ends of a header's value. A later match would see the blanks at the "
        "sender but not at the receiver.",
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
        "A key set (JWKS) is a JSON object with a list `keys` of an issuer's public keys. Envoy verifies with RSA "
        "keys (`RS...` and `PS...`), EC keys on P-256, P-384 and P-521, and Ed25519 keys. Envoy silently ignores "
        "each key that it cannot use, so admc refuses a key set with such a key, or with a key that is not for "
        "verifying signatures. RSA keys have 2048 to 8192 bits. The example uses a file `empty.json` without "
        "keys.",
        _SHOP + 'policy tokens = jwt(issuer: "https://id.example", jwks: "empty.json") on web -> api\n',
        _SHOP + 'policy tokens = jwt(issuer: "https://id.example", jwks: "keys.json") on web -> api\n',
    ),
    "ADM219": (
        "a key set with a secret in it",
        "Keys for verifying are public. A private part of a key (`d`, `p`, `q`, `dp`, `dq`, `qi`, `oth`), or a "
        "symmetric key (`kty` is `oct`, `k`), lets its holder issue tokens, and many people and programs can read "
        "the configuration of a proxy. admc does not show the key and writes it to no file. The example uses a "
        "file `secret.json`.",
        _SHOP + 'policy tokens = jwt(issuer: "https://id.example", jwks: "secret.json") on web -> api\n',
        _SHOP + 'policy tokens = jwt(issuer: "https://id.example", jwks: "keys.json") on web -> api\n',
    ),
    "ADM220": (
        "a Lua script that cannot be loaded, or has no effect",
        "Envoy runs LuaJIT, which accepts Lua 5.1 with parts of 5.2. admc parses the script with the same engine "
        "and runs none of it, so errors of its top-level code appear only when Envoy loads it. Compiled Lua is "
        "refused. Envoy calls `envoy_on_request` and `envoy_on_response`; a script with neither has no effect. "
        "The example uses a file `broken.lua` that lacks an `end`.",
        _SHOP + 'policy own = lua(script: "broken.lua") on web -> api\n',
        _SHOP + 'policy own = lua(script: "filter.lua") on web -> api\n',
    ),
    "ADM221": (
        "a WebAssembly module that cannot be used",
        "A module is a complete WebAssembly binary of version 1 that exports a `proxy_abi_version_...`, from "
        "which Envoy derives its interface. admc does not check its code; Envoy does when it loads the module. "
        "The text form (`.wat`) is refused. The example uses a file `binary.adm` that is not WebAssembly.",
        _SHOP + 'policy own = wasm(module: "binary.adm") on web -> api\n',
        _SHOP + 'policy own = wasm(module: "filter.wasm") on web -> api\n',
    ),
    "ADM222": (
        "an argument with a placeholder that nothing fills",
        "A `*` in the name of a header, in an issuer or audience of `jwt` or in a path is a character there, and so "
        "are `$1` and `/:id` in a path. A header, an issuer and an audience are given whole, and without `audiences` "
        "all are admitted. `rewrite_path` compares and replaces beginnings. In `methods`, `headers` and `expose` of "
        "`cors` a `*` is for all only without `credentials`.",
        _SHOP + 'policy paths = rewrite_path(prefix: "/api/*", to: "/") on web -> api\n',
        _SHOP + 'policy paths = rewrite_path(prefix: "/api/", to: "/") on web -> api\n',
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
        "One file may have at most 64 MiB. A program may consist of at most 1000 files with 256 MiB in total. The "
        "example uses a file `large.adm` of 100 MB.",
        'app shop\n\nuse "large.adm"\n',
        'app shop\n\nuse "kinds.adm"\n',
    ),
    "ADM504": (
        "a path cannot be used",
        "Paths are relative, with `/` between folders, so that a program means the same on every machine. Names "
        "of programs end in `.adm`, of topologies in `.json`, of templates in `.yaml`, `.yml` or `.json`. "
        "Messages quote lines of these files, so admc reads no files with other names.",
        'app shop\n\nuse "/etc/kinds.adm"\n',
        'app shop\n\nuse "shared/kinds.adm"\n',
    ),
    "ADM505": (
        "files use each other in a circle",
        "The order of the policies in such files would be undefined. The example uses a file `cycle.adm`, which "
        "uses the program.",
        'app shop\n\nuse "cycle.adm"\n',
        'app shop\n\nuse "kinds.adm"\n',
    ),
    "ADM506": (
        "a topology is not JSON",
        "The position is that of the first character that is not valid JSON. The example uses a file "
        "`broken.json` that lacks a bracket.",
        'app shop\n\ntopology "broken.json"\n',
        'app shop\n\ntopology "graph.json"\n',
    ),
    "ADM507": (
        "a topology has the wrong fields",
        "A topology is an object with `services`, `externals` and `calls`; docs/language.md lists their fields. "
        "The example uses a file `shape.json` with a misspelt field.",
        'app shop\n\ntopology "shape.json"\n',
        'app shop\n\ntopology "graph.json"\n',
    ),
    "ADM508": (
        "`use` is nested too deeply",
        "A chain of files that use each other may have 64 levels. The example uses a file `deep0.adm`, which uses "
        "`deep1.adm`, and so on.",
        'app shop\n\nuse "deep0.adm"\n',
        'app shop\n\nuse "kinds.adm"\n',
    ),
    "ADM509": (
        "a file outside the program's folder",
        "All files of a program are in its folder or below it, so that a program from elsewhere cannot bring "
        "other files of the machine into messages or configuration. Links are resolved before this check. "
        "`--include DIR` allows another folder.",
        'app shop\n\nuse "../kinds.adm"\n',
        'app shop\n\nuse "kinds.adm"\n',
    ),
}
