"""Which applications the threshold of PriorityInc-V demotes, and what each reading changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from lab.papers.placement.rows import WORKLOADS
from lab.simulation.epm import Epm
from lab.simulation.jobs import MODEL_JOBS, draw_apps
from lab.simulation.sweep import THRESHOLD
from shared.domain.eamc_policy import Policy, Reading
from shared.eamc.frequency import FrequencyRule, Weighing
from shared.eamc.ranking import is_demoted, rank_clusters
from shared.scheduling.workload import Floats, Ints, Mask

WEIGHINGS: Final = tuple(Weighing(weight, reading) for reading in Reading for weight in (1.0, 1.5))


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """What a reading makes of the applications: P-states, ranks (applications, clusters), by how
    much the worse cluster's part_eff is above the best, as a share and as it is, and whether
    that is too much, (applications,)."""

    freq_ghz: Floats
    rank: Ints
    share_above: Floats
    above: Floats
    demoted: Mask


def read(epm: Epm, weighing: Weighing) -> Read:
    """Return one reading of the equations with one weight."""
    found = epm.predict(FrequencyRule.MIN_DISTANCE, weighing)
    efficiency = found.part_eff(found.known, weighing)
    reading, policy = weighing.reading, Policy.PRIORITY_INC_V
    rank = rank_clusters(efficiency, policy, threshold=THRESHOLD, reading=reading).rank
    best, worst = efficiency.min(axis=1), efficiency.max(axis=1)
    return Read(
        freq_ghz=found.freq_ghz,
        rank=rank,
        share_above=worst / best - 1,
        above=worst - best,
        demoted=np.asarray(is_demoted(efficiency, rank, THRESHOLD, reading).any(axis=1)),
    )


def changed_shares(epm: Epm, weighing: Weighing, workload: str, seeds: Sequence[int]) -> Floats:
    """Return shares of the jobs whose P-state on some cluster, rank or tier differs from the
    default reading with the same weight, (3,)."""
    ours, theirs = read(epm, Weighing(weighing.t_weight)), read(epm, weighing)
    differs = np.stack(
        [
            (ours.freq_ghz != theirs.freq_ghz).any(axis=1),
            (ours.rank != theirs.rank).any(axis=1),
            ours.demoted != theirs.demoted,
        ]
    )
    drawn = [draw_apps(epm.best(), WORKLOADS[workload], seed, MODEL_JOBS) for seed in seeds]
    return np.asarray(differs[:, np.concatenate(drawn)].mean(axis=1))
