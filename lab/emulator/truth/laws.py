"""How applications really behave on the emulated nodes at each P-state.

Times, powers, CPI and bandwidths at the nominal P-state are those of Table 1
(lab.workloads.table1); what happens at the other P-states is physics and what is declared or drawn
here, each effect a function of its own.
"""

from typing import Final, NamedTuple

from lab.emulator.effects import EVERY, Effect
from lab.emulator.truth.hardware import clock_run_ghz, power_law
from lab.emulator.truth.traits import PLAIN, PUBLISHED_INPUT, AppInput, AppTraits
from lab.workloads.table1 import AppProfile, PublishedNodeModel

TRANSACTION_BYTES: Final = 64  # one cache line
# Cycles per instruction of a core that polls for messages: short loops in the first cache, between
# calls of an MPI library's progress engine whose branches are hard to predict. Declared.
POLLING_CPI: Final = 1.0
# No more of an application's instructions than these are polls at the nominal P-state.
MOST_POLLS: Final = 0.5
# A polling core moves no data and adds no numbers: it draws a fifth less than one at work, as we
# declare.
POLLING_SAVES: Final = 0.2


class Behaviour(NamedTuple):
    """One application on one whole node at one P-state; `tpi` is transactions per instruction."""

    time_s: float
    power_w: float
    cpi: float
    mem_gbps: float
    tpi: float


class Conditions(NamedTuple):
    """What makes a run of an application differ from Table 1's; `uneven` is how much more work its
    fullest node has than its mean node."""

    traits: AppTraits = PLAIN
    given: AppInput = PUBLISHED_INPUT
    uneven: float = 0.0
    effects: frozenset[Effect] = EVERY


AS_PUBLISHED: Final = Conditions()


def behaviour(
    published: AppProfile,
    model: PublishedNodeModel,
    freq_ghz: float,
    conditions: Conditions = AS_PUBLISHED,
) -> Behaviour:
    """Return what `published` becomes where `freq_ghz` is asked for on nodes of `model`.

    The counters see what really runs: CPI(f) = CPI T(f) / T clock(f) / clock / instructions, and
    the transactions stay the same.
    """
    traits, given, uneven, effects = conditions
    share = min(1.0, clock_share(published, model) * traits.clock_share)
    top_ghz, run_ghz = model.nominal_ghz, freq_ghz
    if Effect.CLOCKS in effects:
        top_ghz, run_ghz = (clock_run_ghz(f, model, traits, share) for f in (top_ghz, run_ghz))
    clock = run_ghz / top_ghz
    line = linear_time(published, top_ghz - run_ghz)
    stretch = time_by_clock(share, clock) if Effect.TIME in effects else line
    polls = polled_share(published.cpi * given.cpi, share, traits.waiting)
    executed = instructions(polls, clock)
    alone = Behaviour(
        time_s=published.time_s * given.time * stretch,
        power_w=_power_w(published, model, conditions, clock, stretch),
        cpi=published.cpi * given.cpi * stretch * clock / executed,
        mem_gbps=published.mem_gbps * given.memory / stretch,
        tpi=transactions_per_instruction(published, model) * given.memory * given.cpi / executed,
    )
    return among_uneven(alone, uneven) if uneven else alone


def clock_share(published: AppProfile, model: PublishedNodeModel) -> float:
    """Return the part of the nominal time that follows the clock.

    Table 1's slope over all P-states is the time that the lowest one adds. At most 1: ep.D's slope
    is 6 % above it, and no program is slowed down by more than its clock is.
    """
    steps = (model.nominal_ghz - model.lowest_ghz) / 0.1
    added = published.slope_s_per_100mhz * steps / published.time_s
    return min(1.0, added / (model.nominal_ghz / model.lowest_ghz - 1.0))


def time_by_clock(share: float, clock: float) -> float:
    """Return the time at `clock` times the nominal clock against the nominal time.

    Cycles on the cores take 1 / f; what waits for memory, network and disks does not (R. Ge and
    K. Cameron, "Power-aware speedup", IPDPS 2007). So nothing exceeds 1 / clock below it, nor gains
    more than the clock above it.
    """
    return share / clock + 1.0 - share


def linear_time(published: AppProfile, slower_ghz: float) -> float:
    """Return the same on a line by Table 1's slope, without the effect `time`: in the middle of the
    range it exceeds what any program does."""
    return 1.0 + published.slope_s_per_100mhz * slower_ghz / 0.1 / published.time_s


def polled_share(cpi: float, share: float, waiting: float) -> float:
    """Return the share of the instructions at the nominal P-state that poll for messages, by the
    share of the other time in which they do (MPI libraries wait busily by default)."""
    return min(MOST_POLLS, waiting * (1.0 - share) * cpi / POLLING_CPI)


def instructions(polls: float, clock: float) -> float:
    """Return the instructions at `clock` against those at the nominal one: a message takes as long
    as before, so that a faster core polls more often for it."""
    return 1.0 - polls + polls * clock


def among_uneven(alone: Behaviour, uneven: float) -> Behaviour:
    """Return the mean over the nodes of a job whose fullest one has `uneven` more work than that.

    All end with it. Until then the others poll: their instructions are more, at a lower CPI, their
    traffic is spread over a longer time, and their cores draw a little less.
    """
    longer = 1.0 + uneven
    executed = 1.0 + uneven * alone.cpi / POLLING_CPI
    return Behaviour(
        time_s=alone.time_s * longer,
        power_w=alone.power_w,
        cpi=alone.cpi * longer / executed,
        mem_gbps=alone.mem_gbps / longer,
        tpi=alone.tpi / executed,
    )


def _power_w(
    published: AppProfile,
    model: PublishedNodeModel,
    conditions: Conditions,
    clock: float,
    stretch: float,
) -> float:
    """What is drawn on the mean node."""
    given, longer = conditions.given, 1.0 + conditions.uneven
    law = power_law(model, conditions.effects)
    memory_w = law.memory_w_per_gbps * published.mem_gbps
    core_w = law.wanted_w(published.power_w) - law.idle_w - memory_w
    core_w *= given.core_w * law.cores(clock) * (1.0 - POLLING_SAVES * (1.0 - 1.0 / longer))
    return law.drawn_w(law.idle_w + core_w + memory_w * given.memory / stretch / longer)


def transactions_per_instruction(published: AppProfile, model: PublishedNodeModel) -> float:
    """Return cache lines moved per instruction at the nominal P-state and clock."""
    instructions_per_s = model.cores * model.nominal_ghz * 1e9 / published.cpi
    return published.mem_gbps * 1e9 / TRANSACTION_BYTES / instructions_per_s
