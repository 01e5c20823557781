"""Makes a profile from a table of runs (`fitted`), or from the pickle of MeshInsight's tool (`imported`)."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from admc.base.exits import CommandError, Exit, wrong_usage
from admc.base.files import read_bounded
from admc.cost.profile_import import fit, meshinsight, pickle_data, runs
from admc.cost.profiles.new_profile import NewProfile
from admc.cost.profiles.profile import NAME_OF_PROFILE, Platform, Proxy, is_profile_name
from admc.cost.profiles.read import read_profile
from admc.cost.profiles.write import to_json
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.files.reading import decode
from dsl.text import SourceText


def imported(path: Path, name: str, platform: str | None) -> NewProfile:
    """A profile of the latencies in MeshInsight's pickle. Raises `CommandError` (exit 1)."""
    _named(name)
    content = read_bounded(path, pickle_data.MAX_BYTES, "the pickle")
    try:
        profiles = meshinsight.platforms(content)
        chosen = _chosen(list(profiles), platform)
        result = meshinsight.profile(name, chosen, profiles[chosen])
    except pickle_data.PickleError as error:
        raise wrong_usage(
            "ADM868",
            f"`{path}` cannot be imported: {error.message}",
            cause=f"at byte {error.position}" if error.position else None,
            hint="nothing in it was executed; `admc profile import` reads profiles of MeshInsight's tool only",
        ) from error
    return checked(
        path,
        NewProfile(result.profile, tuple(f"not taken: {figure}: {reason}" for figure, reason in result.not_taken)),
    )


def _chosen(names: list[str], platform: str | None) -> str:
    fitting = [name for name in names if platform is None or platform in name]
    if len(fitting) == 1:
        return fitting[0]
    listed = "; ".join(f"`{name[:200]}`" for name in (fitting or names)[:8])
    matches = "no platform" if not fitting else f"{len(fitting)} platforms"
    raise wrong_usage(
        "ADM801", f"the file has {matches} that `--platform` may mean", hint=f"give a part of one of {listed}"
    )


def fitted(path: Path, name: str, machine: str, system: str, proxy: str, saturation: str) -> NewProfile:
    """A profile of raw runs. Raises `CommandError` (exit 1)."""
    _named(name)
    diagnostics = Diagnostics()
    content = read_bounded(path, runs.MAX_BYTES, "the table of runs")
    text = decode(str(path), content, None, diagnostics)
    measured_runs = None if text is None else runs.read_runs(text, diagnostics)
    if measured_runs is None:
        raise CommandError(Exit.INPUT, diagnostics.items)
    words = proxy.split(maxsplit=1)
    if len(words) != 2:
        raise wrong_usage("ADM801", "`--proxy` is a name and a version", hint="write `--proxy 'envoy 1.40'`")
    result = fit.fit(measured_runs, name, Platform(machine, system), Proxy(words[0], words[1]), _cores(saturation))
    if not result.profile.hops:
        raise wrong_usage(
            "ADM869",
            f"`{path}` has no hop",
            cause="; ".join(result.notes[:3]) or None,
            hint=f"each turn has the arms `{runs.NONE}` and `{runs.HOP}` at the same rate and size",
        )
    return checked(path, NewProfile(result.profile, result.notes))


def _named(name: str) -> None:
    if not is_profile_name(name):
        raise wrong_usage(
            "ADM801", f"`--name` has {NAME_OF_PROFILE}, and not `{name[:100]}`", hint="write `--name node`"
        )


def _cores(text: str) -> Decimal:
    number = Decimal(text) if text.replace(".", "", 1).isdecimal() and text.isascii() else Decimal(0)
    if not 0 < number < 1000:
        raise wrong_usage("ADM801", "`--saturation` is a number of cores, such as 0.7")
    return number


def checked(path: Path, made: NewProfile) -> NewProfile:
    """Read the JSON of a new profile, so that admc writes no profile that it cannot read. Raises `CommandError`.

    The JSON is in no file yet, so the errors have no span; they name the file that the profile was made from.
    """
    diagnostics = Diagnostics()
    read = read_profile(SourceText(f"{made.profile.name}.json", to_json(made.profile)), diagnostics)
    if read is None:
        errors = [
            replace(item, message=f"no profile can be made of `{path}`: {item.message}", span=None, related=())
            for item in diagnostics.items
        ]
        raise CommandError(Exit.INPUT, errors)
    return NewProfile(read, made.notes)
