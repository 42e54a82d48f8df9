"""The kernels of the learning phase: synthetic loops that span CPI and memory traffic.

They obey the same laws as the applications and are none of them, so that coefficients learned from
them meet the applications for the first time when they project them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from lab.emulator.effects import EVERY, Effect
from lab.emulator.truth.hardware import power_law
from lab.emulator.truth.laws import TRANSACTION_BYTES
from lab.emulator.truth.noise import Noise
from lab.emulator.truth.traits import AppTraits, traits_of
from lab.workloads.table1 import AppProfile, PublishedNodeModel


class Kernel(NamedTuple):
    """What a loop does on a core, whatever the node: it takes `core_cpi` cycles an instruction
    while it computes and `stall_cycles` (of the nominal clock) a transaction while it waits. All
    cores of a node together draw `core_w`: both models have processors of about 200 W. Its wide
    vector instructions hold the clock at `vector_limit` times the nominal one; 1: it has none."""

    core_cpi: float
    transactions_per_instruction: float
    stall_cycles: float
    core_w: float
    vector_limit: float = 1.0


# Declared. The stalls span what Table 1 gives for the applications (20 to 90 cycles a transaction,
# overlapped), the core power what it leaves for them (145 to 340 W a node).
KERNELS: Final[Mapping[str, Kernel]] = MappingProxyType(
    {
        "kernel-scalar": Kernel(0.85, 0.00001, 40.0, 225.0),
        "kernel-branchy": Kernel(1.10, 0.0004, 60.0, 205.0),
        "kernel-integer": Kernel(0.55, 0.00005, 40.0, 240.0),
        "kernel-fma": Kernel(0.35, 0.0003, 30.0, 310.0, 0.90),
        "kernel-vector": Kernel(0.33, 0.0028, 25.0, 330.0, 0.92),
        "kernel-blocked": Kernel(0.40, 0.0018, 25.0, 295.0, 0.95),
        "kernel-stencil": Kernel(0.38, 0.0045, 40.0, 255.0),
        "kernel-sparse": Kernel(0.45, 0.0070, 70.0, 225.0),
        "kernel-gather": Kernel(0.60, 0.0150, 85.0, 200.0),
        "kernel-transpose": Kernel(0.30, 0.0250, 62.0, 175.0),
        "kernel-copy": Kernel(0.20, 0.0450, 60.0, 160.0),
        "kernel-triad": Kernel(0.12, 0.0700, 58.0, 145.0),
    }
)
NOMINAL_TIME_S: Final = 60.0


def kernel_traits(name: str, noise: Noise) -> AppTraits:
    """Return what a kernel has of an application's traits: its clocks. It is one program on one
    node, and has one input."""
    turbo_ghz = traits_of(noise, name).turbo_ghz
    return AppTraits(vector_limit=KERNELS[name].vector_limit, turbo_ghz=turbo_ghz)


def kernel_profile(
    kernel: Kernel, model: PublishedNodeModel, effects: frozenset[Effect] = EVERY
) -> AppProfile:
    """Return the kernel on a node of `model` at the nominal P-state, on all cores."""
    cpi = kernel.core_cpi + kernel.stall_cycles * kernel.transactions_per_instruction
    instructions_per_s = model.cores * model.nominal_ghz * 1e9 / cpi
    moved = instructions_per_s * kernel.transactions_per_instruction
    mem_gbps = moved * TRANSACTION_BYTES / 1e9
    law = power_law(model, effects)
    return AppProfile(
        cpi=cpi,
        mem_gbps=mem_gbps,
        time_s=NOMINAL_TIME_S,
        power_w=law.drawn_w(law.idle_w + kernel.core_w + law.memory_w_per_gbps * mem_gbps),
        slope_s_per_100mhz=_slope_s_per_100mhz(kernel.core_cpi / cpi, model),
    )


def _slope_s_per_100mhz(computing_share: float, model: PublishedNodeModel) -> float:
    """Mean slope over the P-states of a loop whose computing share grows as 1 / f."""
    longest = computing_share * NOMINAL_TIME_S * (model.nominal_ghz / model.lowest_ghz - 1)
    return longest / ((model.nominal_ghz - model.lowest_ghz) / 0.1)
