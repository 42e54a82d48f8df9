"""`python -m lab.papers.capping.uncertain`: how often a cap is exceeded where predictions
err, with margins, and with the joint quantile at the same slowdown.

Eurora's instances with one job in ten under-predicted by 40 %, and jobs of Emmy with what the
predictor that placement uses said of them, and how far it was off, when they came. These are also
played with margins as placement keeps them, with and without what earlier errors say of later ones.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import pairwise
from math import ceil, hypot, inf, log
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Final, NamedTuple

import typer

from cli.failures import ReportingGroup
from cli.main import Out
from coplace_client.files import write_whole
from lab.evaluate.power_log import read_log
from lab.papers.capping.alike import Alike, Judged, alike
from lab.papers.capping.caps import constant_cap
from lab.papers.capping.document import put
from lab.papers.capping.instances import read_instances
from lab.papers.capping.joint_easy import Doubt, JointEasy
from lab.papers.options import Data, Into
from lab.papers.placement.markdown import table
from lab.papers.published_data import DATA
from lab.simulation.capping import (
    CappingMethod,
    CappingRules,
    KeptFree,
    counting_deviations,
    impossible_under,
    play_capped,
)
from lab.simulation.eurora import EuroraRun, figures_of, play
from lab.workloads.eurora import EuroraJob, EuroraMachine, EuroraUnit
from shared.domain.cluster import NodeClass
from shared.numerics.normal import quantile
from shared.power_prediction.kinds import KindOfJob
from shared.power_prediction.online import EndedJob, OnlineLearner
from shared.power_prediction.submission import MeasuredPower, Submission

app = typer.Typer(cls=ReportingGroup)

MARGINS: Final = (0.0, 0.01, 0.05)
_CAP_PCT: Final = 50
_UNDER_SHARE, _UNDER_BY = 0.1, 0.4
# Emmy: its nodes, and jobs of the end of its log, which come at random at this load of its nodes.
_NODES, _CORES, _JOBS, _LOAD, _LAG, _ALPHA, _SEED = 560, 20, 1_500, 1.0, 50, 0.1, 1
_PEAK_SHARE: Final = 0.6
# How errors are alike is learned from so many jobs, and played on none of the newest ones.
_LEARNED, _NOT_LEARNED = 10_000, 6_000
# What is predicted of a job of which nothing is known: W a node, and the deviation.
_UNKNOWN: Final = 300.0, 0.5
_ACCEPTED: Final = (0.1, 0.01)
# How near a slowdown is to that of a margin: the risk is halved so often.
_HALVINGS: Final = 5


@dataclass(frozen=True)
class Case:
    """Jobs as predicted, by what share each prediction may err (one standard deviation), what they
    draw in truth, W, and the cap."""

    machine: EuroraMachine
    jobs: Sequence[EuroraJob]
    deviations: Sequence[float]
    true_w: Sequence[float]
    waits_s: Sequence[float]
    cap_w: float
    users: Sequence[str] = ()


class Outcome(NamedTuple):
    """The mean bounded slowdown (60 s), the share of time above the cap, how far above it at most,
    as a share of it, and the mean power over it while anything ran."""

    slowdown: float
    above_share: float
    most_above: float
    used: float


def outcome(case: Case, method: CappingMethod, kept: KeptFree) -> Outcome:
    """Play a schedule by predictions, compared with what jobs draw. Raises AssertionError for one
    that exceeds the cap as predicted."""
    jobs, [cap_w] = counting_deviations(case.jobs, [case.cap_w], kept)
    rules = CappingRules(method, constant_cap(cap_w), case.waits_s, [0.0] * len(jobs))
    run = play_capped(case.machine, jobs, rules)
    return _held(case, rules, run)


def placed(case: Case, risk: float, errs: Alike) -> Outcome:
    """Play a schedule by EASY that keeps the joint quantile as placement does it. Raises as
    above."""
    deviations = [hypot(sd, errs.runs_sd) for sd in case.deviations]
    doubt = Doubt(risk, deviations, case.users, errs.correlation)
    rules = CappingRules(
        CappingMethod.BF, constant_cap(case.cap_w), case.waits_s, [0.0] * len(case.jobs)
    )
    dispatcher = JointEasy(case.machine, case.jobs, rules.cap, doubt)
    run = play(case.jobs, dispatcher, lambda served: case.jobs[served[1].arrival].runtime_s)
    return _held(case, rules, run)


def _held(case: Case, rules: CappingRules, run: EuroraRun) -> Outcome:
    """A schedule, checked, compared with what jobs draw."""
    wrong = impossible_under(rules, run, case.machine)
    assert not wrong, wrong[0]
    steps = list(_drawn(run, case.true_w))
    whole_s = steps[-1][0] - steps[0][0]
    above_s = sum(b - a for (a, w), (b, _) in pairwise(steps) if w > case.cap_w)
    energy_j = sum(w * (b - a) for (a, w), (b, _) in pairwise(steps))
    return Outcome(
        figures_of(run).bounded_slowdown,
        above_s / whole_s,
        max(w for _, w in steps) / case.cap_w - 1,
        energy_j / whole_s / case.cap_w,
    )


def _drawn(run: EuroraRun, true_w: Sequence[float]) -> Iterator[tuple[float, float]]:
    """When what all jobs draw changes, and to how many watts."""
    changes = [
        (time_s, watts)
        for placed, drawn_w in zip(run.placements, true_w, strict=True)
        for time_s, watts in ((placed.start_s, drawn_w), (placed.end_s, -drawn_w))
    ]
    now_w = 0.0
    for time_s, watts in sorted(changes):
        now_w += watts
        yield time_s, now_w


def mean_outcome(
    cases: Sequence[Case], method: CappingMethod, margin: float, risk: float
) -> Outcome:
    """Return the mean over all cases."""
    found = [outcome(c, method, KeptFree(margin, risk, c.deviations)) for c in cases]
    return Outcome(*(fmean(column) for column in zip(*found, strict=True)))


def at_slowdown(played: Callable[[float], Outcome], most: float) -> tuple[float, Outcome]:
    """Return the least risk at which jobs are slowed down no more than this; 0.5 where none is."""
    low_z, high_z, best = 0.0, 3.0, (0.5, played(0.5))
    for _ in range(_HALVINGS):
        z = (low_z + high_z) / 2
        risk = _risk_of(z)
        found = played(risk)
        if found.slowdown <= most:
            low_z, best = z, (risk, found)
        else:
            high_z = z
    return best


def _risk_of(z: float) -> float:
    """The probability above so many standard deviations."""
    low, high = 1e-6, 0.5
    for _ in range(60):
        risk = (low + high) / 2
        low, high = (risk, high) if quantile(1 - risk) > z else (low, risk)
    return high


def rows(name: str, cases: Sequence[Case], method: CappingMethod) -> Iterator[tuple[str, ...]]:
    """Yield margins, and the joint quantile at the slowdown of each and at what operators may ask
    for."""
    for margin in MARGINS:
        found = mean_outcome(cases, method, margin, 0.5)
        yield _row(f"{name}, margin {100 * margin:g} %", found)
        if margin:
            risk, other = at_slowdown(partial(mean_outcome, cases, method, 0.0), found.slowdown)
            yield _row(f"{name}, joint quantile, risk {risk:.3f}", other)
    for risk in _ACCEPTED:
        yield _row(f"{name}, joint quantile, risk {risk:g}", mean_outcome(cases, method, 0.0, risk))


def placement_rows(name: str, case: Case, learned: Alike) -> Iterator[tuple[str, ...]]:
    """Yield the joint quantile as placement keeps it, by what predictions say of their errors
    alone, with how much further they were off before, and with how much alike those of one user
    were; of the last the slowdown of each margin too."""
    none, name = Alike(0.0, 0.0), f"{name}, by placement"
    sd = f", `cap_power_sd` {learned.runs_sd:.2f}"
    correlation = f", `cap_user_correlation` {learned.correlation:.2f}"
    for words, errs in (
        ("", none),
        (sd, learned._replace(correlation=0.0)),
        (correlation, learned._replace(runs_sd=0.0)),
        (sd + correlation, learned),
    ):
        for risk in _ACCEPTED:
            yield _row(f"{name}, risk {risk:g}{words}", placed(case, risk, errs))
    for margin in MARGINS[1:]:
        most = mean_outcome([case], CappingMethod.BF, margin, 0.5).slowdown
        risk, found = at_slowdown(partial(placed, case, errs=learned), most)
        yield _row(f"{name}, as slow as a margin of {100 * margin:g} %, risk {risk:.3f}", found)


def _row(name: str, found: Outcome) -> tuple[str, ...]:
    return (
        name,
        f"{found.slowdown:.3f}",
        f"{100 * found.above_share:.2f}",
        f"{100 * found.most_above:.1f}",
        f"{100 * found.used:.1f}",
    )


def under_predicted(data: Path) -> list[Case]:
    """Return the ten instances of 50 jobs in 300 s at half of their power: the deviation is the
    root mean square of all errors, since nobody knows which job is which."""
    machine, instances = read_instances(data / "eurora", ["rndm_50_300_"])
    deviation = (_UNDER_SHARE * (_UNDER_BY / (1 - _UNDER_BY)) ** 2) ** 0.5
    cases = []
    for instance in instances:
        jobs = [_predicted(job, instance.name) for job in instance.jobs]
        true_w = [float(job.power_w) for job in instance.jobs]
        cap_w = instance.caps_w[_CAP_PCT]
        deviations = [deviation] * len(jobs)
        cases.append(Case(machine, jobs, deviations, true_w, instance.waits_s, cap_w))
    return cases


def _predicted(job: EuroraJob, instance: str) -> EuroraJob:
    drawn = sha256(f"{instance}/{job.job_id}".encode()).digest()[0] / 256
    by = _UNDER_BY if drawn < _UNDER_SHARE else 0.0
    return replace(job, power_w=ceil(job.power_w * (1 - by)))


# A job, what it drew, and what was predicted of it: W a node, and the deviation.
_Told = tuple[tuple[Submission, MeasuredPower], tuple[float, float]]


def emmy(path: Path) -> list[_Told]:
    """Read all jobs of the log, by the predictions that those before them taught."""
    log_of_jobs = [
        (job, out)
        for job, out in read_log(path).jobs
        if out.is_usable and out.runtime_s > 0 and job.nodes >= 1 and job.walltime_s > 0
    ]
    learner, predicted = OnlineLearner(_ALPHA), list[tuple[float, float]]()
    open_jobs: list[EndedJob] = []
    for number, (job, out) in enumerate(log_of_jobs):
        kind = _kind(job)
        at_start = learner.tables.predict(kind)
        if at_start is None:
            predicted.append(_UNKNOWN)
        else:
            sd = log(at_start.upper_w / at_start.predicted_w) / quantile(1 - at_start.alpha)
            predicted.append((at_start.predicted_w, max(sd, 0.0)))
        open_jobs.append(EndedJob(job.job_id, kind, out.node_power_w, at_start))
        if len(open_jobs) > _LAG:
            learner.learn([open_jobs.pop(0)], number + 1)
    return [*zip(log_of_jobs, predicted, strict=True)]


def of_emmy(told: Sequence[_Told]) -> Case:
    """Return the end of the log."""
    return _case(told[-_JOBS:])


def alike_before(told: Sequence[_Told]) -> Alike:
    """Return how errors were alike before what is played."""
    before = told[-_NOT_LEARNED - _LEARNED : -_NOT_LEARNED]
    judged = [
        Judged.of(job.user, sd, predicted_w, out.node_power_w)
        for (job, out), (predicted_w, sd) in before
    ]
    return alike(judged, _LAG)


def _kind(job: Submission) -> KindOfJob:
    size = f"{job.nodes:g}x{job.cores:g}"
    return KindOfJob("emmy", 2.2, job.user, "", size, job.walltime_s)


def _case(
    told: Sequence[_Told],
) -> Case:
    rng, submit_s = Random(_SEED), 0.0
    node_s = sum(job.nodes * out.runtime_s for (job, out), _ in told)
    mean_gap_s = node_s / len(told) / (_NODES * _LOAD)
    jobs, deviations, true_w = [], [], []
    for (job, out), (watts, sd) in told:
        nodes = min(int(job.nodes), _NODES)
        submit_s += rng.expovariate(1 / mean_gap_s)
        walltime_s = max(job.walltime_s, out.runtime_s)
        unit = EuroraUnit(_CORES, 1.0, ())
        jobs.append(
            EuroraJob(
                job.job_id,
                "",
                submit_s,
                nodes,
                unit,
                walltime_s,
                out.runtime_s,
                ceil(nodes * watts),
            )
        )
        deviations.append(sd)
        true_w.append(nodes * out.node_power_w)
    machine = EuroraMachine(_CORES, (NodeClass(_NODES, 64.0, ()),))
    users = [job.user for (job, _), _ in told]
    without = Case(machine, jobs, deviations, true_w, [3600.0] * len(jobs), inf, users)
    peak_w = _peak_w(without)
    return replace(without, cap_w=max(_PEAK_SHARE * peak_w, 1.5 * max(j.power_w for j in jobs)))


def _peak_w(case: Case) -> float:
    """What jobs draw at most where no cap holds."""
    every_w = float(sum(job.power_w for job in case.jobs))
    rules = CappingRules(
        CappingMethod.BF, constant_cap(every_w), case.waits_s, [0.0] * len(case.jobs)
    )
    run = play_capped(case.machine, case.jobs, rules)
    return max(watts for _, watts in _drawn(run, case.true_w))


@app.callback(invoke_without_command=True)
def bench(
    data: Data = DATA,
    out: Out = Path("out/capping"),
    into: Into = None,
) -> None:
    """Play all margins, and the joint quantile at the slowdown of each."""
    out.mkdir(parents=True, exist_ok=True)
    header = ("", "bounded slowdown", "time above the cap, %", "most above, %", "of the cap, %")
    told = emmy(data / "power" / "emmy.csv")
    of_log = of_emmy(told)
    lines = [
        *rows("10 % under-predicted", under_predicted(data), CappingMethod.LS),
        *rows("Emmy", [of_log], CappingMethod.BF),
        *placement_rows("Emmy", of_log, alike_before(told)),
    ]
    tables = {"capping uncertain": table(header, lines)}
    with write_whole(out / "uncertain.md") as fresh:
        fresh.write_text(tables["capping uncertain"] + "\n", encoding="utf-8")
    put(tables, into)
    typer.echo(tables["capping uncertain"])


if __name__ == "__main__":
    app()
