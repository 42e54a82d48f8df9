"""Manufacturing variability: what each node draws against the mean node of its model."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared.numerics.elementary import exps, logs

Ints = NDArray[np.int64]

# Readings that the belief in an average node counts as much as: nodes of one model differ about as
# much as runs of one application do.
PRIOR_READINGS: Final = 1.0
SWEEPS: Final = 50


class NodeDraw(NamedTuple):
    """What a node drew for one job that had it alone, W; jobs of one `group` are the same
    application at the same P-state of the same node model."""

    time_us: int
    event_id: str
    cluster: str
    node: str
    group: str
    power_w: float


def node_factors(draws: Sequence[NodeDraw]) -> Mapping[tuple[str, str], float]:
    """Return the power of each (cluster, node) over that of the mean node, shrunk towards 1.

    ln P = a_group + b_node + noise, by least squares with the penalty PRIOR_READINGS b_node^2
    (ridge regression; Hoerl and Kennard, Technometrics 1970), one of the two sets after the other:
    b = sum of (ln P - a) / (PRIOR_READINGS + readings). A node with few readings stays near 1.
    """
    if not draws:
        return {}
    log_w = logs(np.array([draw.power_w for draw in draws]))
    names = sorted({(draw.cluster, draw.node) for draw in draws})
    groups = sorted({draw.group for draw in draws})
    node = _indices([(draw.cluster, draw.node) for draw in draws], names)
    group = _indices([draw.group for draw in draws], groups)
    per_node = np.bincount(node, minlength=len(names)) + PRIOR_READINGS
    per_group = np.bincount(group, minlength=len(groups))
    offset = np.zeros(len(names))
    for _ in range(SWEEPS):
        usual = np.bincount(group, log_w - offset[node], len(groups)) / per_group
        offset = np.bincount(node, log_w - usual[group], len(names)) / per_node
    return dict(zip(names, exps(offset).tolist(), strict=True))


def _indices(values: Sequence[object], among: Sequence[object]) -> Ints:
    index = {value: number for number, value in enumerate(among)}
    return np.array([index[value] for value in values], dtype=np.int64)
