"""The signature of an application, from a stretch in which a job had its node alone."""

from typing import Final, NamedTuple

from coplace_client.errors import RejectedError
from coplace_client.signature import Signature

# Of the last level; each brings a line from memory.
TPI_SCALE: Final = "llc-misses"
_LINE_BYTES: Final = 64
# P-states differ by 0.1 GHz, as the frequencies of cpufreq do.
_STEPS_A_GHZ: Final = 10
# Who counts no iterations has one of so many instructions.
_ITERATION_INSTRUCTIONS: Final = 1e9


class JobCounts(NamedTuple):
    """Counters of a job and its node at a moment of a clock that never steps."""

    at_s: float
    energy_j: float
    instructions: float
    cycles: float
    misses: float
    cpu_s: float
    beats: float | None


def signature(app_id: str, node_model: str, begin: JobCounts, end: JobCounts) -> Signature | None:
    """Return the means of a stretch; None where it has nothing to divide by, or shows what no
    processor does. An iteration is a heartbeat, or 10^9 instructions of all cores together."""
    wall_s = end.at_s - begin.at_s
    instructions = end.instructions - begin.instructions
    cycles = end.cycles - begin.cycles
    misses = end.misses - begin.misses
    cpu_s = end.cpu_s - begin.cpu_s
    iterations = instructions / _ITERATION_INSTRUCTIONS
    if begin.beats is not None and end.beats is not None:
        iterations = end.beats - begin.beats
    if min(wall_s, instructions, cycles, cpu_s, iterations) <= 0:
        return None
    try:
        return Signature(
            app_id=app_id,
            node_model=node_model,
            freq_ghz=round(cycles / cpu_s / 1e9 * _STEPS_A_GHZ) / _STEPS_A_GHZ,
            time_s=wall_s / iterations,
            power_w=(end.energy_j - begin.energy_j) / wall_s,
            cpi=cycles / instructions,
            tpi=misses / instructions,
            mem_gbps=misses * _LINE_BYTES / wall_s / 1e9,
            tpi_scale=TPI_SCALE,
        )
    except RejectedError:
        return None
