"""The texts of `admc explain CODE` for the findings of the Envoy emitter and about addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from emitters.codes.code import Code

CODES: Final[Mapping[str, Code]] = {
    "ADM701": Code(
        "too many combinations of matches",
        "Timeouts, retries, mirrors, splits and what works in a cluster are put into Envoy's route table, and Envoy "
        "takes one route for each request. Where the matches of several such policies can hold together, every set "
        "of them needs a route of its own. This hop would need more than 256. Matches that exclude one another (`path "
        "== ...` with different values) do not multiply.",
    ),
    "ADM703": Code(
        "outside parties that no address tells apart",
        "An external without a `cidr` is every caller that is not known. Where there are two, a policy about one of "
        "them alone cannot be enforced at ingress: nothing tells the two apart. Give one of them a `cidr`.",
        bad="external internet\nexternal partner\npolicy p = deny() on partner -> shop",
        good='external internet\nexternal partner { cidr "203.0.113.0/24" }\npolicy p = deny() on partner -> shop',
    ),
    "ADM704": Code(
        "an authorization service without a port to ask",
        "`external_authorization` asks a service before a request passes, by a gRPC call or an http request. The "
        "service that it names has neither a `grpc` nor an `http` port.",
    ),
    "ADM706": Code(
        "a template that cannot be used",
        "The template of a kind is the typed configuration of one Envoy filter in YAML: a mapping with an `@type` "
        "and the fields of that message. `${name}` stands for a parameter of the kind; a value that is nothing else "
        "keeps its type. YAML aliases are not accepted. The message names what is wrong.",
    ),
    "ADM708": Code(
        "one limit over several ports",
        "A limit is stated for a policy and a destination: one bucket counts all requests. Envoy keeps a bucket in "
        "the filters of one port, so a policy that covers several ports of a destination would have several buckets. "
        "Write a policy for each port.",
        bad="policy q = rate_limit(requests: 100, per: 1s) on * -> shop",
        good="policy q = rate_limit(requests: 100, per: 1s) on * -> shop:web",
    ),
    "ADM709": Code(
        "a hash of nothing",
        "`ring_hash` and `maglev` send requests with the same key to the same endpoint. The key is a request header, "
        "so `hash` must name one, and a `tcp` call has none.",
        bad="policy b = load_balancing(policy: maglev) on a -> b",
        good='policy b = load_balancing(policy: maglev, hash: "x-user") on a -> b',
    ),
    "ADM710": Code(
        "no loopback address left",
        "Without an endpoints file every service gets an address in 127.0.0.0/8. The application has more services, "
        "or more pairs of services that call one another, than there are such addresses.",
    ),
    "ADM711": Code(
        "no address to listen at",
        "Without redirection every direction and port of an ADM has a listener, and callers must dial it. Loopback "
        "addresses name one for each; an endpoints file does not. Use redirection with real addresses.",
    ),
    "ADM712": Code(
        "an endpoints file that cannot be used",
        "The endpoints file is JSON: for each service its `addresses` (what callers dial), its `pods` (what replicas "
        "send from) and which of those are `unready`, and for each external its `addresses`, which may be networks. "
        "See docs/endpoints.md.",
    ),
    "ADM713": Code(
        "a tap directory that cannot be used",
        "`tap` writes one file for each request into a directory of the machine that it runs on: an absolute path.",
        bad='policy t = tap(directory: "captures") on a -> b',
        good='policy t = tap(directory: "/var/captures") on a -> b',
    ),
    "ADM714": Code(
        "a value that Envoy cannot hold",
        "Envoy keeps most numbers in 32 bits and some in less. The value is outside of what its field can hold.",
    ),
    "ADM716": Code(
        "two destinations at one address or port",
        "Where connections are redirected, the address and port that were dialled decide which destination is meant, "
        "and so which policies hold. An ADM cannot tell two destinations at the same address and port apart. Neither "
        "can it tell two ports of a service apart that lead to the same port of its process, or that callers dial "
        "alike because the service has no service address. Where they are under different policies, give them "
        "different addresses or ports, or put both under the same policies.",
    ),
    "ADM717": Code(
        "a destination that cannot be recognised",
        "Where connections are redirected, the address that is dialled tells which calls a policy at the sender is "
        "for. Not every address of this destination is known, so calls would pass without the policy. Add it to the "
        "endpoints file, or give an external the addresses that it has in `host` or `cidr`. (An external that is known "
        "by name takes its port as a whole, unless its caller calls others at that port.)",
    ),
    "ADM718": Code(
        "a caller that cannot be recognised",
        "At ingress an ADM recognises a caller by the address that it sends from. The policy is about some callers "
        "and not about others, and no address is known of one that it is about. So the requests of that caller would "
        "pass without the policy. Where the policy is about all other callers, they would meet it by mistake. List "
        "the pods of the caller in the endpoints file, or the addresses of an external in its `cidr`.",
    ),
    "ADM719": Code(
        "a limit that the replicas cannot share",
        "A limit that is stated for a service is shared by the replicas of the service that enforces it, and so is its "
        "`burst`: the number of requests or connections that may pass at once. A replica whose share is less than one "
        "would let nothing pass at all.",
        bad="service shop { http 80  replicas 3 }\npolicy q = rate_limit(requests: 1, per: 1s) on * -> shop",
        good="service shop { http 80  replicas 3 }\npolicy q = rate_limit(requests: 1, per: 1s, burst: 3) on * -> shop",
    ),
    "ADM720": Code(
        "a retry of attempts that ran out of time, and of nothing else",
        "A timeout that is declared after a retry bounds each attempt. To Envoy an attempt that it gave up itself is a "
        "failed one like any other: it repeats it where it repeats resets, gateway errors or server errors, and not "
        "for `deadline_exceeded`, which is a status that a service answers with. Name what is to be repeated besides.",
        bad="policy r = retry(attempts: 3, on: [deadline_exceeded]) on a -> b\npolicy t = timeout(after: 1s) on a -> b",
        good="policy r = retry(attempts: 3, on: [gateway_error]) on a -> b\npolicy t = timeout(after: 1s) on a -> b",
    ),
    "ADM721": Code(
        "a count that another policy would part",
        "`outlier_detection` counts errors, and `circuit_breaking` counts what is under way, in an Envoy cluster. "
        "Another policy of the cluster that holds for some of the same requests only would need a second cluster for "
        "them, with counts of its own.",
        bad="policy o = outlier_detection() on a -> b\n"
        'policy l = load_balancing(policy: random) on a -> b when path == "/x"',
        good="policy o = outlier_detection() on a -> b\npolicy l = load_balancing(policy: random) on a -> b",
    ),
    "ADM722": Code(
        "a regular expression that cannot be compared with an element of a header, or a path without its query",
        "A header's value is a list, and `matches` holds if the whole value or one of its elements matches. Envoy sees "
        "the whole value only, so the expression is written anew to stay between two commas, in front of the query of "
        "a path, or of the port of a host. That is not done for anchors in the middle of an expression, for `\\A`, "
        "`\\z` and `\\C`, for letters beyond ASCII (Envoy sees bytes), and for classes of Unicode that may hold a "
        "comma. An expression has to match entirely in any case, so an anchor says nothing.",
        bad='policy p = deny() on a -> b when header("x") matches "(^a|b$)"',
        good='policy p = deny() on a -> b when header("x") matches "a.*|.*b"',
    ),
    "ADM730": Code(
        "a configuration that Envoy would refuse",
        "Envoy checks each field of its configuration against bounds that its schema states, and refuses all of a "
        "configuration for one field. The same bounds are checked before anything is written. The types of the "
        "built-in kinds state the bounds of their arguments, so this is about a value that came past "
        "them. The message names the field.",
    ),
    "ADM731": Code(
        "a comparison that Envoy cannot make",
        "Envoy looks for a value among the elements of a header, or for a method, by one regular expression over bytes "
        "that is built from what the policy says. This one is too large for Envoy's engine, or speaks of a letter that "
        "no byte is (`\\x{100}`).",
        bad='policy d = deny() on a -> b when method matches "\\\\x{100}"',
        good='policy d = deny() on a -> b when method matches "GET|PUT"',
    ),
    "ADM723": Code(
        "a limit on bodies behind what holds requests up",
        "A delay, an authorization service or a program of one's own may hold a request up while its body arrives. "
        "Envoy's limit on bodies measures only what comes after the request has reached it, so a large body could "
        "pass. Declare the limit first: a body that is too large is then refused before anything else is done.",
        bad="policy d = fault_delay(delay: 1s) on a -> b\npolicy l = buffer_limit(max: 1KB) on a -> b",
        good="policy l = buffer_limit(max: 1KB) on a -> b\npolicy d = fault_delay(delay: 1s) on a -> b",
    ),
    "ADM724": Code(
        "two parties at one address",
        "One pod hosts one ADM, and an address says whose a connection is. So no address of the endpoints file belongs "
        "to two services, or to a service and an outside party. There are three exceptions. A service address may be "
        "that of several services at different ports. Services on the host's network share their node's address, at "
        "different target ports. An outside party that never calls may be there at other ports than they are. Two "
        "Kubernetes Services over the same pods are one service with the ports of both. Where connections are "
        "redirected, no service is at a loopback address.",
        bad="service api { http 80 }\nservice api_admin { http 9000 }",
        good="service api {\n  http web 80\n  http admin 9000\n}",
    ),
    "ADM725": Code(
        "a port that the ADM needs for itself",
        "An ADM listens in the pod of its service: at 15000 (its state), 15001 (connections from the service), 15006 "
        "(connections to it) and, in a cluster, 15021 (its startup probe), 15022 (probes of its pod) and 15023 (the "
        "report of the end of its pod). A process of that pod cannot listen there, too. What counts is the target "
        "port, where the process listens; the port that callers dial may be any. A service that hosts no ADM may use "
        "all of them.",
        bad="service shop { http 15001 }",
        good="service shop { http 15001 -> 8080 }",
    ),
    "ADM727": Code(
        "two algorithms of compression at one place",
        "Envoy chooses one encoding for an answer, by what the client takes, among those of all compressors at a port. "
        "A compressor whose policy does not hold for the request is skipped, and may be chosen all the same: then the "
        "answer is not compressed. One algorithm at one place has no such choice.",
        bad='policy c = compression() on a -> b when path == "/a"\n'
        'policy d = compression(algorithm: brotli) on a -> b when path == "/b"',
        good='policy c = compression() on a -> b when path == "/a"\n'
        'policy d = compression(min_size: 1KB) on a -> b when path == "/b"',
    ),
}
