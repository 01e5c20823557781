"""Computes the latency of each tree, level by level over all trees at once, exactly and in whole nanoseconds.

    Forest, nanoseconds that are added to each call -> [longest_paths] -> nanoseconds of each tree

A call takes the work of its callee and the calls that the callee makes: calls that run one after the other add up, of
calls that run together the longest counts, and asynchronous calls delay nothing.
"""

from __future__ import annotations

import numpy as np

from admc.cost.traces.forest import Forest, Ints


def longest_paths(forest: Forest, added: Ints) -> Ints:
    """Nanoseconds of each tree if each call with the code `c` takes `added[c]` nanoseconds more."""
    codes = forest.linked.call
    time = forest.work.copy()
    groups = np.searchsorted(forest.group_starts, forest.levels)
    parents = np.searchsorted(forest.parent_starts, groups)
    for level in range(len(forest.levels) - 2, -1, -1):
        low, high = int(forest.levels[level]), int(forest.levels[level + 1])
        if low == high:
            continue
        nodes = forest.order[low:high]
        spent = time[nodes] + added[codes[nodes]]
        first, last = int(groups[level]), int(groups[level + 1])
        longest = np.maximum.reduceat(spent, forest.group_starts[first:last] - low)
        begin, end = int(parents[level]), int(parents[level + 1])
        time[forest.parents[begin:end]] += np.add.reduceat(longest, forest.parent_starts[begin:end] - first)
    durations: Ints = time[forest.roots] + added[codes[forest.roots]]
    return durations


def sums(forest: Forest, amounts: Ints) -> Ints:
    """For each tree, the sum of `amounts[c]` over its calls, where `c` is the code of a call."""
    totals: Ints = np.add.reduceat(amounts[forest.linked.call], forest.firsts)
    return totals
