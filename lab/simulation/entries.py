"""Jobs and predictions as the entries that a timeline plays."""

from dataclasses import dataclass, replace

import numpy as np

from coplace_client.errors import UnusableError
from lab.simulation.epm import Epm, EpmPredictions, SlowerModes
from lab.simulation.jobs import SubmittedJobs
from lab.simulation.policy import SimulatedPolicy, order_of
from lab.simulation.system import System
from shared.domain.eamc_policy import Policy
from shared.eamc.frequency import FrequencyRule, Weighing
from shared.eamc.ranking import FREQUENCY_RULES, compare
from shared.replay.played import Traits
from shared.scheduling.workload import Floats, Ints, Mask, OtherModes, Schedule, Workload


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """What decides: a policy, its weights, the threshold of PriorityInc-V, and how much longer a
    job may take at a lower P-state where a cap refuses its own."""

    policy: SimulatedPolicy
    weighing: Weighing
    threshold: float
    kill_at_limit: bool
    cap_slowdown: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """What is played: jobs that fit on some cluster, and their numbers `job_id` (jobs,);
    `left_out` counts the others. `others_ghz` are the P-states of the workload's other modes."""

    workload: Workload
    traits: Traits
    job_id: Ints
    left_out: int
    others_ghz: Floats | None = None

    def started(self, schedule: Schedule) -> "Entries":
        """Return the entries in the mode in which each job ran, on the cluster where it did."""
        work, others, others_ghz = self.workload, self.workload.others, self.others_ghz
        if schedule.mode is None or others is None or others_ghz is None:
            return self
        [slowed] = np.nonzero(schedule.mode)
        ran = slowed, schedule.cluster[slowed]
        mode = (*ran, schedule.mode[slowed] - 1)
        return replace(
            self,
            workload=replace(
                work,
                limit_s=_with(work.limit_s, ran, others.limit_s[mode]),
                run_s=_with(work.run_s, ran, others.run_s[mode]),
                power_w=_with(work.power_w, ran, others.power_w[mode]),
            ),
            traits=replace(
                self.traits, freq_ghz=_with(self.traits.freq_ghz, ran, others_ghz[mode])
            ),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Offers:
    """Jobs on clusters, each (jobs, clusters)."""

    units: Ints
    power_w: Floats
    predictions: EpmPredictions
    eligible: Mask


def entries_of(
    system: System, epm: Epm, submitted: SubmittedJobs, app: Ints, choice: PolicyChoice
) -> Entries:
    """Return the entries of jobs that run the applications `app` (jobs,).

    A job has none on a cluster that it is too large for, that does not know its application, or
    whose caps leave less than it draws in every mode. Its times are those on the reference cluster
    times the ratio of the application's. Raises UnusableError where no job fits anywhere.
    """
    rule = _rule(choice.policy)
    slower = epm.slower(rule, choice.weighing, choice.cap_slowdown).of(app)
    offers = _offers(system, submitted, epm.predict(rule, choice.weighing).of(app), slower)
    kept = offers.eligible.any(axis=1)
    if not kept.any():
        raise UnusableError("no job fits on any cluster: look at sizes, applications and caps")
    # Without a ranking clusters are taken as they are declared, which Min_runtime does too.
    ranking = choice.policy.ranking or Policy.MIN_RUNTIME
    by = ranking, choice.weighing, choice.threshold
    predictions = offers.predictions
    _, rank = compare(predictions.energy_j, predictions.time_s, offers.eligible, *by)
    ratio = predictions.time_ratio
    limit_s = submitted.jobs.requested_s[:, np.newaxis] * ratio
    run_s = submitted.jobs.run_s[:, np.newaxis] * ratio
    ratios = slower.time_ratio[kept]
    workload = Workload(
        submit_s=submitted.jobs.submit_s[kept],
        order=order_of(choice.policy, rank.rank[kept], rank.tier[kept], limit_s[kept]),
        units=offers.units[kept],
        limit_s=limit_s[kept],
        run_s=run_s[kept],
        power_w=offers.power_w[kept],
        others=OtherModes(
            limit_s=limit_s[kept][..., np.newaxis] * ratios,
            run_s=run_s[kept][..., np.newaxis] * ratios,
            power_w=offers.power_w[kept][..., np.newaxis] * slower.power_ratio[kept],
        )
        if choice.cap_slowdown > 1
        else None,
    )
    traits = Traits(
        freq_ghz=offers.predictions.freq_ghz[kept],
        best=_best(epm, app, offers.eligible, choice.weighing)[kept],
        app=app[kept],
        apps=epm.apps,
    )
    played = workload.killed_at_limit() if choice.kill_at_limit else workload
    left_out = int((~kept).sum())
    return Entries(played, traits, submitted.job_id[kept], left_out, slower.freq_ghz[kept])


def _rule(policy: SimulatedPolicy) -> FrequencyRule:
    ranking = policy.ranking
    return FrequencyRule.NOMINAL if ranking is None else FREQUENCY_RULES[ranking]


def _offers(
    system: System, submitted: SubmittedJobs, predictions: EpmPredictions, slower: SlowerModes
) -> _Offers:
    size = submitted.jobs.nodes
    units = np.stack([c.units_for(size, submitted.counts) for c in system.clusters], axis=1)
    per_node = np.array([cluster.units_per_node for cluster in system.clusters])
    power_w = predictions.node_w * (units / per_node)
    fits = units <= [cluster.units for cluster in system.clusters]
    least_w = power_w * slower.least_power_ratio
    beyond_w = least_w - np.fmin(units * [pool.idle_w for pool in system.pools], least_w)
    under_cap = np.rint(1000 * beyond_w) <= system.left_mw
    return _Offers(units, power_w, predictions, predictions.known & fits & under_cap)


def _with(column: Floats, at: tuple[Ints, Ints], values: Floats) -> Floats:
    changed = column.copy()
    changed[at] = values
    return changed


def _best(epm: Epm, app: Ints, eligible: Mask, weighing: Weighing) -> Ints:
    """The cluster of the least part_eff at EAMC's P-states, whatever the policy chose, (jobs,)."""
    predictions = epm.predict(FrequencyRule.MIN_DISTANCE, weighing).of(app)
    return np.asarray(predictions.part_eff(eligible, weighing).argmin(axis=1), dtype=np.int64)
