"""Codes of programs without a correct placement, by rule. This module holds data only."""

from __future__ import annotations

from admc.base.code import Code

CODES = {
    "ADM601": Code(
        "a policy cannot be enforced everywhere (R1)",
        "Every request in a policy's scope must be enforced at exactly one side, and here both sides of one "
        "destination are ruled out. The message names an irreducible set of lines: without any one of them a "
        "correct placement exists. Change one of them.",
    ),
    "ADM602": Code(
        "the callers of one destination cannot be treated alike (R2)",
        "One policy at one destination is enforced either at the destination for all its calls, or at the sender "
        "of each of them. Some of the calls need one side and some the other. Split the policy in two, one for "
        "each group of callers.",
    ),
    "ADM603": Code(
        "a call crosses the edge of the mesh (R3)",
        "A call from an external can only be enforced at its destination, and a call to an external only at its "
        "sender, because admc places no ADM outside the mesh. Leave the external out of the scope (`* except "
        "internet`), or let the policy take the other side.",
        bad=(
            "app shop\n"
            "external internet\n"
            "service web { http 8080 }\n"
            "call internet -> web\n"
            "@egress\n"
            "policy quota = rate_limit(requests: 5, per: 1s) on internet -> web"
        ),
        good=(
            "app shop\n"
            "external internet\n"
            "service web { http 8080 }\n"
            "call internet -> web\n"
            "policy quota = rate_limit(requests: 5, per: 1s) on internet -> web"
        ),
    ),
    "ADM604": Code(
        "no side is able to enforce the policy (R4)",
        "The kind's annotations, the policy's own narrowing and where the call starts leave no side. A load "
        "balancing choice, a retry or a timeout, for example, works at the sender only, and the target of a mirror "
        "or a split is called from inside the sender's ADM, behind its filters. And an ADM at the receiver of a `tcp` "
        "call would accept connections whose refusal an `outlier_detection` of the sender counts: the policies of that "
        "port are then at the senders, and declared before the `outlier_detection`.",
        bad=(
            "app shop\n"
            "service a, b, canary { http 8080 }\n"
            "call a -> b, canary\n"
            "policy part = split(to: canary, percent: 10%) on a -> b\n"
            "policy late = timeout(after: 1s) on a -> canary"
        ),
        good=(
            "app shop\n"
            "service a, b, canary { http 8080 }\n"
            "call a -> b, canary\n"
            "policy late = timeout(after: 1s) on a -> b\n"
            "policy part = split(to: canary, percent: 10%) on a -> b"
        ),
    ),
    "ADM605": Code(
        "a policy keeps state that cannot be spread (R5)",
        "A quota counts all callers of a destination together. At the senders there would be one count for each, "
        "so it moves there only where one service alone calls the destination in the policy's scope.",
        bad=(
            "app shop\n"
            "service a, b, c { http 8080 }\n"
            "call a, c -> b\n"
            "@egress\n"
            "policy quota = rate_limit(requests: 5, per: 1s) on {a, c} -> b"
        ),
        good=(
            "app shop\n"
            "service a, b, c { http 8080 }\n"
            "call a, c -> b\n"
            "policy quota = rate_limit(requests: 5, per: 1s) on {a, c} -> b"
        ),
    ),
    "ADM606": Code(
        "the declared order cannot be kept (R6)",
        "The order of policies is the order in which a request meets them. Egress comes before ingress, and inside "
        "an ADM filters come before routing, a mirror before a retry, and a circuit breaker acts last. No choice of "
        "sides meets these policies in their declared order. Declare them in another order, or let one of them take "
        "the other side. What always works, from first to last: mirror; timeout and retry; split; outlier detection; "
        "what the receiver's filters do (quotas, guards, logs); circuit_breaking. `docs/order.md` has every pair.",
        bad=(
            "app shop\n"
            "service a, b { http 8080 }\n"
            "call a -> b\n"
            "policy again = retry(attempts: 3) on a -> b\n"
            "@egress\n"
            "policy quota = rate_limit(requests: 5, per: 1s) on a -> b"
        ),
        good=(
            "app shop\n"
            "service a, b { http 8080 }\n"
            "call a -> b\n"
            "@egress\n"
            "policy quota = rate_limit(requests: 5, per: 1s) on a -> b\n"
            "policy again = retry(attempts: 3) on a -> b"
        ),
    ),
    "ADM607": Code(
        "callers could bypass the policy (R7)",
        "A policy at the senders is enforced only if no other caller reaches the destination. Here the destination "
        "cannot be closed, or a sender is untrusted, and the destination's own side is ruled out too.",
    ),
    "ADM608": Code(
        "a service cannot host an ADM (R8)",
        "A service marked `no adm`, or on the host's network, hosts none, and the policy can be enforced nowhere else.",
        bad=(
            "app shop\n"
            "service a { http 8080  no adm }\n"
            "service b { http 8080 }\n"
            "call a -> b\n"
            "policy again = retry(attempts: 3) on a -> b"
        ),
        good=(
            "app shop\n"
            "service a { http 8080 }\n"
            "service b { http 8080 }\n"
            "call a -> b\n"
            "policy again = retry(attempts: 3) on a -> b"
        ),
    ),
    "ADM609": Code(
        "an ADM would carry more than its limit (R9)",
        "The predicted load of an ADM is over the `capacity` of its service, in every placement.",
    ),
    "ADM610": Code(
        "a pin cannot be obeyed (R10)",
        "A `pin` names a side that another rule forbids. A pin is obeyed or reported, never ignored: remove it, or "
        "change one of the other lines.",
        bad=(
            "app shop\n"
            "service a, b { http 8080 }\n"
            "call a -> b\n"
            "policy again = retry(attempts: 3) on a -> b\n"
            "pin again at ingress"
        ),
        good=(
            "app shop\n"
            "service a, b { http 8080 }\n"
            "call a -> b\n"
            "policy again = retry(attempts: 3) on a -> b\n"
            "pin again at egress"
        ),
    ),
}
