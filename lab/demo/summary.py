"""The figures of a run: pure functions over its history."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from itertools import accumulate
from statistics import fmean

from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    ACTION_KIND_RESUME,
    ACTION_KIND_SET_PSTATE,
    ACTION_KIND_SUSPEND,
    PREDICTION_BASIS_SIGNATURE,
    VERDICT_QUEUED,
    VERDICT_REJECTED,
    Candidate,
    PlacementDecided,
)

from coplace_client.errors import UnusableError
from lab.demo.caps import CapFigures, cap_figures, waited_for_power
from lab.demo.history import History
from shared.catalogue.payloads.domain_types import cores_of
from shared.domain.job import JobAttempt
from shared.placement.state.slowdown_guarantees import LEAST_SHUTTERS


@dataclass(frozen=True, slots=True)
class PredictionErrors:
    """Mean absolute percentage errors of what placement believed; None where nothing compares.

    Time, power and energy: the EAR projection at the chosen P-state against the signature measured
    in the run. Slowdown: the pair model's against the shutters'. Submission power: what was known
    of similar jobs when a job came against what it drew, the same without any similar job, and the
    share at or below the bound.
    """

    time_percent: float | None
    power_percent: float | None
    energy_percent: float | None
    slowdown_percent: float | None
    submission_power_percent: float | None
    submission_power_without_history_percent: float | None
    submission_power_below_bound_percent: float | None


@dataclass(frozen=True, slots=True)
class ActionFigures:
    """What was asked of jobs that ran, and how many of these were done."""

    clocked_down: int
    clocked_up: int
    suspended: int
    resumed: int
    ended: int
    jobs: int
    done: int


@dataclass(frozen=True, slots=True)
class DemoSummary:
    """The results of a run. Shares are of the finished jobs, between 0 and 1."""

    jobs: int
    makespan_s: float
    mean_response_s: float
    energy_j: float
    mean_freq_ghz: float
    share_on_best_cluster: float
    share_waited: float
    share_backfilled: float
    share_shared_nodes: float
    share_discounted: float
    mean_price_against_state_of_practice: float
    total_price_su: str
    jobs_on_parts_of_nodes: int
    most_co_runners: int
    promises_kept: int
    promises_broken: int
    jobs_with_gpus: int
    jobs_waited_for_power: int
    jobs_rejected: int
    caps: tuple[CapFigures, ...]
    actions: ActionFigures
    errors: PredictionErrors

    def as_json(self) -> dict[str, object]:
        """Return plain data for summary.json."""
        return asdict(self)


def summarise(history: History) -> DemoSummary:
    """Summarise a run. Raises UnusableError when no job finished."""
    done = history.finished
    if not done:
        raise UnusableError("no job finished: nothing to report; read the decisions' reasons")
    starts, outcomes = history.starts(), history.first_outcomes()
    broken = {(each.job_id, each.attempt) for each in history.broken}
    charges = history.final_charges()
    keys = [(job.job_id, job.attempt) for job in done]
    prices = [(Decimal(c.price_su), Decimal(c.state_of_practice_su)) for c in charges.values()]
    first_submit_us = min(job.submitted_at_us for job in done)
    return DemoSummary(
        jobs=len(done),
        makespan_s=(max(job.ended_at_us for job in done) - first_submit_us) / 1e6,
        mean_response_s=fmean((job.ended_at_us - job.submitted_at_us) / 1e6 for job in done),
        energy_j=sum(job.energy_j for job in done),
        mean_freq_ghz=fmean(job.freq_ghz for job in done),
        share_on_best_cluster=_share(on_best_cluster(starts[key]) for key in keys),
        share_waited=_share(outcomes[key].verdict == VERDICT_QUEUED for key in keys),
        share_backfilled=_share(starts[key].backfilled for key in keys),
        share_shared_nodes=_share(bool(c.evidence) for c in charges.values()),
        share_discounted=_share(price < full for price, full in prices),
        mean_price_against_state_of_practice=fmean(float(p / full) for p, full in prices if full),
        total_price_su=str(sum((price for price, _ in prices), Decimal(0))),
        jobs_on_parts_of_nodes=sum(_is_on_parts(history, job) for job in done),
        most_co_runners=_most_co_runners(done, starts),
        promises_kept=len(_held_to_guarantees(history, starts) - broken),
        promises_broken=len(broken),
        jobs_with_gpus=sum("gpu" in job.resources for job in done),
        jobs_waited_for_power=waited_for_power(history),
        jobs_rejected=sum(d.verdict == VERDICT_REJECTED for d in history.decisions),
        caps=tuple(cap_figures(history)),
        actions=action_figures(history),
        errors=_errors(history, starts, done),
    )


def on_best_cluster(start: PlacementDecided) -> bool:
    """Return whether the job runs where its part_eff (EAMC equation 5) is lowest."""
    best = min(start.candidates, key=lambda c: c.part_eff)
    return best.cluster == start.cluster


def action_figures(history: History) -> ActionFigures:
    """Return the figures of actions of a run. What asked for it says whether a clock goes up or
    down: caps clock down, watts that are available again clock up."""
    asked = [decided.action for decided in history.actions().values()]
    clocked = [action for action in asked if action.kind == ACTION_KIND_SET_PSTATE]
    kinds = Counter(action.kind for action in asked)
    down = sum(bool(action.power.shortages) for action in clocked)
    return ActionFigures(
        clocked_down=down,
        clocked_up=len(clocked) - down,
        suspended=kinds[ACTION_KIND_SUSPEND],
        resumed=kinds[ACTION_KIND_RESUME],
        ended=kinds[ACTION_KIND_END],
        jobs=len({(job_id, attempt) for job_id, attempt, _ in history.actions()}),
        done=len([*history.done_actions()]),
    )


def _is_on_parts(history: History, job: JobFinished) -> bool:
    """Return whether it had fewer cores than its nodes."""
    cores = {c.cluster: c.cores_per_node for c in history.clusters}
    return cores_of(job) < job.nodes * cores[job.cluster]


def _most_co_runners(
    done: Iterable[JobFinished], starts: dict[JobAttempt, PlacementDecided]
) -> int:
    """How many others were on one node with a job at the same time, at most."""
    changes: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for job in done:
        for node in starts[job.job_id, job.attempt].node_indices:
            changes[job.cluster, node] += [(job.started_at_us, 1), (job.ended_at_us, -1)]
    there = (max(accumulate(sign for _, sign in sorted(each))) for each in changes.values())
    return max(there, default=1) - 1


def _held_to_guarantees(
    history: History, starts: Mapping[JobAttempt, PlacementDecided]
) -> set[JobAttempt]:
    """Attempts with a promised slowdown that were measured beside a neighbour."""
    return {
        key
        for key, charge in history.final_charges().items()
        if starts[key].promised_slowdown_ratio
        and any(e.shutters_used + e.shutters_dropped >= LEAST_SHUTTERS for e in charge.evidence)
    }


def _share(flags: Iterable[bool]) -> float:
    values = list(flags)
    return sum(values) / len(values) if values else 0.0


def _percent(pairs: Iterable[tuple[float, float]]) -> float | None:
    """Mean absolute percentage error of (predicted, measured) pairs."""
    errors = [abs(predicted / measured - 1) for predicted, measured in pairs if measured]
    return 100 * fmean(errors) if errors else None


def _chosen(start: PlacementDecided) -> Candidate | None:
    """The candidate that was started, when a signature was behind it."""
    for candidate in start.candidates:
        if candidate.cluster == start.cluster:
            return candidate if candidate.basis == PREDICTION_BASIS_SIGNATURE else None
    return None


def _errors(
    history: History, starts: dict[JobAttempt, PlacementDecided], done: list[JobFinished]
) -> PredictionErrors:
    measured = {s.job_id: s for s in history.signatures if s.job_id}
    chosen = {job.job_id: _chosen(starts[job.job_id, job.attempt]) for job in done}
    pairs = [(c, measured[job]) for job, c in chosen.items() if c is not None and job in measured]
    powers = history.submission_powers
    return PredictionErrors(
        time_percent=_percent((c.time_s, s.time_s) for c, s in pairs),
        power_percent=_percent((c.power_w, s.power_w) for c, s in pairs),
        energy_percent=_percent((c.energy_j, s.power_w * s.time_s) for c, s in pairs),
        slowdown_percent=_percent(_slowdowns(history, starts)),
        submission_power_percent=_percent((p.predicted_w, p.actual_w) for p in powers),
        submission_power_without_history_percent=_percent(
            (p.without_history_w, p.actual_w) for p in powers
        ),
        submission_power_below_bound_percent=(
            100 * fmean(p.actual_w <= p.upper_w for p in powers) if powers else None
        ),
    )


def _slowdowns(
    history: History, starts: dict[JobAttempt, PlacementDecided]
) -> Iterable[tuple[float, float]]:
    """(predicted, measured) slowdown of each job that was placed beside a co-runner."""
    for key, charge in history.final_charges().items():
        start = starts[key]
        for evidence in charge.evidence:
            if evidence.co_runner_job_id == start.co_runner_job_id and evidence.shutters_used:
                yield start.predicted_slowdown_ratio, evidence.slowdown_ratio
