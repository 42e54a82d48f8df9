"""Rows for training, out of what is remembered; in the order of (event time, key)."""

from collections import defaultdict
from collections.abc import Mapping
from math import fsum
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from coplace_client.bounds import NODE_POWER_W
from services.prediction.pair_trees import PairExample
from services.prediction.state import HALF, CoRunPair, Remembered
from shared.models import degradation
from shared.models.pair_trees import Side
from shared.streams.state.state import Table

Floats = NDArray[np.float64]


class Timed(Protocol):
    """Anything with an event time."""

    @property
    def time_us(self) -> int:
        """Return when it was true, by the clock that measured it."""
        ...


T = TypeVar("T", bound=Timed)


def in_order(table: Table[T]) -> list[tuple[str, T]]:
    """Return keys and values in the order of (event time, key)."""
    return sorted(table.items(), key=lambda item: (item[1].time_us, item[0]))


def pair_rows(remembered: Remembered) -> tuple[Floats, Floats]:
    """Features (rows, columns) and slowdown ratios (rows,), of the pairs whose signatures and
    whose peak bandwidth are known."""
    peaks_gbps = {c.node_model: c.peak_bandwidth_gbps for c in remembered.clusters.values()}
    rows = [_pair_row(pair, remembered, peaks_gbps) for _, pair in in_order(remembered.pairs)]
    known = [row for row in rows if row is not None]
    features = np.array([features for features, _ in known], dtype=np.float64)
    return features, np.array([slowdown for _, slowdown in known], dtype=np.float64)


def _pair_row(
    pair: CoRunPair, remembered: Remembered, peaks_gbps: Mapping[str, float]
) -> tuple[Floats, float] | None:
    own = remembered.traffic.get(f"{pair.app_id}|{pair.node_model}")
    other = remembered.traffic.get(f"{pair.co_runner_app_id}|{pair.node_model}")
    peak_gbps = peaks_gbps.get(pair.node_model)
    if own is None or other is None or peak_gbps is None:
        return None
    features = degradation.pair_features(
        own.mem_gbps * pair.core_share / HALF,
        other.mem_gbps * pair.co_runner_core_share / HALF,
        peak_gbps,
    )
    return features, pair.slowdown_ratio


def pair_examples(remembered: Remembered) -> list[PairExample]:
    """Return what trees of pairs are grown of: intervals of applications whose signatures are
    known."""
    found = (_example(pair, remembered) for _, pair in in_order(remembered.pairs))
    return [example for example in found if example is not None]


def new_examples(remembered: Remembered) -> list[PairExample]:
    """Return those that came since it was asked last."""
    keys = [key for key, _ in remembered.new_pairs.items()]
    for key in keys:
        remembered.new_pairs.drop(key)
    came = ((key, remembered.pairs.get(key)) for key in keys)
    pairs = sorted((pair.time_us, key, pair) for key, pair in came if pair is not None)
    found = (_example(pair, remembered) for _, _, pair in pairs)
    return [example for example in found if example is not None]


def _example(pair: CoRunPair, remembered: Remembered) -> PairExample | None:
    own = _side(pair.app_id, pair.core_share, pair.node_model, remembered)
    other = _side(pair.co_runner_app_id, pair.co_runner_core_share, pair.node_model, remembered)
    if own is None or other is None:
        return None
    return PairExample(
        pair.node_model, (pair.app_id, pair.co_runner_app_id), own, other, pair.slowdown_ratio
    )


def _side(app: str, core_share: float, node_model: str, remembered: Remembered) -> Side | None:
    """None where its application, or what its node moves at most, is not known."""
    known = remembered.traffic.get(f"{app}|{node_model}")
    peak_gbps = remembered.peak_gbps(node_model)
    if known is None or not known.cpi or peak_gbps is None:
        return None
    bandwidth_share = known.mem_gbps * core_share / peak_gbps
    return Side(bandwidth_share, core_share, known.cpi, known.power_w)


def fallback_power_w(remembered: Remembered) -> dict[str, float]:
    """Return the mean power of the nodes of each model, W: of their newest readings, else the
    declared idle power, which is a lower bound and all that is known. A node that is off says
    nothing."""
    declared = {c.node_model: c.idle_power_w for c in remembered.clusters.values()}
    readings: dict[str, list[float]] = defaultdict(list)
    for reading in remembered.nodes.values():
        if NODE_POWER_W.has(reading.power_w):
            readings[reading.node_model].append(reading.power_w)
    return declared | {model: fsum(all_w) / len(all_w) for model, all_w in readings.items()}
