"""Every instance under every cap by every dispatcher, a play a process at a time."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from time import process_time
from typing import Final

from cli.progress import progress_of
from coplace_client.errors import UnusableError
from lab.papers.capping.caps import constant_cap
from lab.papers.capping.instances import Instance
from lab.simulation.capping import (
    CappingMethod,
    CappingRules,
    impossible_under,
    play_capped,
    weighted_queue_time_s,
)
from lab.simulation.eurora import PAPER_THRESHOLD_S, figures_of
from lab.simulation.power_reduction import mixed_factor
from lab.workloads.eurora import EuroraMachine


@dataclass(frozen=True, slots=True)
class Contender:
    """A method, and what less power costs its jobs: a factor of all, None where it is mixed."""

    name: str
    method: CappingMethod
    factor: float | None = None


CONTENDERS: Final = (
    Contender("LS", CappingMethod.LS),
    Contender("LS by walltime", CappingMethod.LS_WALLTIME),
    Contender("hybrid", CappingMethod.HYBRID),
    Contender("BF", CappingMethod.BF),
    Contender("DVFS", CappingMethod.DVFS),
    Contender("Simple", CappingMethod.SIMPLE),
    *(
        Contender(f"DynShare_{factor:g}", CappingMethod.DYN_SHARE, factor)
        for factor in (0.0, 0.25, 0.5, 0.75, 1.0)
    ),
    Contender("DynShare_mixed", CappingMethod.DYN_SHARE),
    *(
        Contender(f"hybrid+RAPL_{factor:g}", CappingMethod.HYBRID_RAPL, factor)
        for factor in (0.5, 1.0)
    ),
    Contender("hybrid+RAPL_mixed", CappingMethod.HYBRID_RAPL),
)
DEC: Final = "DEC"
# They solve for minutes an instance, so they play only on demand.
SOLVERS: Final = (
    Contender(DEC, CappingMethod.DEC),
    *(Contender(f"DEC+RAPL_{factor:g}", CappingMethod.DEC_RAPL, factor) for factor in (0.5, 1.0)),
)


# Instance, cap in percent, and contender.
Play = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one dispatcher on one instance under one cap. CPU time is of the whole
    play;"""

    group: str
    instance: str
    cap_pct: int
    contender: str
    bounded_slowdown: float
    bounded_slowdown_300s: float
    weighted_queue_time_s: float
    queue_time_s: float
    makespan_s: float
    max_power_w: float
    cpu_s: float
    plans: int = 0
    improved: int = 0
    unanswered: int = 0

    @property
    def play(self) -> Play:
        """Return what it is the outcome of."""
        return self.instance, self.cap_pct, self.contender


def play_all(
    machine: EuroraMachine,
    instances: Sequence[Instance],
    contenders: Sequence[Contender],
    workers: int,
    known: Iterable[Outcome] = (),
) -> Iterator[Outcome]:
    """Yield the outcomes as plays end, but of those that are known; none where a cap lets a job
    never start. Raises AssertionError for a schedule that the checker finds wrong."""
    played = {outcome.play for outcome in known}
    wanted = [
        (instance, cap_pct, contender)
        for instance in instances
        for cap_pct in instance.caps_w
        for contender in contenders
        if (instance.name, cap_pct, contender.name) not in played
    ]
    with (
        progress_of(len(wanted), "plays") as tell,
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
    ):
        plays = [pool.submit(_outcome, machine, *each) for each in wanted]
        for done, future in enumerate(as_completed(plays), 1):
            tell(done)
            if (outcome := future.result()) is not None:
                yield outcome


def _outcome(
    machine: EuroraMachine, instance: Instance, cap_pct: int, contender: Contender
) -> Outcome | None:
    jobs = instance.jobs
    factors = [
        mixed_factor(job.job_id) if contender.factor is None else contender.factor for job in jobs
    ]
    cap = constant_cap(instance.caps_w[cap_pct])
    rules = CappingRules(contender.method, cap, instance.waits_s, factors)
    began_s = process_time()
    try:
        run = play_capped(machine, jobs, rules)
    except UnusableError:
        return None  # a job draws more than the cap
    cpu_s = process_time() - began_s
    wrong = impossible_under(rules, run, machine)
    assert not wrong, f"{contender.name} on {instance.name} at {cap_pct} %: {wrong[0]}"
    figures = figures_of(run)
    searches = run.searches
    return Outcome(
        group=instance.group,
        instance=instance.name,
        cap_pct=cap_pct,
        contender=contender.name,
        bounded_slowdown=figures.bounded_slowdown,
        bounded_slowdown_300s=figures_of(run, PAPER_THRESHOLD_S).bounded_slowdown,
        weighted_queue_time_s=weighted_queue_time_s(run, instance.waits_s),
        queue_time_s=figures.queue_time_s,
        makespan_s=figures.makespan_s,
        max_power_w=figures.max_power_w,
        cpu_s=cpu_s,
        plans=searches.plans,
        improved=searches.improved,
        unanswered=searches.unanswered,
    )
