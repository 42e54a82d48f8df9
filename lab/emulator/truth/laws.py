"""How applications really behave on the emulated nodes at each P-state.

Times, powers, CPI and bandwidths at the nominal P-state are those of Table 1
(lab.workloads.table1); what happens at the other P-states is declared here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from lab.workloads.clusters import IDLE_POWER_W
from lab.workloads.table1 import GOLD_6254, PLATINUM_8168, AppProfile, PublishedNodeModel
from shared.numerics.elementary import power

TRANSACTION_BYTES: Final = 64  # one cache line


@dataclass(frozen=True, slots=True)
class PowerCurve:
    """Power of a node: P(f) = idle + core (f / f_nom) ** core_exponent + memory per GB/s."""

    idle_w: float
    memory_w_per_gbps: float
    core_exponent: float


# Table 1 has powers at the nominal P-state alone. These constants put ep.D (cores only) and STREAM
# (memory) at the lowest P-state near the half and the three quarters of their nominal power that
# the authors' coefficients give for these nodes (IEEE DataPort 10.21227/e02v-y602), which makes
# 1.2 GHz the least-energy P-state of STREAM, as published. The power by bandwidth includes caches
# and mesh, hence more than DRAM alone would draw. Exponents below 2: voltage falls with the
# frequency only in the upper part of the range.
POWER_CURVES: Final[Mapping[str, PowerCurve]] = MappingProxyType(
    {
        PLATINUM_8168.name: PowerCurve(IDLE_POWER_W[PLATINUM_8168.name], 0.9, 1.6),
        GOLD_6254.name: PowerCurve(IDLE_POWER_W[GOLD_6254.name], 0.8, 1.35),
    }
)


class Behaviour(NamedTuple):
    """One application on one whole node at one P-state; `tpi` is transactions per instruction."""

    time_s: float
    power_w: float
    cpi: float
    mem_gbps: float
    tpi: float


def behaviour(nominal: AppProfile, model: PublishedNodeModel, freq_ghz: float) -> Behaviour:
    """Return what `nominal` becomes at `freq_ghz` on a node of `model`.

    T(f) = T_nom + slope (f_nom - f) / 0.1 GHz; instructions and transactions stay the same, so
    CPI(f) = CPI_nom T(f) / T_nom f / f_nom and bandwidth(f) = bandwidth_nom T_nom / T(f).
    """
    time_s = nominal.time_s + nominal.slope_s_per_100mhz * (model.nominal_ghz - freq_ghz) / 0.1
    stretch = time_s / nominal.time_s
    clock = freq_ghz / model.nominal_ghz
    return Behaviour(
        time_s=time_s,
        power_w=_power_w(nominal, model, clock, nominal.mem_gbps / stretch),
        cpi=nominal.cpi * stretch * clock,
        mem_gbps=nominal.mem_gbps / stretch,
        tpi=transactions_per_instruction(nominal, model),
    )


def _power_w(
    nominal: AppProfile, model: PublishedNodeModel, clock: float, mem_gbps: float
) -> float:
    curve = POWER_CURVES[model.name]
    core_w = nominal.power_w - curve.idle_w - curve.memory_w_per_gbps * nominal.mem_gbps
    core_w *= power(clock, curve.core_exponent)
    return curve.idle_w + core_w + curve.memory_w_per_gbps * mem_gbps


def transactions_per_instruction(nominal: AppProfile, model: PublishedNodeModel) -> float:
    """Return cache lines moved per instruction: the same at every P-state."""
    instructions_per_s = model.cores * model.nominal_ghz * 1e9 / nominal.cpi
    return nominal.mem_gbps * 1e9 / TRANSACTION_BYTES / instructions_per_s
