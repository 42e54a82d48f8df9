"""How much two jobs on the halves of one node really slow each other down."""

from typing import Final

# Declared, not measured: no source gives pairs of these applications. Two STREAM lose half as much
# again, pairs of mixed applications 2 to 10 %, ep.D nothing: the range of the pairs of memory-bound
# and compute-bound programs in the studies of co-location. A job suffers more the more of its time
# it waits for memory, which levels off; pressure grows with the square of what the neighbour moves
# while there is bandwidth to spare, and levels off when there is none. Neither is linear, so that
# a linear model of it has a real error.
WORST: Final = 1.4
HALF_SENSITIVE_GBPS: Final = 30.0
HALF_PRESSURE_GBPS: Final = 70.0


def slowdown_ratio(own_gbps: float, other_gbps: float) -> float:
    """Return T_co / T_solo of a job that moves `own_gbps` a node beside one that moves
    `other_gbps`."""
    sensitivity = own_gbps / (own_gbps + HALF_SENSITIVE_GBPS)
    pressure = other_gbps / HALF_PRESSURE_GBPS
    relative = pressure * pressure
    return 1.0 + WORST * sensitivity * relative / (1.0 + relative)
