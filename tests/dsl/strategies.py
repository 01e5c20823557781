"""Random programs as lists of lines, so that tests can shuffle, break and reformat them."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,6}(-[a-z0-9_]{1,3})?", fullmatch=True)
SOFT = st.sampled_from(["rate", "host", "on", "when", "not", "tcp", "labels", "service", "a-b", "except", "accept"])
PROTOCOLS = ("http", "grpc", "tcp")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[str], dict[str, str], list[tuple[str, str]]]:
    """Lines that declare services and calls, the protocol of each service, and the calls."""
    names = draw(st.lists(NAMES | SOFT, min_size=2, max_size=7, unique=True))
    protocols = {name: draw(st.sampled_from(PROTOCOLS)) for name in names}
    lines = ["external outside"] if "outside" not in names else []
    for index, name in enumerate(names):
        extra = draw(
            st.sampled_from(
                [
                    "",
                    "  replicas 3",
                    "  no adm",
                    " untrusted host_network",
                    '  labels { tier = "db" }',
                    " capacity 0.5 namespace shop",
                ]
            )
        )
        target = draw(st.sampled_from(["", " -> 99"]))
        lines.append(f"service {name} {{ {protocols[name]} {8000 + index}{target}{extra} }}")
    pairs = draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=10, unique=True))
    if lines[0] == "external outside" and draw(st.booleans()):
        pairs.append(("outside", names[0]))
    for source, destination in pairs:
        body = draw(st.sampled_from(["", " { rate 20/s }", " { size 2KB }", " { rate 5/m  size 1KiB }", " {}"]))
        lines.append(f"call {source} -> {destination}{body}")
    return lines, protocols, pairs


HELD = ('path == "/a/b"', 'path starts_with "/b"', 'header("X-Tier") == "gold"', 'not path matches "/x.*"')
"""Conditions of guards: of each comparison, some request of http and of grpc fits it. Else it is an error."""
CONDITIONS = st.recursive(
    st.sampled_from(
        [
            'path == "/a/b"',
            'path starts_with "/b"',
            'method != "GET"',
            'header("X-Tier") == "gold"',
            'path matches "/x.*"',
        ]
    ),
    lambda inner: st.one_of(
        inner.map(lambda text: f"not {text}"),
        inner.map(lambda text: f"({text})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
    ),
    max_leaves=4,
)
REQUEST_KINDS = (
    "rate_limit(requests: 10, per: 1s)",
    "rate_limit(10, 1s, burst: 20)",
    'set_request_header(name: "X-Tier", value: "gold")',
    "request_count()",
    "deny()",
)
ANY_KINDS = ("access_log()", "access_log(format: text)", "deny()")


@st.composite
def policies(draw: st.DrawFn, protocols: dict[str, str], pairs: list[tuple[str, str]]) -> list[str]:
    lines: list[str] = []
    for index in range(draw(st.integers(0, 4))):
        selected = draw(st.sampled_from(sorted(protocols)))
        spoken = protocols[selected] != "tcp"
        kind = draw(st.sampled_from(REQUEST_KINDS if spoken else ANY_KINDS))
        sources = draw(st.sampled_from(["*", "* except " + selected, "{" + ", ".join(sorted(protocols)) + "}"]))
        conditions = st.sampled_from(HELD) if kind == "deny()" else CONDITIONS
        condition = " when " + draw(conditions) if spoken and draw(st.booleans()) else ""
        annotation = draw(st.sampled_from(["", "@ingress ", "@ingress @egress "]))
        able = kind == "deny()" and sources == "*" and not condition and not annotation
        drop = " accept drop" if able and draw(st.booleans()) else ""
        lines.append(f"{annotation}policy p{index} = {kind} on {sources} -> {selected}{condition}{drop}")
    return lines


@st.composite
def steps(draw: st.DrawFn, pairs: list[tuple[str, str]], source: str, depth: int = 0) -> list[str]:
    """What a callee does for a request, one item a line, without its own `work`."""
    called = sorted(destination for one, destination in pairs if one == source)
    items = []
    for destination in draw(st.lists(st.sampled_from(called), max_size=2)) if called and depth < 3 else []:
        inner = draw(steps(pairs, destination, depth + 1))
        inner += draw(st.lists(st.sampled_from(["chance 10%", "times 2", "work 2ms"]), max_size=2, unique=True))
        body = " { " + draw(st.sampled_from(["  ", "\n"])).join(inner) + " }" if inner else ""
        form = draw(st.sampled_from(["call {}", "async call {}", "together {{ call {} }}"]))
        items.append(form.format(destination + body))
    return items


@st.composite
def requests(draw: st.DrawFn, pairs: list[tuple[str, str]]) -> list[str]:
    """Their rates are below those that calls declare."""
    lines = []
    for index, (source, destination) in enumerate(draw(st.lists(st.sampled_from(pairs), max_size=2)) if pairs else []):
        items = draw(steps(pairs, destination))
        items += draw(st.lists(st.sampled_from(["rate 0.01/h", "work 5us"]), unique_by=lambda item: item[:4]))
        body = " {\n" + "\n".join(items) + draw(st.sampled_from([" }", "\n}"])) if items else ""
        lines.append(f"request r{index} on {source} -> {destination}{body}")
    return lines


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Lines whose order means nothing, and policies, whose order does."""
    lines, protocols, pairs = draw(graphs())
    rules = draw(policies(protocols, pairs))
    lines = ["app shop", *lines, *draw(requests(pairs))]
    if draw(st.booleans()):
        lines.append("objective minimize sidecars, then adms")
    lines.extend(line for line in ("network_policies enforced", "accept host_network") if draw(st.booleans()))
    if draw(st.booleans()):
        lines.append(draw(st.sampled_from(["profile meshinsight", 'profile "node.json"'])))
    if draw(st.booleans()):
        lines.append(
            "@ingress @effect(reads(header), counts) @weaker(a: less, b: added) "
            'kind own(a: int(1..5)? = 3, b: [string] = ["x"]) for http template "own.yaml"'
        )
    lines.extend(f"pin p{index} at ingress" for index in range(len(rules)) if draw(st.booleans()))
    return lines, rules


COMMENTS = st.from_regex(r"//[ a-z\"{}()@>-]{0,12}", fullmatch=True)


@st.composite
def laid_out(draw: st.DrawFn) -> str:
    """A valid program with comments, blank lines and line breaks in odd places."""
    lines, rules = draw(programs())
    out: list[str] = []
    for line in [*lines, *rules]:
        if draw(st.booleans()):
            out.append(draw(st.sampled_from(["", "", "  ", draw(COMMENTS)])))
        text = line
        at = text.find("{")
        breakable = at >= 0 and '"' not in text[:at] and "=" not in text[:at]
        if breakable and draw(st.booleans()):
            comment = draw(st.sampled_from(["", " " + draw(COMMENTS)]))
            text = text[: at + 1] + comment + "\n" + draw(st.sampled_from(["", "\n"])) + text[at + 1 :]
        text = text.replace(" -> ", draw(st.sampled_from([" -> ", "->", "  ->\t"])), 1)
        trailing = draw(st.sampled_from(["", "   ", " " + draw(COMMENTS)]))
        out.append(text + trailing)
    return draw(st.sampled_from(["\n", "\r\n"])).join(out) + draw(st.sampled_from(["", "\n"]))
