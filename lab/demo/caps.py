"""How a run kept to its caps of power: what was drawn, as metered and as predicted."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from coplace.v1.control_pb2 import (
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
    ClusterDeclared,
    PowerCapDeclared,
    PowerCapStep,
)
from coplace.v1.jobs_pb2 import JobActionDone, JobFinished, RunInterval
from coplace.v1.placement_pb2 import VERDICT_QUEUED

from lab.demo.history import History
from shared.catalogue.payloads.domain_types import cores_of
from shared.domain.job import JobAttempt

# (time_us, W): a change of what is drawn.
Change = tuple[int, float]


@dataclass(frozen=True, slots=True)
class MeteredDraw:
    """The highest draw while there was a cap, the cap at that moment, and for how long it was
    exceeded."""

    highest_w: float
    cap_w: float
    above_s: float


@dataclass(frozen=True, slots=True)
class CapFigures:
    """One cap: what jobs drew by their meters, idle nodes beside them, and as placement predicted
    it; and the jobs that waited for it."""

    subject: str
    metered: MeteredDraw
    predicted: MeteredDraw
    waited: int


def cap_figures(history: History) -> list[CapFigures]:
    """Return the figures of each cap that was declared."""
    return [_figures(history, cap) for cap in caps_in_force(history.caps)]


def caps_in_force(declared: Iterable[PowerCapDeclared]) -> list[PowerCapDeclared]:
    """Return one declaration of each cluster, site or region that gives the caps of each time: a
    later one replaces those before it from its time on."""
    found: dict[tuple[int, str], PowerCapDeclared] = {}
    for cap in declared:
        before = found.get((cap.scope, cap.name))
        steps = [
            step for step in (before.steps if before else ()) if step.from_us < cap.declared_at_us
        ]
        if steps and cap.steps[0].from_us > cap.declared_at_us:
            steps.append(PowerCapStep(from_us=cap.declared_at_us))
        merged = PowerCapDeclared(scope=cap.scope, name=cap.name, steps=[*steps, *cap.steps])
        found[cap.scope, cap.name] = merged
    return list(found.values())


def waited_for_power(history: History) -> int:
    """Count jobs that waited for watts, of whatever cap."""
    return len(_told(history, history.caps))


def as_predicted(history: History) -> Callable[[JobFinished, ClusterDeclared], list[Change]]:
    """Return how what a job was predicted to draw beyond idle changed."""
    starts, actions = history.starts(), history.actions()
    done: dict[JobAttempt, list[JobActionDone]] = defaultdict(list)
    for each in sorted(history.done, key=lambda each: each.number):
        done[each.job_id, each.attempt].append(each)

    def predicted(job: JobFinished, cluster: ClusterDeclared) -> list[Change]:
        """As evaluated at its start, then as each action on it that was done says."""
        key = job.job_id, job.attempt
        node_w = next(c.power_w for c in starts[key].candidates if c.cluster == job.cluster)
        levels = [(job.started_at_us, _beyond_idle(job, cluster, node_w))]
        levels += [(d.done_at_us, actions[*key, d.number].action.draw_w) for d in done[key]]
        return list(_changes(levels, job.ended_at_us))

    return predicted


def region_levels(
    clusters: Sequence[ClusterDeclared],
    finished: Iterable[JobFinished],
    beyond_idle_w: Callable[[JobFinished, ClusterDeclared], Sequence[Change]],
) -> list[Change]:
    """Return what the region draws from each time on, all nodes that idle included (W)."""
    by_name = {each.cluster: each for each in clusters}
    jobs = [job for job in finished if job.started_at_us]
    changes = [c for job in jobs for c in beyond_idle_w(job, by_name[job.cluster])]
    idle_w = sum(each.nodes * each.idle_power_w for each in clusters)
    return list(_levels(changes, idle_w))


def _figures(history: History, cap: PowerCapDeclared) -> CapFigures:
    predicted = as_predicted(history)
    jobs, clusters = history.finished, history.clusters
    return CapFigures(
        subject="region" if cap.scope == POWER_SCOPE_REGION else cap.name,
        metered=drawn_under(cap, clusters, jobs, metered),
        predicted=drawn_under(cap, clusters, jobs, predicted),
        waited=len(_told(history, [cap])),
    )


def drawn_under(
    cap: PowerCapDeclared,
    clusters: Iterable[ClusterDeclared],
    finished: Iterable[JobFinished],
    beyond_idle_w: Callable[[JobFinished, ClusterDeclared], Sequence[Change]],
    *,
    counts_idle: bool = True,
) -> MeteredDraw:
    """Return how the jobs on the clusters under a cap kept to it, all nodes that idle beside them
    where these count, by how what each drew beyond the idle power of its cores changed."""
    covered = {c.cluster: c for c in clusters if _covers(cap, c)}
    jobs = [job for job in finished if job.cluster in covered and job.started_at_us]
    idle_w = sum(c.nodes * c.idle_power_w for c in covered.values()) if counts_idle else 0.0
    draws_w = (beyond_idle_w(job, covered[job.cluster]) for job in jobs)
    return _draw(cap, idle_w, draws_w)


def _changes(levels: Sequence[Change], ended_us: int) -> Iterator[Change]:
    """What is drawn from each time on, as changes; nothing after the end."""
    before_w = 0.0
    for time_us, level_w in [*levels, (ended_us, 0.0)]:
        yield time_us, level_w - before_w
        before_w = level_w


def _covers(cap: PowerCapDeclared, cluster: ClusterDeclared) -> bool:
    """Whether a cluster draws under a cap."""
    if cap.scope == POWER_SCOPE_REGION:
        return True
    return cap.name == (cluster.cluster if cap.scope == POWER_SCOPE_CLUSTER else cluster.site)


def metered(job: JobFinished, cluster: ClusterDeclared) -> list[Change]:
    """Return what a job drew beyond the idle power of its cores, on the mean of each stretch of its
    run."""
    idle_w = cluster.idle_power_w * float(cores_of(job)) / cluster.cores_per_node
    whole = [RunInterval(began_at_us=job.started_at_us, energy_j=job.energy_j)]
    intervals = list(job.intervals) or whole
    ends_us = [*(each.began_at_us for each in intervals[1:]), job.ended_at_us]
    levels = [
        (each.began_at_us, each.energy_j * 1e6 / max(1, end_us - each.began_at_us) - idle_w)
        for each, end_us in zip(intervals, ends_us, strict=True)
    ]
    return list(_changes(levels, job.ended_at_us))


def _beyond_idle(job: JobFinished, cluster: ClusterDeclared, node_w: float) -> float:
    return max(0.0, node_w - cluster.idle_power_w) * float(cores_of(job)) / cluster.cores_per_node


def _draw(cap: PowerCapDeclared, idle_w: float, draws_w: Iterable[Sequence[Change]]) -> MeteredDraw:
    """How jobs whose draw beyond idle changed like this kept to a cap."""
    steps = [(s.from_us, s.watts if s.HasField("watts") else None) for s in cap.steps]
    changes: list[Change] = [(from_us, 0.0) for from_us, _ in steps]
    for of_job in draws_w:
        changes += of_job
    highest, above_us = MeteredDraw(0.0, 0.0, 0.0), 0
    for (begin_us, drawn_w), (end_us, _) in pairwise(_levels(changes, idle_w)):
        cap_w = next((watts for from_us, watts in reversed(steps) if from_us <= begin_us), None)
        if cap_w is None:
            continue
        above_us += end_us - begin_us if drawn_w > cap_w else 0
        if not highest.cap_w or drawn_w / cap_w > highest.highest_w / highest.cap_w:
            highest = MeteredDraw(drawn_w, cap_w, 0.0)
    return MeteredDraw(highest.highest_w, highest.cap_w, above_us / 1e6)


def _levels(changes: list[Change], idle_w: float) -> Iterator[Change]:
    """What is drawn from each time on."""
    level_w = idle_w
    for time_us, group in groupby(sorted(changes), key=lambda change: change[0]):
        level_w += sum(change_w for _, change_w in group)
        yield time_us, level_w


def _told(history: History, caps: Sequence[PowerCapDeclared]) -> set[str]:
    """Jobs that were queued, watts under one of these caps being among the reasons."""
    of_caps = {(cap.scope, cap.name) for cap in caps}
    return {
        decided.job_id
        for decided in history.decisions
        if decided.verdict == VERDICT_QUEUED
        for candidate in decided.candidates
        for shortage in candidate.power.shortages
        if (shortage.scope, shortage.name) in of_caps
    }
