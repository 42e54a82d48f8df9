"""The state of a placement, in the words of the plain rules; what it holds and asks for is held to
what was submitted and decided on the way."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn

from shared.placement.processor.placement import Placement
from shared.scheduling.wait_queue import Entry
from tests.core.figures import PSTATES, Known, Mode, licences_of
from tests.core.plain import Budget, Kept, Nodes, Region, Stay, Waiting
from tests.core.runs import Runs

Reserved = Sequence[tuple[str, int, Kept]]


class BrokenError(AssertionError):
    """A rule of the core does not hold."""


def require(is_so: bool, problem: str) -> None:
    """Raise BrokenError unless it is."""
    if not is_so:
        _break(problem)


def _break(problem: str) -> NoReturn:
    raise BrokenError(problem)


class PlainState:
    """Of one placement."""

    def __init__(self, known: Known, *, counts_idle: bool, cap_slowdown: float) -> None:
        self.known, self._counts_idle, self._slowdown = known, counts_idle, cap_slowdown

    def of_runs(self, now_s: float, runs: Runs, reserved: Reserved) -> Region:
        """The region if these run and nobody waits."""
        nodes = {name: self._nodes(name, _stays(self, name, runs)) for name in self.known.clusters}
        return Region(now_s, nodes, self.budgets(reserved), [])

    def of(self, placement: Placement, now_s: float, reserved: Reserved) -> Region:
        """The region as a pass of the placement finds it."""
        held = {name: self._held(placement, name) for name in self.known.clusters}
        nodes = {name: self._nodes(name, stays) for name, stays in held.items()}
        waiting = list(self._waiting(placement, now_s))
        return Region(now_s, nodes, self.budgets(reserved), waiting, self.known.licence_budgets())

    def budgets(self, reserved: Reserved = ()) -> list[Budget]:
        """With what is reserved beside that of waiting jobs."""
        budgets = self.known.budgets(counts_idle=self._counts_idle)
        for cluster, arrival, kept in reserved:
            for budget in budgets:
                if cluster in budget.clusters:
                    budget.keep(arrival, kept)
        return budgets

    def _nodes(self, cluster: str, stays: Iterable[Stay]) -> Nodes:
        has = self.known.nodes(cluster)
        windows = self.known.windows_of(cluster)
        return Nodes(
            has, lambda members: self.known.accepts(cluster, members), list(stays), windows
        )

    def _held(self, placement: Placement, cluster: str) -> Iterator[Stay]:
        table = placement.layers.state.jobs
        for held in table.allocations.occupancy[cluster].held:
            job = self.known.jobs[table.by_arrival[held.holder]]
            yield Stay(
                held.holder,
                self.known.shape(job.asked, cluster).on(held.allocation.nodes),
                tuple(zip(*held.allocation, strict=True)),
                held.release_s,
                held.draw_mw,
                licences_of(job.asked),
            )

    def _waiting(self, placement: Placement, now_s: float) -> Iterator[Waiting]:
        for cluster in self.known.clusters:
            if cluster not in self.known.lost:
                for entry in placement.layers.decide.waiting_jobs.queues.queue(cluster):
                    yield self._as_waiting(placement, entry, cluster, now_s)

    def _as_waiting(
        self, placement: Placement, entry: Entry, cluster: str, now_s: float
    ) -> Waiting:
        """An entry, after it was held to what its job asked for."""
        tracked = placement.layers.state.jobs.of_arrival(entry.arrival)
        job_id = tracked.job.job_id
        asked = self.known.jobs[job_id].asked
        own_ghz = placement.layers.decide.waiting_jobs.choice(tracked, cluster).candidate.freq_ghz
        own = self._mode(job_id, cluster, own_ghz)
        found = entry.nodes, entry.limit_s, entry.draw_mw
        right = asked.units, own.limit_s, own.draw_mw
        require(found == right, f"{entry} on {cluster} should be of {right}")
        lowest_ghz = own_ghz / self._slowdown
        lower = [ghz for ghz in PSTATES if lowest_ghz <= ghz < own_ghz]
        others = tuple((mode.limit_s, mode.draw_mw) for mode in entry.others)
        possible = {self._mode(job_id, cluster, ghz)[1:] for ghz in lower}
        require(possible.issuperset(others), f"{entry} on {cluster} has {possible} at lower clocks")
        may = self.known.may_wait(job_id, cluster, own.limit_s, now_s)
        require(may, f"{entry} waits on {cluster} for what is not reserved for it")
        shape = self.known.shape(asked, cluster)
        of_job = asked.reservation, licences_of(asked)
        return Waiting(entry.order, entry.arrival, cluster, *right, shape, others, *of_job)

    def _mode(self, job_id: str, cluster: str, ghz: float) -> Mode:
        return self.known.mode(job_id, cluster, ghz, self.known.jobs[job_id].asked.units)


def _stays(state: PlainState, cluster: str, runs: Runs) -> Iterator[Stay]:
    """What runs on a cluster hold, as long as nobody has answered the worse of how they are and how
    they were asked to be."""
    for job_id, run in runs.items():
        if run.cluster == cluster:
            asked = state.known.jobs[job_id].asked
            shape = state.known.shape(asked, cluster).on(node for node, _ in run.units)
            has = run.release_s, run.draw_mw, licences_of(asked)
            yield Stay(run.arrival, shape, run.units, *has)
