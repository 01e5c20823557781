"""Pickles as MeshInsight's tool writes them: real ones of numpy, with a stand-in for the class of scikit-learn."""

from __future__ import annotations

import pickle
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

PLATFORM = ("CPU: Test 2.6 GHz", "Kernel: 5.4", "Kubernetes: v1.23", "Istio: v1.13")
LATENCIES: Mapping[str, Mapping[str, tuple[float, float]]] = {
    # name: intercept and slope, in microseconds
    "tcp": {
        "read_reg": (8.0, 0.0005),
        "write_reg": (13.0, 0.001),
        "epoll_reg": (1.25, 0.0),
        "ipc_reg": (11.5, 0.002),
        "envoy_reg": (4.25, 0.0001),
    },
    "http": {
        "read_reg": (9.0, 0.0005),
        "write_reg": (13.75, 0.001),
        "epoll_reg": (1.25, 0.0),
        "ipc_reg": (12.75, 0.002),
        "envoy_reg": (13.0, 0.0001),
        "parsing_reg": (117.5, 0.001),
    },
}


class LinearRegression:
    """Pickled by the name of scikit-learn's class, with the fields that it has."""

    def __init__(self, intercept: float, slope: float) -> None:
        self.fit_intercept = True
        self.copy_X = True
        self.n_jobs = None
        self.positive = False
        self.coef_: Any = np.array([slope])
        self.rank_ = 1
        self.singular_ = np.array([3162.3])
        self.intercept_ = np.float64(intercept)
        self._sklearn_version = "1.1.2"


LinearRegression.__module__ = "sklearn.linear_model._base"


@contextmanager
def _importable() -> Iterator[None]:
    names = ("sklearn", "sklearn.linear_model", "sklearn.linear_model._base")
    before = {name: sys.modules.get(name) for name in names}
    for name in names:
        sys.modules[name] = types.ModuleType(name)
    sys.modules[names[-1]].LinearRegression = LinearRegression  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def regressions(latencies: Mapping[str, Mapping[str, tuple[float, float]]] = LATENCIES) -> dict[str, Any]:
    return {
        protocol: {name: LinearRegression(*line) for name, line in lines.items()}
        for protocol, lines in latencies.items()
    }


def profile(protocol: int = 4, **quantities: Any) -> bytes:
    """The file of one platform: its latencies, unless `quantities` says otherwise."""
    content = quantities or {"latency": regressions()}
    with _importable():
        return pickle.dumps({PLATFORM: content}, protocol=protocol)


def dumped(value: Any, protocol: int = 4) -> bytes:
    with _importable():
        return pickle.dumps(value, protocol=protocol)
