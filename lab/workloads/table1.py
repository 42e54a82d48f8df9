"""The eight applications of the EAMC paper on its partitions p1 and p2.

Source of every number: M. D'Amico and J. Corbalan, "Energy hardware and workload aware job
scheduling towards interconnected HPC environments" (2021), Table 1 and, for the nodes, Section 5.
The applications were measured on one node, on all of its cores.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from coplace_client.errors import RejectedError


@dataclass(frozen=True, slots=True)
class PublishedNodeModel:
    """Hardware of one kind of node; its P-states differ by 0.1 GHz."""

    name: str
    partition: str
    cores: int
    lowest_ghz: float
    nominal_ghz: float

    @property
    def pstates_ghz(self) -> tuple[float, ...]:
        """Return all frequencies in GHz, ascending; the last is the nominal one."""
        steps = range(round(self.lowest_ghz * 10), round(self.nominal_ghz * 10) + 1)
        return tuple(step / 10 for step in steps)


class AppProfile(NamedTuple):
    """An application on one node of one model at the nominal P-state.

    `slope_s_per_100mhz` is the table's runtime slope: seconds more for each 0.1 GHz less. The
    table leaves the 0.1 GHz out, but ep.D, which computes only, leaves no other reading: over the
    15 steps from 2.7 to 1.2 GHz 5.67 s makes it 2.3 times as long, about the ratio of the clocks.
    """

    cpi: float
    mem_gbps: float
    time_s: float
    power_w: float
    slope_s_per_100mhz: float


@dataclass(frozen=True, slots=True)
class App:
    """One row of Table 1: `number` is its AppID, `on` its profile by name of node model."""

    number: int
    app_id: str
    on: Mapping[str, AppProfile]


PLATINUM_8168: Final = PublishedNodeModel("platinum-8168", "p1", 48, 1.2, 2.7)
GOLD_6254: Final = PublishedNodeModel("gold-6254", "p2", 36, 1.2, 3.1)
NODE_MODELS: Final[Mapping[str, PublishedNodeModel]] = MappingProxyType(
    {model.name: model for model in (PLATINUM_8168, GOLD_6254)}
)

_ROWS: Final = (
    (
        "lu.C",
        AppProfile(0.67, 70.95, 52.49, 386, 2.38),
        AppProfile(0.66, 63.73, 57.45, 367, 2.87),
    ),
    (
        "ep.D",
        AppProfile(0.60, 0.03, 64.20, 349, 5.67),
        AppProfile(0.60, 0.04, 74.20, 337, 6.37),
    ),
    (
        "bt-mz.C",
        AppProfile(0.38, 23.33, 43.95, 417, 3.52),
        AppProfile(0.39, 19.96, 51.32, 411, 4.05),
    ),
    (
        "sp-mz.C",
        AppProfile(0.44, 66.09, 46.05, 460, 3.07),
        AppProfile(0.50, 52.24, 59.76, 427, 3.34),
    ),
    (
        "lu-mz.C",
        AppProfile(0.62, 19.87, 59.21, 355, 4.75),
        AppProfile(0.62, 21.14, 61.41, 360, 4.70),
    ),
    (
        "ua.C",
        AppProfile(0.99, 51.29, 46.96, 368, 1.74),
        AppProfile(0.95, 49.05, 53.11, 360, 1.84),
    ),
    (
        "DGEMM",
        AppProfile(0.40, 66.43, 47.40, 491, 3.29),
        AppProfile(0.40, 62.76, 52.60, 497, 3.08),
    ),
    (
        "STREAM",
        AppProfile(4.46, 138.87, 107.55, 381, 0.16),
        AppProfile(3.67, 137.47, 81.43, 365, 0.06),
    ),
)
APPS: Final[Mapping[str, App]] = MappingProxyType(
    {
        app_id: App(number, app_id, MappingProxyType({PLATINUM_8168.name: p1, GOLD_6254.name: p2}))
        for number, (app_id, p1, p2) in enumerate(_ROWS, start=1)
    }
)


def profile(app_id: str, node_model: str) -> AppProfile:
    """Return the profile of an application on a node model. Raises RejectedError for unknown
    names."""
    if app_id not in APPS:
        raise RejectedError("app_id", f"must be one of {', '.join(APPS)}, got {app_id!r}")
    if node_model not in NODE_MODELS:
        known = ", ".join(NODE_MODELS)
        raise RejectedError("node_model", f"must be one of {known}, got {node_model!r}")
    return APPS[app_id].on[node_model]
