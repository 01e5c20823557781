"""Links the rows of Alibaba's traces to trees of calls.

    Rows of whole traces -> [link] -> Result: the trees, and the reason why each other trace is dropped

Caller and callee record one row each of a call. Both rows have the id of the call (`0.1.2`), which begins with the id
of its parent (`0.1`). Files also have ids that several calls share:

    rows of one id                              are
    equal, with a duration                      counted once
    of different callers or callees             different calls; a parent is the one whose callee is the caller
    one of the caller and one of the callee     one call
    several of the caller, none of the callee   a call each; if such a call has a child, the trace is dropped
    any others                                  a contradiction: the trace is dropped
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from admc.cost.traces.drops import Reason
from admc.cost.traces.forest import MAX_CALLS, MAX_DEPTH, Flags, Ints, Linked, runs_back, too_long
from admc.cost.traces.rows import Rows

MILLISECOND: Final = 1_000_000
RESOLUTION: Final = 1
"""Milliseconds by which two times may contradict each other, since start and duration are rounded."""
MAX_SHARED: Final = 1000
"""Most calls of one id among which the parent of a call is looked for."""
ENTRY: Final = 1
"""The greatest depth of the id of a first call: `0` has depth 0, and `0.1` has depth 1."""


class Result(NamedTuple):
    linked: Linked
    traces: Ints
    """For each tree, the number of its trace."""
    reasons: Ints
    """For each trace of the part: the `Reason` why it is dropped, -1 if it is taken, -2 if it has no row."""
    calls: Ints
    """For each trace of the part, how many calls it has."""
    duplicates: int


class Ids(NamedTuple):
    """`Paths` and `Directory` as columns: parent and depth of each id, caller and callee of each code of a call."""

    parents: NDArray[np.int32]
    depths: NDArray[np.int16]
    sources: NDArray[np.int32]
    destinations: NDArray[np.int32]


def link(rows: Rows, first: int, ids: Ids) -> Result:
    """Link the rows of a part; `first` is the number of the first trace of the part."""
    bits = max(1, (len(ids.parents) - 1).bit_length())
    rows, keys = _sorted(rows, first, bits)
    rows, keys, duplicates = _repaired(rows, keys, bits)
    count = int(keys[-1] >> bits) + 1
    heads, tails, contradictory = _paired(rows, keys)
    wrong = np.zeros(count, np.int64)
    _mark(wrong, keys[contradictory] >> bits, Reason.IDS)
    keys = keys[heads]
    tree, path = keys >> bits, keys & ((1 << bits) - 1)
    call = rows.call[heads] >> 1
    parent = _parents(keys, tree, path, call, ids, bits, wrong)
    for reason in (Reason.UNKNOWN_SERVICE, Reason.UNDECLARED_CALL, Reason.UNCLEAR_CALL):
        _mark(wrong, tree[call == -1 - reason], reason)
    numbers = np.bincount(tree, minlength=count)
    _mark(wrong, np.flatnonzero(numbers > MAX_CALLS), Reason.TOO_LARGE)
    depth = _depths(tree, path, parent, ids, count)
    _mark(wrong, tree[depth > MAX_DEPTH], Reason.TOO_LARGE)
    outer, inner, spent, inner_spent = _times(rows, heads, tails)
    linked = Linked(
        tree,
        parent,
        depth,
        call,
        outer,
        outer + spent,
        inner,
        inner + inner_spent,
        (rows.call[heads] & 1).astype(np.bool_),
        MILLISECOND,
        RESOLUTION,
    )
    _mark(wrong, tree[too_long(linked)], Reason.TOO_LARGE)
    _mark(wrong, tree[runs_back(linked)], Reason.CLOCK)
    reasons = np.where(numbers == 0, -2, _first_reason(wrong))
    kept, traces = only(linked, reasons == -1)
    return Result(kept, traces + first, reasons, numbers, duplicates)


def only(linked: Linked, trees: Flags) -> tuple[Linked, Ints]:
    """The trees that the flags `trees` choose, numbered anew, and the number that each had before."""
    numbers = np.flatnonzero(trees)
    # A tree without calls takes up a number, too.
    if trees.all():
        return linked, numbers
    chosen = trees[linked.tree]
    places = np.cumsum(chosen) - 1
    renumbered = np.cumsum(trees) - 1
    parent = linked.parent[chosen]
    return (
        Linked(
            renumbered[linked.tree[chosen]],
            np.where(parent < 0, -1, places[np.maximum(parent, 0)]),
            linked.depth[chosen],
            linked.call[chosen],
            linked.start[chosen],
            linked.end[chosen],
            linked.inner_start[chosen],
            linked.inner_end[chosen],
            linked.detached[chosen],
            linked.tick,
            linked.resolution,
        ),
        numbers,
    )


def _mark(wrong: Ints, trees: Ints, reason: Reason) -> None:
    wrong[trees] |= 1 << reason


def _first_reason(wrong: Ints) -> Ints:
    """For each trace, its lowest reason, or -1. `wrong` has a bit for each reason."""
    lowest = wrong & -wrong
    reasons: Ints = np.where(wrong == 0, -1, np.log2(np.maximum(lowest, 1)).astype(np.int64))
    return reasons


def _sorted(rows: Rows, first: int, bits: int) -> tuple[Rows, Ints]:
    """The rows in the order of traces and ids, and a key for each row that is made of both."""
    keys = ((rows.trace.astype(np.int64) - first) << bits) | rows.path
    places = len(keys).bit_length()
    if int(keys.max()).bit_length() + places > 63:
        order = np.argsort(keys, kind="stable")
    else:
        packed = (keys << places) | np.arange(len(keys))
        packed.sort()
        order = packed & ((1 << places) - 1)
    return rows.take(order), keys[order]


def _repaired(rows: Rows, keys: Ints, bits: int) -> tuple[Rows, Ints, int]:
    """Repair the traces in which an id has rows of different calls, more than two rows, or two rows of one end.

    Their rows of one id are ordered by call and time, and of equal rows one is kept. Returns the rows, their keys, and
    how many rows were left out.
    """
    same = keys[1:] == keys[:-1]
    unusual = same & (rows.call[1:] != rows.call[:-1])
    unusual[1:] |= same[1:] & same[:-1]
    unusual |= same & (rows.spent[1:].astype(np.int64) * rows.spent[:-1] > 0)
    if not unusual.any():
        return rows, keys, 0
    trees = np.zeros(int(keys[-1] >> bits) + 1, np.bool_)
    trees[keys[1:][unusual] >> bits] = True
    places = np.flatnonzero(trees[keys >> bits])
    part = rows.take(places)
    order = places[np.lexsort((part.spent, part.stamp, part.call, keys[places]))]
    whole = np.arange(len(keys))
    whole[places] = order
    rows = rows.take(whole)
    twice = np.zeros(len(keys), np.bool_)
    twice[1:] = (keys[1:] == keys[:-1]) & (rows.spent[1:] != 0)
    for column in (rows.call, rows.stamp, rows.spent):
        twice[1:] &= column[1:] == column[:-1]
    return rows.take(~twice), keys[~twice], int(twice.sum())


def _paired(rows: Rows, keys: Ints) -> tuple[Ints, Ints, Ints]:
    """For each call the index of its caller's row and of its callee's row (the same if only one is recorded); and the
    indexes of contradictory rows, of which it is not recorded which two are one call."""
    new = np.ones(len(keys), np.bool_)
    new[1:] = (keys[1:] != keys[:-1]) | (rows.call[1:] != rows.call[:-1])
    starts = np.flatnonzero(new)
    sizes = np.diff(starts, append=len(keys))
    second = np.minimum(starts + 1, len(keys) - 1)
    lower, upper = rows.spent[starts], rows.spent[second]
    pair = (sizes == 2) & (lower.astype(np.int64) * upper <= 0)
    swap = pair & ((upper > lower) | ((upper == lower) & (rows.stamp[second] < rows.stamp[starts])))
    callers = np.where(swap, second, starts)
    callees = np.where(pair, np.where(swap, starts, second), starts)
    several = (sizes > 1) & ~pair
    if not several.any():
        return callers, callees, np.zeros(0, np.int64)
    members = np.flatnonzero(np.repeat(several, sizes))
    negative = np.add.reduceat((rows.spent < 0).astype(np.int64), starts) > 0
    contradictory = np.flatnonzero(np.repeat(several & negative, sizes))
    heads = np.sort(np.concatenate((callers[~several], members)))
    tails = heads.copy()
    tails[np.searchsorted(heads, callers[~several])] = callees[~several]
    return heads, tails, contradictory


def _parents(keys: Ints, tree: Ints, path: Ints, call: NDArray[np.int32], ids: Ids, bits: int, wrong: Ints) -> Ints:
    """The index of each call's parent, or -1. Marks trees without exactly one root, or with an unclear parent."""
    above = ids.parents[path]
    wanted = (tree << bits) | np.maximum(above, 0)
    place = np.searchsorted(keys, wanted)
    place = np.minimum(place, len(keys) - 1)
    has_parent = (above >= 0) & (keys[place] == wanted)
    _roots(tree, path, ~has_parent, ids, wrong)
    known = has_parent & (call >= 0) & (call[place] >= 0)
    fits = np.zeros(len(keys), np.bool_)
    fits[known] = ids.destinations[call[place[known]]] == ids.sources[call[known]]
    shared = np.zeros(len(keys), np.bool_)
    shared[:-1] = keys[1:] == keys[:-1]
    doubtful = np.flatnonzero(known & (~fits | shared[place]))
    parent = np.where(has_parent, place, -1)
    if len(doubtful):
        _settle(doubtful, parent, keys, call, ids, tree, wrong)
    return parent


def _settle(
    doubtful: Ints, parent: Ints, keys: Ints, call: NDArray[np.int32], ids: Ids, tree: Ints, wrong: Ints
) -> None:
    """Set the parent of each doubtful call: among the calls with the parent's id, the only one whose callee is the
    caller of the doubtful call. Marks the trees in which none or several fit."""
    base = parent[doubtful]
    chosen, key = base.copy(), keys[base]
    source = ids.sources[call[doubtful]]
    matches = np.zeros(len(doubtful), np.int64)
    for step in range(MAX_SHARED):
        place = np.minimum(base + step, len(keys) - 1)
        fits = (base + step < len(keys)) & (keys[place] == key)
        if not fits.any():
            break
        fits &= call[place] >= 0
        fits[fits] = ids.destinations[call[place[fits]]] == source[fits]
        chosen[fits] = place[fits]
        matches += fits
    parent[doubtful] = chosen
    _mark(wrong, tree[doubtful[matches != 1]], Reason.IDS)


def _roots(tree: Ints, path: Ints, root: Flags, ids: Ids, wrong: Ints) -> None:
    """Mark trees that have no first call, several first calls, or a call whose parent is missing."""
    roots = np.flatnonzero(root)
    trees, depths = tree[roots], ids.depths[path[roots]].astype(np.int64)
    starts = np.flatnonzero(np.diff(trees, prepend=-1))
    highest = np.minimum.reduceat(depths, starts)
    number = np.add.reduceat(np.ones(len(roots), np.int64), starts)
    at_top = np.add.reduceat((depths == np.repeat(highest, number)).astype(np.int64), starts)
    _mark(wrong, trees[starts[highest > ENTRY]], Reason.NO_ROOT)
    _mark(wrong, trees[starts[at_top > 1]], Reason.TWO_ROOTS)
    _mark(wrong, trees[starts[number > at_top]], Reason.CUT_OFF)


def _depths(tree: Ints, path: Ints, parent: Ints, ids: Ids, count: int) -> NDArray[np.int16]:
    """How many ancestors each call has. The number has no meaning in a tree that is dropped."""
    roots = np.flatnonzero(parent < 0)
    top = np.zeros(count, np.int16)
    top[tree[roots]] = ids.depths[path[roots]]
    depths: NDArray[np.int16] = ids.depths[path] - top[tree]
    return depths


def _times(rows: Rows, heads: Ints, tails: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The start of each call as its caller recorded it, the start as its callee did, and both durations."""
    return (
        rows.stamp[heads],
        rows.stamp[tails],
        np.abs(rows.spent[heads]).astype(np.int64),
        np.abs(rows.spent[tails]).astype(np.int64),
    )
