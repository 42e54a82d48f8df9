"""What a quantity, a text or a list can be at most, whoever says so: declared once.

Ingest refuses what lies beyond at the door, every stage refuses it in its records, and domain types
on construction. So what is worked out of accepted values neither overflows nor outgrows a message.
`docs/bounds.md` shows the tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from coplace_client.checks import readable
from coplace_client.errors import RejectedError

# More than any cluster has: who counts nodes keeps a place for each of them.
MOST_NODES: Final = 100_000
# Means and projections of values at a bound may round to beyond it.
_ROUNDING: Final = 1e-9
_DAY_S: Final = 86_400.0
_CLOCKS: Final = (("MHz", 1e-3), ("kHz", 1e-6), ("Hz", 1e-9))
_WATTS: Final = (("kW", 1e3), ("mW", 1e-3))
_SECONDS: Final = (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
_GIBS: Final = (("MiB", 2.0**-10), ("bytes", 2.0**-30))
_RATES: Final = (("MB/s", 1e-3), ("bytes/s", 1e-9))


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
        """Likewise, where 0 says that nobody knows."""
        if value != 0:
            self.require(field, value)

    def has(self, value: float) -> bool:
        """Whether a value lies within; what is no number does not."""
        low, most = self.least, self.most
        if low <= value <= most:
            return True
        return low - _ROUNDING * abs(low) <= value <= most + _ROUNDING * abs(most)

    def _hint(self, value: float) -> str:
        for unit, factor in self.mistaken:
            if self.has(value * factor):
                return f": is that {unit}?"
        return ""


CLOCK_GHZ: Final = Bound(
    0.1, 10, "GHz", "no processor of a cluster is clocked lower or higher", _CLOCKS
)
WALLTIME_S: Final = Bound(
    1e-3, 366 * _DAY_S, "s", "a year: longer ones are no limits", _SECONDS[1:]
)
ITERATION_S: Final = Bound(1e-6, 366 * _DAY_S, "s", "from a few cycles to a whole job")
NODE_POWER_W: Final = Bound(
    1, 1e5, "W", "from a single board to a rack with its own cooling", _WATTS
)
TDP_W: Final = Bound(0.1, 1e5, "W", "from a stick to an accelerator as large as a node", _WATTS)
READING_W: Final = Bound(0, 1e5, "W", "a meter shows 0 when the node is off", _WATTS[1:])
ACCELERATORS_W: Final = Bound(
    0.1, 1e15, "W", "all kinds of a unit of one core, on as many cores as a node can have", _WATTS
)
JOB_ENERGY_J: Final = Bound(
    0, 1e16, "J", "ten years of the largest machine", (("mJ", 1e-3), ("uJ", 1e-6))
)
NODE_MEMORY_GIB: Final = Bound(0.1, 1e6, "GiB", "from a single board to a petabyte", _GIBS)
JOB_MEMORY_GIB: Final = Bound(
    1e-3, 1e8, "GiB", "over all nodes: ten times what the largest machine has", _GIBS
)
PEAK_BANDWIDTH_GBPS: Final = Bound(
    0.1, 1e6, "GB/s", "from a single board to a rack of accelerators", _RATES
)
BANDWIDTH_GBPS: Final = Bound(0, 1e6, "GB/s", "as the peak; a program may use none", _RATES)
CPI: Final = Bound(0.01, 1e3, "", "from a hundred instructions a cycle to one in 1,000 cycles")
IPC: Final = Bound(1e-3, 100, "", "the inverse of CPI")
TPI: Final = Bound(0, 1e6, "", "a few an instruction, or a million of them on another scale")
SLOWDOWN_RATIO: Final = Bound(1, 1e5, "", "the highest IPC over the lowest")
NODES: Final = Bound(1, MOST_NODES, "nodes", "ten times what the largest machine has")
CORES_PER_NODE: Final = Bound(1, 10_000, "cores", "ten times what the largest node has")
RESOURCES: Final = Bound(1, 10_000, "", "of one kind: ten times what the largest node has")
UNITS_PER_NODE: Final = Bound(1, 10_000, "units", "one a core")
CORES: Final = Bound(1, 1e9, "cores", "as many nodes of as many cores")
CORE_SHARE: Final = Bound(1e-4, 1, "", "one core of the largest node, to a whole node")
CO_RUNNERS: Final = Bound(1, 10_000, "jobs", "one a core")
ATTEMPT: Final = Bound(1, 1_000_000, "", "requeues of one job, counted from 1")
GRANT: Final = Bound(1, 2**53, "", "starts that were granted, counted from 1: a double holds it")
ACTION: Final = Bound(1, 2**53, "", "actions on one attempt of a job, counted from 1")
PRIORITY: Final = Bound(-100, 100, "", "classes of service and fair shares, as a key of the queue")
RUNS: Final = Bound(1, 2**32 - 1, "runs", "what a mean was taken of")
CORE_S: Final = Bound(0, 1e13, "core-seconds", "a million cores for four months, of one run")
COEFFICIENT: Final = Bound(
    -1e30, 1e30, "", "what is learned of bounded values lies within, and its products stay finite"
)
POWER_CAP_W: Final = Bound(
    1, 1e9, "W", "from a single board to ten of the largest machines", (("MW", 1e6), ("kW", 1e3))
)
PLANNED_DRAW_W: Final = Bound(0, 1e9, "W", "as a cap: a job may draw nothing beyond idle")
PLANNED_TIER: Final = Bound(0, 255, "", "one a cluster, and some more")
NODE_FACTOR: Final = Bound(1e-6, 1e6, "", "what a node draws over the mean node")
T_WEIGHT: Final = Bound(0, 1e6, "", "of time over energy: 0 counts energy alone")
CAP_MARGIN: Final = Bound(0, 0.5, "", "of a cap, kept free: none, to half of it")
CAP_POWER_SD: Final = Bound(0, 1, "", "of a logarithm: all alike, to a third or three times it")
CAP_USER_CORRELATION: Final = Bound(0, 1, "", "of errors: each for itself, to all as one")
CAP_RISK: Final = Bound(1e-6, 0.5, "", "one moment in a million above a cap, to as predicted")
THRESHOLD: Final = Bound(0, 1e6, "", "above the best part_eff: 0 counts the best cluster alone")
QUANTILE: Final = Bound(0.5, 0.999_999, "", "the median, to one run in a million that takes more")
LOG_POWER: Final = Bound(-1, 12, "ln W", "of the power of a node")
LOSSES: Final = Bound(0, 1e6, "", "sums of relative errors that are forgotten")
MARGIN_W: Final = Bound(-1e5, 1e5, "W", "as the power of a node, or below a prediction")
MARGIN_SHARE: Final = Bound(0, 1e3, "", "above a prediction")
ALPHA: Final = Bound(1e-6, 0.5, "", "of the jobs: one in a million, to the median")
TIMEOUT_S: Final = Bound(0, 366 * _DAY_S, "s", "a year; 0 is at once, or never", _SECONDS)
FAILURE_WINDOW_S: Final = Bound(1, 366 * _DAY_S, "s", "a year", _SECONDS[1:])
TRIES: Final = Bound(0, 1_000_000, "", "as attempts; 0 is any number")
NODE_FAILURES: Final = Bound(0, 100, "", "each is kept; 0 is any number")

# By the name of the field that holds it, in messages and in domain types.
QUANTITIES: Final[Mapping[str, Bound]] = {
    "freq_ghz": CLOCK_GHZ,
    "pstates_ghz": CLOCK_GHZ,
    "walltime_s": WALLTIME_S,
    "time_s": ITERATION_S,
    "power_w": NODE_POWER_W,
    "idle_power_w": NODE_POWER_W,
    "tdp_w": TDP_W,
    "accelerators_w": ACCELERATORS_W,
    "nameplate_power_w": NODE_POWER_W,
    "samples.power_w": READING_W,
    "energy_j": JOB_ENERGY_J,
    "memory_gib": JOB_MEMORY_GIB,
    "memory_gib_per_node": NODE_MEMORY_GIB,
    "peak_bandwidth_gbps": PEAK_BANDWIDTH_GBPS,
    "mem_gbps": BANDWIDTH_GBPS,
    "cpi": CPI,
    "ipc_before": IPC,
    "ipc_during": IPC,
    "ipc_after": IPC,
    "tpi": TPI,
    "slowdown_ratio": SLOWDOWN_RATIO,
    "nodes": NODES,
    "cores_per_node": CORES_PER_NODE,
    "cores_per_unit": CORES_PER_NODE,
    "memory_gib_per_unit": NODE_MEMORY_GIB,
    "resources_per_unit": RESOURCES,
    "resources": RESOURCES,
    "units_per_node": UNITS_PER_NODE,
    "cores": CORES,
    "core_share": CORE_SHARE,
    "co_runner_core_share": CORE_SHARE,
    "co_runners": CO_RUNNERS,
    "attempt": ATTEMPT,
    "grant": GRANT,
    "number": ACTION,
    "priority": PRIORITY,
    "count": RUNS,
    "coefficient": COEFFICIENT,
    "factors": NODE_FACTOR,
    "steps.watts": POWER_CAP_W,
    "draw_w": PLANNED_DRAW_W,
    "tier": PLANNED_TIER,
    "t_weight": T_WEIGHT,
    "threshold": THRESHOLD,
    "max_slowdown": SLOWDOWN_RATIO,
    "cap_slowdown": SLOWDOWN_RATIO,
    "cap_margin": CAP_MARGIN,
    "cap_risk": CAP_RISK,
    "cap_power_sd": CAP_POWER_SD,
    "cap_user_correlation": CAP_USER_CORRELATION,
    "quantile": QUANTILE,
    "log_w": LOG_POWER,
    "losses": LOSSES,
    "above_w": MARGIN_W,
    "above_share": MARGIN_SHARE,
    "alpha": ALPHA,
    "action_timeout_s": TIMEOUT_S,
    "start_timeout_s": TIMEOUT_S,
    "most_missed_starts": TRIES,
    "most_requeues": TRIES,
    "most_node_failures": NODE_FAILURES,
    "node_failure_window_s": FAILURE_WINDOW_S,
    "meter_silence_s": TIMEOUT_S,
}


@dataclass(frozen=True, slots=True)
class Length:
    """The most entries of a list, and why."""

    most: int
    why: str

    def require(self, field: str, count: int) -> None:
        """Raise RejectedError for a longer list."""
        if count > self.most:
            raise RejectedError(field, f"must hold at most {self.most:,}, got {count}")


# By the name of the list in messages and in domain types.
LENGTHS: Final[Mapping[str, Length]] = {
    "depends_on": Length(64, "each is looked at whenever one of them ends"),
    "architectures": Length(16, "more than there are"),
    "pstates_ghz": Length(100, "coefficients are tables of all pairs, and fit into a message"),
    "node_names": Length(MOST_NODES, "one a node, in host lists of any length"),
    "nodes": Length(MOST_NODES, "one a node"),
    "node_units": Length(MOST_NODES, "one a node"),
    "node_classes": Length(64, "each is named in what is refused"),
    "resources": Length(16, "kinds of accelerators, licences and disks of one node"),
    "samples": Length(3_600, "an hour, one a second"),
    "shutters": Length(3_600, "an hour, one a second"),
    "trees": Length(1_000, "of a forest"),
    "trees.value": Length(10_000, "leaves and inner nodes of a tree"),
    "tree_nodes": Length(100_000, "of all trees of a forest"),
    "tree_users": Length(10_000, "of which each has trees: a message holds no more"),
    "fallback_power_w": Length(1_000, "one a node model"),
    "similar": Length(16, "things that jobs can have in common"),
    "mean_log_w": Length(16, "memories"),
    "newest_log_w": Length(64, "more than any statistic takes"),
    "losses": Length(128, "one a predictor"),
    "spreads_w": Length(64, "between groups of jobs"),
    "margins": Length(64, "one a group of jobs"),
    "job_ids": Length(1_000, "of one kind in one round"),
    "coefficients": Length(10_000, "one a pair of P-states"),
    "metrics": Length(100, "of a signature"),
    "steps": Length(
        1_000, "of a cap, an hour each for six weeks: all of them are looked at in a pass"
    ),
    "intervals": Length(10_000, "of a run: each costs its resource manager an order"),
    "bindings": Length(5_000, "of a table of authority: each process that is asked keeps them all"),
    "reset": Length(100, "more settings than there are"),
    "rates": Length(1_000, "of a tariff: each charge looks through them"),
    "hour_factors": Length(24, "hours of a day"),
    "points": Length(100, "of a rate function: a charge carries them"),
    "items": Length(4_000, "of a plan: all are reckoned at the end of one round"),
}
