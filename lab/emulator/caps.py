"""What the emulated operators declare that clusters and the region may draw."""

from collections.abc import Sequence
from typing import Final

from coplace.v1.control_pb2 import (
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
    PowerCapDeclared,
    PowerCapStep,
)

from lab.emulator.facts import EPOCH_US
from lab.emulator.operators import declaration
from shared.catalogue.event import Publish
from shared.domain.cluster import Cluster

_HOUR_US: Final = 3_600_000_000
# Watts a node beyond idle, and from which hour on; None is no cap: the last step of each, so that
# every job starts, however large it is and at whichever clock.
_FIRST_CLUSTER: Final = ((0, 120.0), (8, 290.0), (100, None))
_REGION: Final = ((0, 180.0), (4, 110.0), (12, None))
# What nobody knew before: for two hours the region is to draw 30 % less beyond idle, at once.
_AT_ONCE_HOUR: Final = 10
_AT_ONCE: Final = ((_AT_ONCE_HOUR, 77.0), (12, None))


def built_in_caps(clusters: Sequence[Cluster]) -> list[PowerCapDeclared]:
    """Return a cap of the first cluster, which is raised, and one of the region, which is lowered;
    later both are removed. In between the region's is declared anew, and falls at once for a
    while."""
    first = clusters[0]
    return [
        PowerCapDeclared(
            scope=POWER_SCOPE_CLUSTER,
            name=first.name,
            steps=_steps(_FIRST_CLUSTER, [first]),
            reason="cooling is serviced",
            declared_at_us=EPOCH_US,
        ),
        PowerCapDeclared(
            scope=POWER_SCOPE_REGION,
            steps=_steps(_REGION, clusters),
            reason="the grid is short of power",
            declared_at_us=EPOCH_US,
        ),
        PowerCapDeclared(
            scope=POWER_SCOPE_REGION,
            steps=_steps(_AT_ONCE, clusters),
            reason="the grid asks for less at once",
            declared_at_us=EPOCH_US + _AT_ONCE_HOUR * _HOUR_US,
        ),
    ]


def cap_event(cap: PowerCapDeclared) -> Publish:
    """Return the event that an operator declared it."""
    return declaration(cap, f"{cap.scope}/{cap.name}", cap.name)


def step_times_us(caps: Sequence[PowerCapDeclared]) -> list[int]:
    """Return when caps change, in order."""
    return sorted({step.from_us for cap in caps for step in cap.steps})


def _steps(
    hours: Sequence[tuple[int, float | None]], clusters: Sequence[Cluster]
) -> list[PowerCapStep]:
    nodes = sum(cluster.nodes for cluster in clusters)
    idle_w = sum(cluster.nodes * cluster.idle_power_w for cluster in clusters)
    return [
        PowerCapStep(
            from_us=EPOCH_US + hour * _HOUR_US,
            watts=None if node_w is None else idle_w + nodes * node_w,
        )
        for hour, node_w in hours
    ]
