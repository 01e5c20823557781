"""Codes about traces: title, explanation, and examples of what is wrong and right. This module holds data only."""

from __future__ import annotations

from collections.abc import Mapping

CODES: Mapping[str, tuple[str, ...]] = {
    "ADM879": (
        "the names of traces cannot be used",
        "`--names FILE` says which service or external of the program a name in traces stands for: a host name, a host "
        "with its port, or an address. The file is a JSON object of texts; each name stands there once, and for a name "
        "of the program.",
        "",
        "admc overhead policies.adm --traces traces.json --names names.json",
    ),
    "ADM880": (
        "a file cannot be read as traces",
        "admc reads OpenTelemetry's JSON (one document, or one a line), Jaeger's JSON, and CSV and Parquet files with "
        "Alibaba's columns; docs/traces.md describes them, and the limits of size. The cause names the line, row or "
        "column.",
        "",
        "admc overhead policies.adm --traces calls.parquet",
    ),
    "ADM881": (
        "a file of traces needs pyarrow",
        "CSV and Parquet files are read by pyarrow, an extra of admc. JSON needs no extra.",
        "",
        "pip install 'admc[traces]'",
    ),
    "ADM882": (
        "no trace is left",
        "Every trace of the files was dropped, or there is none. The other errors have the reasons, each with the "
        "first trace that it is about.",
    ),
    "ADM883": (
        "the first call of a trace is missing",
        "Each span of the trace has a parent, and the first one is not in the files; or the ids of all calls begin "
        "below the first. Without it the request has no root. A trace without any call has none, either.",
    ),
    "ADM884": (
        "a trace has two first calls",
        "A request begins with one call from outside. A trace with several is of several requests, and which of the "
        "calls belong to which is not recorded.",
    ),
    "ADM885": (
        "a call of a trace is its own ancestor",
        "The parents of some spans form a circle, so there is no order among them. Copies of ids are the usual reason.",
    ),
    "ADM886": (
        "a clock runs back",
        "A span ends before it begins, or a call begins before its caller was called. Both times are of one machine "
        "where caller and callee have spans, so clocks of two machines are compared only where one of the spans is "
        "missing. Times that are rounded may differ by their unit.",
    ),
    "ADM887": (
        "a trace is cut off",
        "A call has a parent that is not in the files, such as a span that was lost or not sampled. The tree is not "
        "whole, so its latency would come out too low.",
    ),
    "ADM888": (
        "ids of a trace contradict each other",
        "Two different spans have one id; or a call's parent is a call of another service than its caller; or rows of "
        "one id are more than one call, and one of them calls on. Alibaba's traces have such ids.",
    ),
    "ADM889": (
        "a trace has an unknown service",
        "The name is not that of a service or external of the program: `service.name` in OpenTelemetry, `serviceName` "
        "in Jaeger, `um` and `dm` in Alibaba's columns. A call to a service without spans needs the name of its peer. "
        "`admc import traces` without `--program` takes every name that the language allows.",
    ),
    "ADM890": (
        "a trace has an undeclared call",
        "The program has both services, and no call from the one to the other. Without a declaration no policy is "
        "about it, and the estimate has no figure for it.",
    ),
    "ADM891": (
        "it is not clear which call is meant",
        "The program declares calls of one pair of services on several ports, or several externals call the service "
        "that the trace begins with, and the trace does not say which it is.",
    ),
    "ADM892": (
        "a trace is too large",
        "A trace has at most 100,000 calls and 200 levels, and takes at most one hour.",
    ),
    "ADM893": (
        "rows or spans cannot be used",
        "They lack a trace, an id or a time, or these cannot be read. They are skipped and counted, and their traces "
        "are dropped: a call may be missing, and figures of the remainder would come out too low. A row or span "
        "without a trace is skipped alone.",
    ),
    "ADM894": (
        "rows or spans stand twice",
        "They are equal in all that is read of them. One of them is taken, so that nothing counts twice.",
    ),
    "ADM895": (
        "traces have too many shapes",
        "`admc import traces` makes a request of each shape. It writes the 1,000 most frequent ones, each with at most "
        "10,000 steps and braces 60 deep. `admc overhead --traces` takes all traces, whatever their shapes.",
        "",
        "admc overhead policies.adm --traces calls.parquet",
    ),
}
