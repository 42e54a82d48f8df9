"""What a quantity or a list can be at most, whoever says so: read from `bounds.proto`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from coplace.v1.bounds_pb2 import DESCRIPTOR
from coplace.v1.options_pb2 import lengths, quantities

from coplace_client.checks import readable
from coplace_client.errors import RejectedError

# Means and projections of values at a bound may round to beyond it.
_ROUNDING: Final = 1e-9
_DECLARED: Final = DESCRIPTOR.GetOptions().Extensions


@dataclass(frozen=True, slots=True)
class Bound:
    """The least and the most of a quantity, and why. `mistaken` are units in which people give it,
    each with the factor that leads to the right one."""

    least: float
    most: float
    unit: str
    why: str
    mistaken: tuple[tuple[str, float], ...] = ()

    def require(self, field: str, value: float) -> None:
        """Raise RejectedError unless `value` lies within."""
        if not self.has(value):
            unit = f" {self.unit}" if self.unit else ""
            within = f"from {readable(self.least)} to {readable(self.most)}{unit}"
            problem = f"must be {within}, got {value!r}"
            raise RejectedError(field, problem + self._hint(value))

    def require_if_known(self, field: str, value: float) -> None:
        """Require that a value lies within, where 0 means that it is unknown."""
        if value != 0:
            self.require(field, value)

    def has(self, value: float) -> bool:
        """Return whether a value lies within; NaN does not."""
        low, most = self.least, self.most
        if low <= value <= most:
            return True
        return low - _ROUNDING * abs(low) <= value <= most + _ROUNDING * abs(most)

    def _hint(self, value: float) -> str:
        for unit, factor in self.mistaken:
            if self.has(value * factor):
                return f": is that {unit}?"
        return ""


@dataclass(frozen=True, slots=True)
class Length:
    """The most entries of a list, and why."""

    most: int
    why: str

    def require(self, field: str, count: int) -> None:
        """Raise RejectedError for a longer list."""
        if count > self.most:
            raise RejectedError(field, f"must hold at most {self.most:,}, got {count}")


# By the name of the field that holds it, in messages and in domain types.
QUANTITIES: Final[Mapping[str, Bound]] = {
    name: Bound(
        one.least,
        one.most,
        one.unit,
        one.why,
        tuple((wrong.unit, wrong.factor) for wrong in one.mistaken),
    )
    for one in _DECLARED[quantities]
    for name in one.names
}
# By the name of the list in messages and in domain types.
LENGTHS: Final[Mapping[str, Length]] = {
    one.name: Length(one.most, one.why) for one in _DECLARED[lengths]
}

CLOCK_GHZ: Final = QUANTITIES["freq_ghz"]
WALLTIME_S: Final = QUANTITIES["walltime_s"]
DELAY_S: Final = QUANTITIES["delay_s"]
NODE_POWER_W: Final = QUANTITIES["power_w"]
TDP_W: Final = QUANTITIES["tdp_w"]
READING_W: Final = QUANTITIES["samples.power_w"]
JOB_ENERGY_J: Final = QUANTITIES["energy_j"]
NODE_MEMORY_GIB: Final = QUANTITIES["memory_gib_per_node"]
JOB_MEMORY_GIB: Final = QUANTITIES["memory_gib"]
PEAK_BANDWIDTH_GBPS: Final = QUANTITIES["peak_bandwidth_gbps"]
BANDWIDTH_GBPS: Final = QUANTITIES["mem_gbps"]
IPC: Final = QUANTITIES["ipc_before"]
SLOWDOWN_RATIO: Final = QUANTITIES["slowdown_ratio"]
NODES: Final = QUANTITIES["nodes"]
CORES_PER_NODE: Final = QUANTITIES["cores_per_node"]
RESOURCES: Final = QUANTITIES["resources_per_unit"]
LICENCES: Final = QUANTITIES["licences"]
UNITS_PER_NODE: Final = QUANTITIES["units_per_node"]
CORES: Final = QUANTITIES["cores"]
ATTEMPT: Final = QUANTITIES["attempt"]
GRANT: Final = QUANTITIES["grant"]
PRIORITY: Final = QUANTITIES["priority"]
RUNS: Final = QUANTITIES["count"]
CORE_S: Final = QUANTITIES["core_s"]
POWER_CAP_W: Final = QUANTITIES["steps.watts"]
NODE_FACTOR: Final = QUANTITIES["factors"]
LOG_POWER: Final = QUANTITIES["log_w"]
ALPHA: Final = QUANTITIES["alpha"]
# Who counts nodes keeps a place for each of them.
MOST_NODES: Final = int(NODES.most)
