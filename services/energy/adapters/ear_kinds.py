"""What the runs of an application in EAR's reports have in common, and what they do not.

One name is often that of several things: a script with steps, phases of a run, inputs. Their mean
would be that of a run that never was. So runs are compared with each other as the AppDB compares
them, and those that do not behave alike are separated.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median

from coplace_client.signature import Signature
from services.energy.adapters.ear_report import MIXED, UNLIKE, ReportedRun
from services.energy.processor.conformity import compare_run
from services.energy.processor.profile import SignatureProfile

# Inputs whose work differs by more, as a ratio, are separated; runs of one input wait more or less
# for each other, and count more or fewer instructions then.
_WORK_RATIO = 1.25
# Times of one input at one clock that differ by more, as a ratio, are of several inputs.
_TIME_RATIO = 1.15
# A phase with this share of a run's loops is all of it.
_MOST_LOOPS = 0.9
# A kind with a single run says nothing where the application has this many others.
_ENOUGH_RUNS = 4


@dataclass(frozen=True, slots=True)
class ReportedStep:
    """A step of a job over all its nodes, or one loop of it: what its nodes do in the mean, for as
    long as the slowest takes."""

    runs: Sequence[ReportedRun]
    mean: ReportedRun

    @classmethod
    def over_nodes(cls, runs: Sequence[ReportedRun]) -> "ReportedStep":
        """Return what several nodes did together."""
        clocks = sorted(run.freq_ghz for run in runs)
        mean = replace(
            runs[0],
            freq_ghz=clocks[len(clocks) // 2],
            time_s=max(run.time_s for run in runs),
            power_w=fmean(run.power_w for run in runs),
            cpi=fmean(run.cpi for run in runs),
            tpi=fmean(run.tpi for run in runs),
            mem_gbps=fmean(run.mem_gbps for run in runs),
            avg_freq_ghz=fmean(run.avg_freq_ghz for run in runs),
        )
        return cls(runs, mean)

    @property
    def work(self) -> float:
        """Return cycles over cycles per instruction: instructions of a core, in 1e9."""
        return self.mean.time_s * self.mean.avg_freq_ghz / self.mean.cpi

    @property
    def energy_j(self) -> float:
        """Return what all its nodes took, J."""
        return sum(run.energy_j for run in self.runs)


@dataclass(frozen=True, slots=True)
class Clock:
    """The runs of a kind at one clock: means, the time being that of one input."""

    freq_ghz: float
    measured_ghz: float
    time_s: float
    power_w: float
    cpi: float
    tpi: float
    mem_gbps: float
    runs: int

    def signature(self, app_id: str, node_model: str, tpi_scale: str) -> Signature:
        """Return the means as the signature of an application."""
        return Signature(
            app_id=app_id,
            node_model=node_model,
            freq_ghz=self.freq_ghz,
            time_s=self.time_s,
            power_w=self.power_w,
            cpi=self.cpi,
            tpi=self.tpi,
            mem_gbps=self.mem_gbps,
            tpi_scale=tpi_scale,
            count=self.runs,
        )


@dataclass(frozen=True, slots=True)
class RunKind:
    """Runs that behave alike: steps, phases and inputs are kinds of their application. The one that
    took most energy has its name, the others that name and a number."""

    app_id: str
    steps: Sequence[ReportedStep]

    @property
    def is_main(self) -> bool:
        """Return whether it has its application's own name."""
        return self.app_id == self.steps[0].mean.app_id

    def clocks(self) -> list[Clock]:
        """Return the means at each clock, the lowest first, of the input that ran at most clocks;
        where that did not run, of others, with times in proportion to their work."""
        inputs = list(_inputs(self.steps))
        main = max(inputs, key=lambda steps: (len(_by_clock(steps)), _energy_j(steps)))
        reference, is_one = median(step.work for step in main), _is_one_input(main)
        own = {id(step) for step in main} if is_one else set()
        found = []
        for ghz, steps in sorted(_by_clock(self.steps).items()):
            there = [step for step in steps if id(step) in own]
            times = [step.mean.time_s for step in there]
            times = times or [step.mean.time_s * reference / step.work for step in steps]
            found.append(_mean_at(ghz, there or steps, median(times)))
        return found

    def signatures(self, node_model: str, tpi_scale: str) -> Iterator[Signature]:
        """Yield the signature at each clock."""
        for at in self.clocks():
            yield at.signature(self.app_id, node_model, tpi_scale)


@dataclass(frozen=True, slots=True)
class Understood:
    """The kinds of runs in reports, and all runs with the reason where nothing is learned of
    one."""

    kinds: Sequence[RunKind]
    runs: Sequence[ReportedRun]


def separate_kinds(runs: Sequence[ReportedRun]) -> Understood:
    """Sort runs into kinds; nothing is learned from marked ones, nor from those without
    counters."""
    marks: dict[int, str] = {}
    kinds: list[RunKind] = []
    by_app: defaultdict[str, list[ReportedStep]] = defaultdict(list)
    for step in _usable_steps(runs, marks):
        by_app[step.mean.app_id].append(step)
    for app_id, steps in sorted(by_app.items()):
        groups = sorted(_groups(steps), key=lambda group: -_energy_j(group))
        kept = [group for group in groups if not _is_unlike(group, groups)]
        for group in groups:
            if _is_unlike(group, groups):
                marks |= {id(run): UNLIKE for step in group for run in step.runs}
        for number, group in enumerate(kept, start=1):
            kinds.append(RunKind(app_id if number == 1 else f"{app_id}/{number}", group))
    marked = [replace(run, mark=marks.get(id(run), run.mark)) for run in runs]
    return Understood(kinds, marked)


def _usable_steps(runs: Sequence[ReportedRun], marks: dict[int, str]) -> Iterator[ReportedStep]:
    """Yield the steps of jobs. Of a job with loops as well the loops count where they show several
    phases, and what was reported of all of it does where they do not."""
    by_step: defaultdict[tuple[str, str], list[ReportedRun]] = defaultdict(list)
    for run in runs:
        if run.is_projectable:
            by_step[run.job_id, run.step_id].append(run)
    for together in by_step.values():
        whole = [run for run in together if not run.is_loop]
        loops = list(_loop_steps([run for run in together if run.is_loop]))
        usable = [step for step in loops if not any(run.mark for run in step.runs)]
        phases = list(_alike(usable))
        most = max(map(len, phases), default=0)
        if phases and (not whole or most < _MOST_LOOPS * len(usable)):
            marks |= {id(run): MIXED for run in whole if not run.mark}
            yield from (usable if most < _MOST_LOOPS * len(usable) else max(phases, key=len))
        elif whole and not any(run.mark for run in whole):
            yield from (ReportedStep.over_nodes(group) for group in _repeats(whole))


def _repeats(runs: Sequence[ReportedRun]) -> Iterator[list[ReportedRun]]:
    """Yield the rows of a step, its nodes together; a node that is there again begins another
    run."""
    again: defaultdict[int, list[ReportedRun]] = defaultdict(list)
    seen: defaultdict[str, int] = defaultdict(int)
    for run in runs:
        again[seen[run.node]].append(run)
        seen[run.node] += 1
    yield from again.values()


def _loop_steps(loops: Sequence[ReportedRun]) -> Iterator[ReportedStep]:
    """Yield the loops of a step: those of its nodes in their order together where all have as
    many, else each node's by itself."""
    nodes: defaultdict[str, list[ReportedRun]] = defaultdict(list)
    for run in loops:
        nodes[run.node].append(run)
    if len({len(each) for each in nodes.values()}) == 1:
        yield from (ReportedStep.over_nodes(group) for group in zip(*nodes.values(), strict=True))
    else:
        yield from (ReportedStep.over_nodes([run]) for run in loops)


def _alike(steps: Iterable[ReportedStep]) -> Iterator[list[ReportedStep]]:
    """Yield groups of steps that behave alike, each against the mean of its group so far."""
    groups: list[tuple[SignatureProfile, list[ReportedStep]]] = []
    for step in steps:
        run = step.mean.signature("reported")
        for number, (profile, group) in enumerate(groups):
            if compare_run(profile, run).conforms:
                groups[number] = profile.taking(run), [*group, step]
                break
        else:
            groups.append((SignatureProfile.from_run(run), [step]))
    yield from (group for _, group in groups)


def _groups(steps: Sequence[ReportedStep]) -> list[list[ReportedStep]]:
    """Return groups of the same input that behave alike. One that ran at a single clock joins
    another that it behaves like: inputs change, and the application stays the same."""
    loops = [step for step in steps if step.mean.is_loop]
    whole = [step for step in steps if not step.mean.is_loop]
    found = [group for each in (_inputs(whole) if whole else ()) for group in _alike(each)]
    found = sorted([*found, *_alike(loops)], key=lambda group: -_energy_j(group))
    kept = [group for group in found if len(_by_clock(group)) > 1]
    for group in found:
        if len(_by_clock(group)) > 1:
            continue
        like = next((each for each in kept if _conform(each, group)), None)
        if like is None:
            kept.append(list(group))
        else:
            like.extend(group)
    return kept


def _conform(group: Sequence[ReportedStep], other: Sequence[ReportedStep]) -> bool:
    """Return whether all steps of another group behave like those of a group."""
    first, *rest = (step.mean.signature("reported") for step in group)
    profile = SignatureProfile.from_run(first)
    for run in rest:
        profile = profile.taking(run)
    runs = (step.mean.signature("reported") for step in other)
    return all(compare_run(profile, run).conforms for run in runs)


def _energy_j(steps: Iterable[ReportedStep]) -> float:
    return sum(step.energy_j for step in steps)


def _is_unlike(group: Sequence[ReportedStep], groups: Sequence[Sequence[ReportedStep]]) -> bool:
    return len(group) == 1 and max(map(len, groups)) >= _ENOUGH_RUNS


def _inputs(steps: Sequence[ReportedStep]) -> Iterator[list[ReportedStep]]:
    """Yield groups of steps with about the same work: between two groups is a gap."""
    ordered = sorted(steps, key=lambda step: step.work)
    group = [ordered[0]]
    for before, step in pairwise(ordered):
        if step.work > before.work * _WORK_RATIO:
            yield group
            group = []
        group.append(step)
    yield group


def _is_one_input(steps: Sequence[ReportedStep]) -> bool:
    """Return whether times differ no more at any one clock than those of one input."""
    times = [[step.mean.time_s for step in at] for at in _by_clock(steps).values()]
    return all(max(each) <= _TIME_RATIO * min(each) for each in times)


def _by_clock(steps: Iterable[ReportedStep]) -> dict[float, list[ReportedStep]]:
    found: defaultdict[float, list[ReportedStep]] = defaultdict(list)
    for step in steps:
        found[step.mean.freq_ghz].append(step)
    return found


def _mean_at(ghz: float, steps: Sequence[ReportedStep], time_s: float) -> Clock:
    means = [step.mean for step in steps]
    return Clock(
        freq_ghz=ghz,
        measured_ghz=fmean(each.avg_freq_ghz for each in means),
        time_s=time_s,
        power_w=median(each.power_w for each in means),
        cpi=median(each.cpi for each in means),
        tpi=median(each.tpi for each in means),
        mem_gbps=median(each.mem_gbps for each in means),
        runs=len(steps),
    )
