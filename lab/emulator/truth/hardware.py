"""What the emulated nodes do with a P-state that is asked for: the clock they run, the power they
draw."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from lab.emulator.effects import Effect
from lab.emulator.truth.traits import AppTraits
from lab.workloads.clusters import IDLE_POWER_W, PROCESSORS_TDP_W
from lab.workloads.table1 import GOLD_6254, PLATINUM_8168, PublishedNodeModel
from shared.numerics.elementary import exp, log, power

_STEP_GHZ: Final = 0.1


class NodePowerLaw(NamedTuple):
    """Power that a node would draw at a clock: idle, the cores by the clock, memory by GB/s.

    The cores' part is `linear` x + (1 - linear) x^3 at x times the clock that Table 1 was measured
    at: f V^2 and leakage, with a voltage that is constant at the bottom of the range and follows
    the clock at its top. Above `knee_w` a node draws less than that, and never `most_w`.
    """

    idle_w: float
    memory_w_per_gbps: float
    linear: float
    knee_w: float
    most_w: float

    def cores(self, clock: float) -> float:
        """Return the cores' power at `clock` against that at 1."""
        return self.linear * clock + (1.0 - self.linear) * clock * clock * clock

    def drawn_w(self, wanted_w: float) -> float:
        """Return what is drawn where `wanted_w` would be without a limit.

        Power limits (RAPL's PL1 and PL2, current) act on means over time, so that power does not
        stop at once: it bends. The published powers of sp-mz.C, DGEMM and bt-mz.C bend so.
        """
        if wanted_w <= self.knee_w:
            return wanted_w
        room_w = self.most_w - self.knee_w
        return self.most_w - room_w * exp(-(wanted_w - self.knee_w) / room_w)

    def wanted_w(self, drawn_w: float) -> float:
        """Return what would be drawn without a limit where `drawn_w` is."""
        if drawn_w <= self.knee_w:
            return drawn_w
        room_w = self.most_w - self.knee_w
        left = max(self.most_w - drawn_w, 0.01 * room_w)  # Nobody measures the limit itself.
        return self.knee_w - room_w * log(left / room_w)


class SmoothPowerLaw(NamedTuple):
    """Power that follows a power of the clock and knows no limit: without the effect `power`."""

    idle_w: float
    memory_w_per_gbps: float
    exponent: float

    def cores(self, clock: float) -> float:
        """Return the cores' power at `clock` against that at 1."""
        return power(clock, self.exponent)

    def drawn_w(self, wanted_w: float) -> float:
        """Return what is drawn: what is wanted."""
        return wanted_w

    def wanted_w(self, drawn_w: float) -> float:
        """Return what is wanted: what is drawn."""
        return drawn_w


def _limited(model: PublishedNodeModel, *, linear: float, knee: float, most: float) -> NodePowerLaw:
    """Shares of the power of a node whose processors draw what they are rated at."""
    idle_w = IDLE_POWER_W[model.name]
    rated_w = idle_w + PROCESSORS_TDP_W[model.name]
    return NodePowerLaw(idle_w, 0.9, linear, knee * rated_w, most * rated_w)


# Fitted to what the published coefficients (IEEE DataPort 10.21227/e02v-y602) make of the eight
# applications at all P-states below the nominal one: root mean square errors of 3.6 and 2.8 %, of
# 4.5 and 3.9 % with a power of the clock. Power by bandwidth includes caches and mesh.
POWER_LAWS: Final[Mapping[str, NodePowerLaw]] = MappingProxyType(
    {
        PLATINUM_8168.name: _limited(PLATINUM_8168, linear=0.5, knee=0.80, most=1.0),
        GOLD_6254.name: _limited(GOLD_6254, linear=0.6, knee=0.90, most=1.05),
    }
)
# These put ep.D (cores only) and STREAM (memory) at the lowest P-state near the half and the three
# quarters of their nominal power that the published coefficients give.
SMOOTH_POWER_LAWS: Final[Mapping[str, SmoothPowerLaw]] = MappingProxyType(
    {
        PLATINUM_8168.name: SmoothPowerLaw(IDLE_POWER_W[PLATINUM_8168.name], 0.9, 1.6),
        GOLD_6254.name: SmoothPowerLaw(IDLE_POWER_W[GOLD_6254.name], 0.8, 1.35),
    }
)


def power_law(
    model: PublishedNodeModel, effects: frozenset[Effect]
) -> NodePowerLaw | SmoothPowerLaw:
    """Return by which law the nodes of a model draw power."""
    laws = POWER_LAWS if Effect.POWER in effects else SMOOTH_POWER_LAWS
    return laws[model.name]


def clock_run_ghz(
    asked_ghz: float, model: PublishedNodeModel, traits: AppTraits, clock_share: float
) -> float:
    """Return the clock that runs where a P-state is asked for.

    Wide vector instructions hold it at their limit (Intel's "Specification Update" of Xeon
    processors has a table of clocks for AVX2 and AVX-512). At the nominal P-state firmware adds
    what the power budget leaves: at most so much that no application gains more over the step from
    the P-state below than the ratio of the two P-states.
    """
    if asked_ghz < model.nominal_ghz:
        return min(asked_ghz, traits.vector_limit * model.nominal_ghz)
    if traits.vector_limit < 1.0:
        return traits.vector_limit * model.nominal_ghz
    within_ghz = _STEP_GHZ * (1.0 / clock_share - 1.0) if clock_share else traits.turbo_ghz
    return asked_ghz + min(traits.turbo_ghz, within_ghz)
