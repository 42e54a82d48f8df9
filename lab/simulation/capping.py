"""Dispatchers under a power cap on instances of Eurora: those that Borghesi and others,
"Scheduling-based power capping in high performance computing systems" (2018), compare.

Dynamic power alone counts. Every schedule comes with what each job drew and when, so that it can be
checked without the code that made it.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from math import ceil, inf, sqrt
from typing import Any, Final, NamedTuple

from coplace_client.errors import UnusableError
from lab.simulation.arrival_switch import ArrivalSwitch
from lab.simulation.eurora import (
    EuroraRun,
    easy_of,
    entries_of,
    impossible_in,
    kinds_of,
    play,
    table_of,
)
from lab.simulation.power_reduction import duration_ratio
from lab.simulation.schedules import Drawn, power_violations
from lab.workloads.eurora import EuroraJob, EuroraMachine
from shared.models.spread import moments
from shared.numerics.normal import quantile
from shared.planning.order_search import OrderSearch
from shared.planning.searches import Searches
from shared.scheduling.backfill import Arrival, Backfill
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.dispatch import Dispatcher, Served
from shared.scheduling.list_scheduling import PlannedStarts, PriorityRule, StartPlanner, Wanted
from shared.scheduling.power import NO_CAP_MW, Cap, PowerBudget, Scope, milliwatts
from shared.scheduling.power_sharing import (
    ADMITTED_TIMES,
    LATE_S,
    LEAST_MW,
    PowerSharing,
    Sharer,
    admitted_to_share_mw,
    level_shares,
)
from shared.scheduling.problem import NodeTable
from shared.scheduling.shares_by_cost import shares_by_cost
from shared.scheduling.wait_queue import Entry, OtherMode

# Clocks below the nominal one at which DVFS may start a job, as parts of it: those of Eurora's
# nodes go down to 1.2 of 3.1 GHz. Dynamic power is taken to fall as the clock, M_F = M_P.
_CLOCKS: Final = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
# How many times as long as at its own clock a job may take at one at which DVFS starts it: of the
# thresholds of lab/papers/capping/clocks.py the one that is below BF in most rows.
MOST_SLOWDOWN: Final = 1.2


class CappingMethod(StrEnum):
    """Who decides under the cap."""

    LS = "ls"
    LS_WALLTIME = "ls-walltime"
    BF = "bf"
    DVFS = "dvfs"
    SIMPLE = "simple"
    DYN_SHARE = "dyn-share"
    DEC = "dec"
    DEC_RAPL = "dec-rapl"
    HYBRID = "hybrid"
    HYBRID_RAPL = "hybrid-rapl"


# They plan what starts, and what runs shares the cap.
_PLANNED_SHARES: Final = (CappingMethod.DEC_RAPL, CappingMethod.HYBRID_RAPL)
# Those whose jobs draw what is predicted of them.
AS_PREDICTED: Final = frozenset(
    {
        CappingMethod.LS,
        CappingMethod.LS_WALLTIME,
        CappingMethod.BF,
        CappingMethod.DEC,
        CappingMethod.HYBRID,
    }
)


class KeptFree(NamedTuple):
    """What is kept free under a cap since predictions err: a share of the cap, and the quantile of
    what jobs draw together that is exceeded with the probability `risk`; 0.5: the sum of what is
    predicted. Of each job the standard deviation of the logarithm of what it draws."""

    margin: float
    risk: float
    deviations: Sequence[float]


@dataclass(frozen=True, slots=True)
class CappingRules:
    """A method under a cap. Of each job, in their order: how long it expects to wait by its queue,
    and the factor by which it takes longer with less power: see `duration_ratio`; under DVFS how
    many times as long a job may take by its clock."""

    method: CappingMethod
    cap: Cap
    waits_s: Sequence[float]
    factors: Sequence[float]
    most_slowdown: float = MOST_SLOWDOWN


def cap_of(*steps_w: tuple[float, float]) -> Cap:
    """Return a cap of the machine from its steps in ascending order: from when on, in s since the
    first submission, how many W; infinitely many where there is none."""
    steps = ((from_s, NO_CAP_MW if w == inf else milliwatts(w)) for from_s, w in steps_w)
    return Cap(Scope.CLUSTER, "eurora", tuple(steps))


def play_capped(
    machine: EuroraMachine, jobs: Sequence[EuroraJob], rules: CappingRules
) -> EuroraRun:
    """Play an instance under a cap. Raises UnusableError, naming job and cap, for a job that no
    moment under this cap lets start (`refusals`), and for one that the empty machine does not
    hold."""
    for number, why in refusals(rules, jobs):
        raise UnusableError(f"job {jobs[number].job_id} (number {number + 1} of {len(jobs)}) {why}")
    table, searches = table_of(machine), Searches()
    dispatcher = _dispatcher(table, jobs, rules, searches)
    return replace(play(jobs, dispatcher, _run_times(jobs, rules)), searches=searches)


def counting_deviations(
    jobs: Sequence[EuroraJob], caps_w: Sequence[float], kept: KeptFree
) -> tuple[list[EuroraJob], list[float]]:
    """Return the jobs with what they count as, and what of each of the caps may be used: then what
    they draw together exceeds the cap with the probability `kept.risk` at most, for independent
    errors whose sum is normal.

    A root is below its tangents: z sqrt(V) <= z (V / s + s) / 2 for every s > 0. Here s is the
    deviation of as many jobs as the highest cap takes, each counts its part of z V / 2 s, and
    z s / 2 comes off each cap. Raises UnusableError where nothing is left of any.
    """
    allowed_w, z = max(caps_w) * (1 - kept.margin), quantile(1 - kept.risk)
    errors = [moments(sd) for sd in kept.deviations]
    each = [job.power_w * job.power_w * of for job, (_, of) in zip(jobs, errors, strict=True)]
    if z <= 0 or not any(each):
        return list(jobs), [cap_w * (1 - kept.margin) for cap_w in caps_w]
    together_w = sqrt(sum(each) * min(1.0, allowed_w / sum(job.power_w for job in jobs)))
    off_w = z * together_w / 2
    if allowed_w <= off_w:
        problem = f"leaves nothing at a risk of {kept.risk:g}"
        raise UnusableError(f"a cap of {max(caps_w):g} W {problem}")
    counted = zip(jobs, errors, each, strict=True)
    return [
        replace(job, power_w=ceil(job.power_w * mean + z * variance / (2 * together_w)))
        for job, (mean, _), variance in counted
    ], [max(0.0, cap_w * (1 - kept.margin) - off_w) for cap_w in caps_w]


def refusals(rules: CappingRules, jobs: Sequence[EuroraJob]) -> Iterator[tuple[int, str]]:
    """Yield the numbers of the jobs that draw more than the cap alone, and what to say of each:
    never in all the time from its submission on there is enough for as long as it may take."""
    for number, job in enumerate(jobs):
        modes = _modes(number, job, rules)
        if all(_never_has(rules.cap, job.submit_s, *mode) for mode in modes):
            least_mw = min(draw_mw for _, draw_mw in modes)
            least = f"draws {least_mw / 1000:g} W at least under {rules.method}"
            yield number, f"{least}: {describe_cap(rules.cap)} never lets it start"


def leave_out(rules: CappingRules, numbers: Container[int]) -> CappingRules:
    """Return the rules of the jobs that are left without some."""
    left = [number for number in range(len(rules.waits_s)) if number not in numbers]
    return replace(
        rules,
        waits_s=[rules.waits_s[number] for number in left],
        factors=[rules.factors[number] for number in left],
    )


def applies_within(cap: Cap, from_s: float, until_s: float) -> bool:
    """Return whether there is a cap at some moment from one time on and before another."""
    ends_s = [*(step_s for step_s, _ in cap.steps[1:]), inf]
    return any(
        cap_mw < NO_CAP_MW and step_s < until_s and end_s > from_s
        for (step_s, cap_mw), end_s in zip(cap.steps, ends_s, strict=True)
    )


def describe_cap(cap: Cap) -> str:
    """Return a cap in words."""

    def step(from_s: float, cap_mw: int) -> str:
        watts = "any power" if cap_mw == NO_CAP_MW else f"{cap_mw / 1000:g} W"
        return watts if from_s == -inf else f"{watts} from {from_s:g} s on"

    return f"a cap of {', '.join(step(*each) for each in cap.steps)}"


def _never_has(cap: Cap, submit_s: float, limit_s: float, draw_mw: int) -> bool:
    return PowerBudget(cap).earliest(draw_mw, limit_s, submit_s) == inf


def _modes(number: int, job: EuroraJob, rules: CappingRules) -> list[tuple[float, int]]:
    """How long a job may take, and what a cap has to leave all the time for it to start."""
    full_mw = milliwatts(job.power_w)
    longest_s = _longest_s(number, job, rules)
    match rules.method:
        case CappingMethod.DVFS:
            return [(job.walltime_s, full_mw), *_clocked(number, job, rules)]
        case CappingMethod.SIMPLE:
            return [(longest_s, LEAST_MW)]
        case CappingMethod.DYN_SHARE:
            return [(longest_s, admitted_to_share_mw(full_mw))]
        # As they are planned: all of it under three times the cap.
        case CappingMethod.HYBRID_RAPL | CappingMethod.DEC_RAPL:
            return [(longest_s, max(LEAST_MW, ceil(full_mw / ADMITTED_TIMES)))]
        case _:
            return [(job.walltime_s, full_mw)]


def _longest_s(number: int, job: EuroraJob, rules: CappingRules) -> float:
    """For how long a job that shares has to be admitted. Under a cap that falls it is as long as
    it may take with the least; else its walltime, as the paper's have it."""
    if not rules.cap.falls:
        return job.walltime_s
    least = LEAST_MW / milliwatts(job.power_w)
    return job.walltime_s * duration_ratio(least, rules.factors[number]) + LATE_S


def _dispatcher(
    table: NodeTable, jobs: Sequence[EuroraJob], rules: CappingRules, searches: Searches
) -> Dispatcher:
    match rules.method:
        case CappingMethod.LS | CappingMethod.LS_WALLTIME:
            return planned_starts(table, jobs, rules, _rule(table, jobs, rules))
        case CappingMethod.DEC:
            return planned_starts(table, jobs, rules, _dec(table, jobs, rules, searches))
        case CappingMethod.HYBRID:
            return planned_starts(table, jobs, rules, OrderSearch(searches))
        case CappingMethod.DEC_RAPL:
            return _dec_and_shares(table, jobs, rules, searches)
        case CappingMethod.HYBRID_RAPL:
            return planned_shares(table, jobs, rules, by_walltime(jobs))
        case CappingMethod.BF | CappingMethod.DVFS:
            return Backfill(*_easy(table, jobs, rules))
        case CappingMethod.SIMPLE | CappingMethod.DYN_SHARE:
            return _shares(table, jobs, rules)


def _easy(
    table: NodeTable, jobs: Sequence[EuroraJob], rules: CappingRules
) -> tuple[list[ConsumableScheduler], Iterator[Arrival]]:
    """EASY under the cap, and its arrivals, drawing what they are admitted on."""
    entries = (_admitted(*each, rules) for each in zip(entries_of(table, jobs), jobs, strict=True))
    return [easy_of(table, jobs, [PowerBudget(rules.cap)])], (((0, entry),) for entry in entries)


def _admitted(entry: Entry, job: EuroraJob, rules: CappingRules) -> Entry:
    match rules.method:
        case CappingMethod.DVFS:
            slower = _clocked(entry.arrival, job, rules)
            return entry._replace(others=tuple(OtherMode(*mode) for mode in slower))
        case CappingMethod.SIMPLE | CappingMethod.DYN_SHARE:
            [(limit_s, draw_mw)] = _modes(entry.arrival, job, rules)
            return entry._replace(limit_s=limit_s, draw_mw=draw_mw)
        case _:
            return entry


def _shares(table: NodeTable, jobs: Sequence[EuroraJob], rules: CappingRules) -> PowerSharing:
    [scheduler], arrivals = _easy(table, jobs, rules)
    informed = scheduler if rules.method is CappingMethod.SIMPLE else None
    sharer = partial(_sharer, jobs, rules.factors)
    easy = Backfill([scheduler], arrivals)
    return PowerSharing(easy, sharer, rules.cap, informed)


def _dec(
    table: NodeTable, jobs: Sequence[EuroraJob], rules: CappingRules, searches: Searches
) -> StartPlanner:
    from shared.planning.decomposition import DecompositionPlanner

    return DecompositionPlanner(_rule(table, jobs, rules), searches)


def _dec_and_shares(
    table: NodeTable, jobs: Sequence[EuroraJob], rules: CappingRules, searches: Searches
) -> PowerSharing:
    """DEC while jobs come often, else jobs in the order in which they came, admitted until they
    would draw three times the cap; whatever runs shares it."""
    planner = ArrivalSwitch(
        [job.submit_s for job in jobs],
        often=_dec(table, jobs, rules, searches),
        seldom=PriorityRule(range(len(jobs))),
    )
    return planned_shares(table, jobs, rules, planner)


def planned_shares(
    table: NodeTable, jobs: Sequence[EuroraJob], rules: CappingRules, planner: StartPlanner
) -> PowerSharing:
    """Return the dispatcher that shares a cap as it runs, of what is planned under three times the
    cap."""
    wide = replace(rules, cap=rules.cap.times(ADMITTED_TIMES))
    starts = planned_starts(table, jobs, wide, planner)
    parts = _parts(table, jobs)
    sharers = [
        _sharer(jobs, rules.factors, number)._replace(parts=each)
        for number, each in enumerate(parts)
    ]

    def by_cost(running: Mapping[int, Sharer], cap_mw: int) -> dict[int, int]:
        return shares_by_cost(running, cap_mw, [sharers[number] for number in starts.waiting])

    shares = by_cost if rules.method is CappingMethod.HYBRID_RAPL else level_shares
    return PowerSharing(starts, sharers.__getitem__, rules.cap, shares=shares)


def _parts(table: NodeTable, jobs: Sequence[EuroraJob]) -> list[tuple[float, ...]]:
    """Of each resource the part that each job asks for of what all nodes have; 0 of none."""
    kinds, totals = kinds_of(table, jobs), table.amounts.sum(axis=1).tolist()
    return [
        tuple(
            need * job.units / total if total else 0.0
            for need, total in zip(kinds[job.unit].shape.needs, totals, strict=True)
        )
        for job in jobs
    ]


def _rule(table: NodeTable, jobs: Sequence[EuroraJob], rules: CappingRules) -> PriorityRule:
    if rules.method is CappingMethod.LS_WALLTIME:
        return by_walltime(jobs)
    return PriorityRule(priority_ranks(table, jobs, rules.waits_s))


def by_walltime(jobs: Sequence[EuroraJob]) -> PriorityRule:
    """Return the rule by which jobs that ask for less time come first."""
    return PriorityRule(ranks([job.walltime_s for job in jobs]))


def planned_starts(
    table: NodeTable, jobs: Sequence[EuroraJob], rules: CappingRules, planner: StartPlanner
) -> PlannedStarts:
    """Return a dispatcher that starts what `planner` says, under the cap of the rules."""
    arrivals = _wanted(table, jobs, rules)
    return PlannedStarts(table.amounts, PowerBudget(rules.cap), arrivals, planner)


def _sharer(jobs: Sequence[EuroraJob], factors: Sequence[float], number: int) -> Sharer:
    job = jobs[number]
    ratio = partial(duration_ratio, factor=factors[number])
    return Sharer(job.units, milliwatts(job.power_w), ratio, job.walltime_s)


def _wanted(
    table: NodeTable, jobs: Sequence[EuroraJob], rules: CappingRules
) -> Iterator[tuple[Entry, Wanted]]:
    """The jobs as plans see them; a second of waiting costs what equation 2 says."""
    kinds, weights = kinds_of(table, jobs), wait_weights(rules.waits_s)
    # What shares watts gets the least of them at least, and may take longer.
    shares = rules.method in _PLANNED_SHARES
    least_mw = ADMITTED_TIMES * LEAST_MW if shares else 0
    for entry, job, weight in zip(entries_of(table, jobs), jobs, weights, strict=True):
        yield (
            entry,
            Wanted(
                arrival=entry.arrival,
                units=job.units,
                needs=kinds[job.unit].shape.needs,
                draw_mw=max(entry.draw_mw, least_mw),
                limit_s=_longest_s(entry.arrival, job, rules) if shares else job.walltime_s,
                weight=weight,
            ),
        )


def wait_weights(waits_s: Sequence[float]) -> list[float]:
    """Return what a second of waiting costs each job in equation 2: max ewt / ewt."""
    longest_s = max(waits_s)
    return [longest_s / wait_s for wait_s in waits_s]


def weighted_queue_time_s(run: EuroraRun, waits_s: Sequence[float]) -> float:
    """Return equation 2: the sum of all waits, each weighted by how little its job expected to
    wait."""
    weighted = zip(run.placements, wait_weights(waits_s), strict=True)
    return sum(weight * (placed.start_s - placed.submit_s) for placed, weight in weighted)


def priority_ranks(
    table: NodeTable, jobs: Sequence[EuroraJob], waits_s: Sequence[float]
) -> list[int]:
    """Return the ranks of section 4.2: jobs that expect to wait less come first, of these those
    that demand less.

    The demand of a job is what it asks for times its walltime: of each resource the part of what
    all nodes have.
    """
    kinds, totals = kinds_of(table, jobs), table.amounts.sum(axis=1).tolist()

    def demand(job: EuroraJob) -> float:
        needs = zip(kinds[job.unit].shape.needs, totals, strict=True)
        share = sum(need / total for need, total in needs if total)
        return float(share * job.units * job.walltime_s)

    return ranks([(wait_s, demand(job)) for wait_s, job in zip(waits_s, jobs, strict=True)])


def ranks(keys: Sequence[Any]) -> list[int]:
    """Return ranks: 0 for the least key, and so on; of equals the first comes first."""
    ranks = [0] * len(keys)
    for rank, number in enumerate(sorted(range(len(keys)), key=keys.__getitem__)):
        ranks[number] = rank
    return ranks


def _clocked(number: int, job: EuroraJob, rules: CappingRules) -> list[tuple[float, int]]:
    """How long a job takes at most at the lower clocks at which it may start where watts alone
    refuse its own, and what it draws; it keeps its clock for life. Etinski and others, "Optimizing
    job performance under a given power constraint in HPC centers" (2010), lower a clock where the
    predicted bounded slowdown stays below a threshold; here the wait does not count in it.

    What the cap never lets start at its own clock may start at any.
    """
    full_mw = milliwatts(job.power_w)
    ratios = [duration_ratio(clock, rules.factors[number]) for clock in _CLOCKS]
    most = rules.most_slowdown
    if _never_has(rules.cap, job.submit_s, job.walltime_s, full_mw):
        most = inf
    return [
        (job.walltime_s * ratio, round(full_mw * clock))
        for clock, ratio in zip(_CLOCKS, ratios, strict=True)
        if ratio <= most
    ]


def _run_times(jobs: Sequence[EuroraJob], rules: CappingRules) -> Callable[[Served], float]:
    """How long what starts runs. At a lower clock by what it draws; what shares watts is slowed."""

    def runs_s(served: Served) -> float:
        return jobs[served[1].arrival].runtime_s

    def clocked_s(served: Served) -> float:
        entry = served[1]
        full_mw = milliwatts(jobs[entry.arrival].power_w)
        ratio = duration_ratio(entry.draw_mw / full_mw, rules.factors[entry.arrival])
        return runs_s(served) * ratio

    return clocked_s if rules.method is CappingMethod.DVFS else runs_s


def impossible_under(rules: CappingRules, run: EuroraRun, machine: EuroraMachine) -> list[str]:
    """Return what the independent checker finds wrong with a schedule, in words: see
    `schedules.py`."""
    drawn = [
        Drawn(job.job_id, milliwatts(job.power_w), job.runtime_s, factor, draws, placement.end_s)
        for job, factor, draws, placement in zip(
            run.jobs, rules.factors, run.draws, run.placements, strict=True
        )
    ]
    return [*impossible_in(run, machine), *power_violations(drawn, rules.cap.steps)]
