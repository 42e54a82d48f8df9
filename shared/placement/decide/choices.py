"""What a job has to choose from: its candidates, ranked among the clusters that are there.

Rank, tier and `part_eff` compare clusters with each other, all else is of each alone. So they
follow from the evaluation when the job arrived and from which clusters are lost, whenever these
were lost; and from which nodes are off, where a job needs more nodes of a cluster than are on.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from operator import attrgetter
from typing import Final, NamedTuple, Self

import numpy as np

from shared.domain.job import MOST_PRIORITY, Job
from shared.eamc.ranking import EXCLUDED, NO_PREFERENCE, compare
from shared.placement.evaluate.evaluation import more_nodes
from shared.placement.state.candidate import Candidate
from shared.placement.state.job_record import JobRecord
from shared.placement.state.occupancy import Occupancy
from shared.placement.state.planned import PlannedMode
from shared.placement.state.policy_in_force import Ranking
from shared.scheduling.wait_queue import Entry, OtherMode, order_of

# A tier is a band of the queue for what is planned, and as many as there are priorities.
_BANDS: Final = 2 * MOST_PRIORITY + 2
_UNPLANNED: Final = -1
# `part_eff`, rank and tier on a lost cluster.
_LOST: Final = (inf, EXCLUDED, 0)
_evaluated = attrgetter("planned_j", "planned_s", "nodes", "share", "part_eff")


class Choice(NamedTuple):
    """A candidate among those that are there. `rank` is EXCLUDED where the job has no queue entry;
    `part_eff` is infinite where it does not fit and on a cluster that is lost. A plan gives it a
    `place` among what is planned in its tier, and may hold it back until `not_before_s`."""

    candidate: Candidate
    part_eff: float
    rank: int
    tier: int
    place: int = _UNPLANNED
    not_before_s: float = -inf

    @classmethod
    def as_evaluated(cls, candidate: Candidate) -> Self:
        """Return a candidate as it was ranked on arrival, while all clusters were there."""
        return cls(candidate, candidate.part_eff, candidate.rank, candidate.tier)

    @property
    def cluster(self) -> str:
        """Return the candidate's cluster."""
        return self.candidate.cluster

    @property
    def waits(self) -> bool:
        """Return whether the policy has an entry for this cluster."""
        return self.rank != EXCLUDED

    @property
    def is_planned(self) -> bool:
        """Return whether a plan has this choice."""
        return self.place != _UNPLANNED

    def planned(self, mode: PlannedMode, rank: int) -> "Choice":
        """Return the choice as a plan has it, with this rank among those of the plan."""
        at = rank, mode.tier, mode.place, mode.not_before_s
        return Choice(mode.candidate, self.part_eff, *at)

    def excluded(self) -> "Choice":
        """Return the choice without an entry in the queue."""
        return Choice(self.candidate, self.part_eff, EXCLUDED, self.tier)

    def entry(
        self, job: Job, arrival: int, kind: int, *, in_parts: bool, most_s: float = inf
    ) -> Entry:
        """Return the job's entry in the queue of this cluster: by (tier, priority, arrival, rank),
        and what is planned before what is not, by its place in the plan. It has no other modes of
        longer limits than `most_s`."""
        on, band = self.candidate, self.tier * _BANDS
        if self.is_planned:
            order = order_of(band, self.place, 0)
        else:
            order = order_of(band + 1 + MOST_PRIORITY - job.priority, arrival, self.rank)
        at = order, arrival, on.nodes, on.walltime_s
        slower = () if self.is_planned else on.slower or ()
        others = tuple(
            [OtherMode(m.walltime_s, m.draw_mw) for m in slower if m.walltime_s <= most_s]
        )
        return Entry(*at, in_parts, kind, on.draw_mw, others)


def preference(choice: Choice) -> tuple[bool, int, int]:
    """Return the sort key of a job's choices: where it would go first, first."""
    return not choice.waits, choice.tier, choice.rank


def favourite(choices: Iterable[Choice]) -> Choice:
    """Return the choice that a job would go to before all others."""
    return min(choices, key=preference)


Choices = tuple[Choice, ...]


class BootCost(NamedTuple):
    """What a job takes more where it needs more nodes than are on: of its time, s, and of energy
    for each node that boots, J."""

    on: int
    boot_s: float
    boot_energy_j: float


# Of the clusters that have nodes which are off or boot, by name.
Boots = tuple[tuple[str, BootCost], ...]
NO_BOOTS: Final[Boots] = ()


def boots_of(occupancy: Mapping[str, Occupancy]) -> Boots:
    """Return what nodes that are off cost on each cluster. It follows from what is declared of
    them alone, and not from what runs: so it holds until the next declaration."""
    return tuple(
        (name, BootCost(held.nodes - len(power.not_on), power.boot_s, power.boot_energy_j))
        for name, held in occupancy.items()
        if (power := held.power).not_on
    )


def as_planned(usual: Choices, modes: Mapping[str, PlannedMode]) -> Choices:
    """Return choices as a plan has them: the job waits for no cluster but those of the plan. They
    are the usual ones where the plan has none that is there."""
    places = sorted(modes[c.cluster].place for c in usual if c.waits and c.cluster in modes)
    if not places:
        return usual
    return tuple(
        [
            choice.planned(mode, places.index(mode.place))
            if choice.waits and (mode := modes.get(choice.cluster))
            else choice.excluded()
            for choice in usual
        ]
    )


def choices(
    jobs: Sequence[JobRecord], lost: Collection[str], ranking: Ranking, boots: Boots = NO_BOOTS
) -> list[Choices]:
    """Return the choices of each job, in the order of its candidates, EXCLUDED where lost.

    They are as evaluated where no cluster is lost and the job needs no node that is off, and where
    all are lost that the job fits on: it waits for the best of these. Thousands of jobs are ranked
    at once when a cluster is lost.
    """
    found: dict[int, Choices] = {}
    costs = dict(boots)
    for clusters, rows in _alike(jobs).items() if lost or boots else ():
        there = [column for column, name in enumerate(clusters) if name not in lost]
        is_whole = len(there) == len(clusters)
        anew = [row for row in rows if not is_whole or _boots_somewhere(jobs[row], costs)]
        if there and anew:
            ranked = _ranked([jobs[row] for row in anew], there, ranking, costs)
            found |= zip(anew, ranked, strict=True)
    return [found.get(row) or as_evaluated(job) for row, job in enumerate(jobs)]


def _boots_somewhere(job: JobRecord, costs: Mapping[str, BootCost]) -> bool:
    """Return whether a job needs nodes that are off, on a cluster."""
    return any(_lacking(each, costs) for each in job.evaluated.candidates)


def _lacking(candidate: Candidate, costs: Mapping[str, BootCost]) -> float:
    """Return how many nodes boot at least for a job on a cluster."""
    cost = costs.get(candidate.cluster)
    return max(0.0, candidate.nodes * candidate.share - cost.on) if cost is not None else 0.0


def _alike(jobs: Sequence[JobRecord]) -> dict[tuple[str, ...], list[int]]:
    """Return the rows of jobs that were evaluated on the same clusters, by these."""
    found: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, job in enumerate(jobs):
        found[tuple([c.cluster for c in job.evaluated.candidates])].append(row)
    return found


def as_evaluated(job: JobRecord) -> Choices:
    """Return a job's choices while all clusters are there."""
    return tuple(map(Choice.as_evaluated, job.evaluated.candidates))


def _ranked(
    jobs: Sequence[JobRecord],
    there: Sequence[int],
    by: Ranking,
    costs: Mapping[str, BootCost],
) -> list[Choices]:
    table = np.array(
        [[_evaluated(job.evaluated.candidates[column]) for column in there] for job in jobs]
    )
    planned_j, time_s, nodes, share, efficiency = np.moveaxis(table, 2, 0)
    energy_j = planned_j * more_nodes([job.job for job in jobs], nodes, share)
    if costs:
        boots = np.array([[_boot_of(job, column, costs) for column in there] for job in jobs])
        energy_j, time_s = energy_j + boots[:, :, 0], time_s + boots[:, :, 1]
    preferred = np.array([_preferred(job, there) for job in jobs])
    fits = np.isfinite(efficiency)
    efficiency, ranking = compare(energy_j, time_s, fits, *by, preferred)
    rows = zip(efficiency.tolist(), ranking.rank.tolist(), ranking.tier.tolist(), strict=True)
    return [_with(job, there, *row) for job, row in zip(jobs, rows, strict=True)]


def _boot_of(job: JobRecord, column: int, costs: Mapping[str, BootCost]) -> tuple[float, float]:
    """Return the energy and the time, J and s, that nodes of a job take to boot on a cluster."""
    candidate = job.evaluated.candidates[column]
    if not (lacking := _lacking(candidate, costs)):
        return 0.0, 0.0
    cost = costs[candidate.cluster]
    return lacking * cost.boot_energy_j, cost.boot_s


def _preferred(job: JobRecord, there: Sequence[int]) -> int:
    """Return the place among `there` of the reference cluster of a job of an unknown
    application."""
    if any(c.known for c in job.evaluated.candidates):
        return NO_PREFERENCE
    names = [job.evaluated.candidates[column].cluster for column in there]
    reference = job.job.reference_cluster
    return names.index(reference) if reference in names else NO_PREFERENCE


def _with(
    job: JobRecord,
    there: Sequence[int],
    efficiency: Sequence[float],
    rank: Sequence[int],
    tier: Sequence[int],
) -> Choices:
    if max(rank) == EXCLUDED:
        return as_evaluated(job)
    among = dict(zip(there, zip(efficiency, rank, tier, strict=True), strict=True))
    return tuple(
        [Choice(c, *among.get(column, _LOST)) for column, c in enumerate(job.evaluated.candidates)]
    )
