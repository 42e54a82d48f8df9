"""By what placement decides: the policy, its parameters and its limits, each declared once.

Environment variables, `coplace policy`, checks, docs/policy-settings.md, the chart's schema and
that of forms follow from these fields: a new setting is one more of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from coplace_client.bounds import SLOWDOWN_RATIO, Bound
from shared.catalogue.setting import DeclaredSetting, setting, settings_of
from shared.domain.cap_measures import Measure
from shared.domain.eamc_policy import Policy, Reading
from shared.domain.queue_discipline import QueueDiscipline
from shared.domain.queue_order import QueueOrder
from shared.domain.runtimes import PASSING_SHARE, Runtimes

# As environment variables have them.
PREFIX: Final = "COPLACE_PLACEMENT_"
_DAY_S: Final = 86_400.0
_SECONDS: Final = (("us", 1e-6), ("ns", 1e-9))
_TIMEOUT_S: Final = Bound(
    0, 366 * _DAY_S, "s", "a year; 0 is at once, or never", (("ms", 1e-3), *_SECONDS)
)
_TRIES: Final = Bound(0, 1_000_000, "", "as attempts; 0 is any number")
# What a simulation of caps takes too.
CAP_MARGIN: Final = Bound(0, 0.5, "", "of a cap, kept free: none, to half of it")
CAP_RISK: Final = Bound(1e-6, 0.5, "", "one moment in a million above a cap, to as predicted")


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The settings of one region, as they are at a time."""

    policy: Policy = setting(
        Policy.PRIORITY_INC_V, "How clusters and frequencies are chosen (EAMC paper)"
    )
    t_weight: float = setting(
        1.0,
        "Weight of time against energy, equations 4 and 5",
        Bound(0, 1e6, "", "of time over energy: 0 counts energy alone"),
    )
    threshold: float = setting(
        0.35,
        "priority-inc-v: an entry this share above the job's best part_eff goes to the last tier",
        Bound(0, 1e6, "", "above the best part_eff: 0 counts the best cluster alone"),
    )
    reading: Reading = setting(
        Reading.DIMENSIONLESS,
        "What equations 4 and 5 and the threshold are taken to say (ADR 0003)",
    )
    order: QueueOrder = setting(
        QueueOrder.COPLACE,
        "What waits goes by tier, priority and arrival; manager: by the priorities that resource "
        "managers give, which change while jobs wait, and no plan applies (ADR 0142)",
    )
    discipline: QueueDiscipline = setting(
        QueueDiscipline.EASY,
        "What may pass an entry that waits: easy reserves for the first alone; slurm for all that "
        "begin within bf_window_s, on clusters that share no cap of power (ADR 0114, ADR 0164)",
    )
    runtimes: Runtimes = setting(
        Runtimes.REQUESTED,
        "easy: what passes an entry that waits is as in the queue; predicted: first the jobs that "
        "are the shortest by their users' last runs, on clusters whose jobs take whole nodes and "
        "that share no cap of power (ADR 0121)",
    )
    passing_share: float = setting(
        PASSING_SHARE,
        "predicted: the share of what the first that waits leaves of a cluster that may pass by "
        "predictions, since it was submitted (ADR 0129)",
        Bound(0, 1, "", "of a cluster: nothing, as easy by requests, to all that is left"),
    )
    bf_depth: int = setting(
        500,
        "slurm: the backfill scheduler looks at so many jobs (bf_max_job_test)",
        Bound(1, 1_000_000, "", "as jobs; the first alone, to more than wait"),
    )
    bf_window_s: float = setting(
        _DAY_S,
        "slurm: so far ahead it reserves (bf_window)",
        Bound(1, 366 * _DAY_S, "s", "a second, to a year", _SECONDS),
    )
    bf_interval_s: float = setting(
        30.0,
        "slurm: so long after a look comes the next, where anything changed (bf_interval)",
        Bound(1, _DAY_S, "s", "a second, to a day", _SECONDS),
    )
    bf_records: int = setting(
        0,
        "slurm: a look ends when its table of reservations has so many records; 0: never",
        Bound(0, 1_000_000, "", "as records; 0 is any number"),
    )
    max_slowdown: float = setting(
        1.25,
        "Most predicted T_co / T_solo that any job on a shared node may suffer; what jobs that "
        "share are guaranteed from their start (ADR 0070)",
        SLOWDOWN_RATIO,
    )
    quantile: float = setting(
        0.5,
        "Frequency, rank and limit follow the time and energy that are exceeded with the "
        "probability 1 - this",
        Bound(0.5, 0.999_999, "", "the median, to one run in a million that takes more"),
    )
    explore_share: float = setting(
        0.0,
        "The share of an application's energy that its jobs may cost more, in the mean, where they "
        "run at a second clock so that its own history counts (ADR 0108); 0: none does on purpose",
        Bound(0, 0.5, "", "of energy: nothing, to half as much again"),
    )
    cap_counts_idle: bool = setting(
        True,
        "The idle power of all nodes counts against caps of power; false: only what jobs draw "
        "beyond it",
    )
    cap_margin: float = setting(0.0, "The share of each cap of power that is kept free", CAP_MARGIN)
    cap_risk: float = setting(
        0.5,
        "The accepted probability that jobs together draw more than a cap, by the deviations that "
        "predictions carry (ADR 0055); 0.5: what is predicted counts",
        CAP_RISK,
    )
    cap_power_sd: float = setting(
        0.0,
        "How much runs of one application differ in what they draw, as the standard deviation of "
        "its logarithm: counts with that of each prediction where cap_risk is below 0.5",
        Bound(0, 1, "", "of a logarithm: all alike, to a third or three times it"),
    )
    cap_user_correlation: float = setting(
        0.0,
        "How much alike predictions of one user's jobs are wrong, as the correlation of their "
        "errors: counts where cap_risk is below 0.5; 0: each errs for itself, 1: all as one",
        Bound(0, 1, "", "of errors: each for itself, to all as one"),
    )
    cap_slowdown: float = setting(
        1.0,
        "Where a cap refuses a job at its own P-state it may start at a lower one that takes at "
        "most so many times as long; 1: it waits for watts",
        SLOWDOWN_RATIO,
    )
    cap_sharing: bool = setting(
        False,
        "What runs is clocked down where a job that waits for watts alone may start then, and that "
        "takes more off bounded slowdowns than it adds (ADR 0079)",
    )
    cap_measures: tuple[Measure, ...] = setting(
        (Measure.LOWER_FREQUENCY, Measure.SUSPEND),
        "What is done to running jobs, in this order, where a cap of power falls below what they "
        "draw: lower-frequency, suspend, end; empty: nothing",
    )
    action_timeout_s: float = setting(
        60.0,
        "Where an action is not answered within this, the measures go on to other jobs; it is "
        "never given up",
        _TIMEOUT_S,
    )
    action_retry_s: float = setting(
        600.0,
        "An action that was refused is not asked of the job again for so long, nor is power made "
        "free again for the same job",
        Bound(1, 366 * _DAY_S, "s", "a year; a round asks once", _SECONDS),
    )
    meter_silence_s: float = setting(
        600.0,
        "Where the meter of an allocated node is silent for so long, the nameplate power "
        "that its cluster declares counts under caps; 0: never does",
        _TIMEOUT_S,
    )
    start_timeout_s: float = setting(
        300.0,
        "A start that is not confirmed within this is revoked; 0: never is, since some resource "
        "managers do not report starts",
        _TIMEOUT_S,
    )
    most_missed_starts: int = setting(
        3,
        "A job of which so many starts were declined, unasked or after the time-out, is held; "
        "0: none is",
        _TRIES,
    )
    most_requeues: int = setting(5, "A job that was requeued so often is held; 0: none is", _TRIES)
    most_node_failures: int = setting(
        3,
        "A node that failed so often is drained; 0: none is",
        Bound(0, 100, "", "each is kept; 0 is any number"),
    )
    node_failure_window_s: float = setting(
        _DAY_S,
        "Failures of a node count for so long, and it is given last",
        Bound(1, 366 * _DAY_S, "s", "a year", _SECONDS),
    )
    most_applications: int = setting(
        10_000,
        "Signatures kept a node model; the oldest that no job needs are forgotten, and their "
        "applications are first runs again",
        Bound(1, 1e9, "", "one is kept in any case; more than there are programs"),
        at_start=True,
    )


SETTINGS: Final[Mapping[str, DeclaredSetting]] = settings_of(PolicySettings)
# What can be declared while placement runs.
DECLARABLE: Final[Mapping[str, DeclaredSetting]] = {
    name: each for name, each in SETTINGS.items() if not each.at_start
}


def variable(name: str) -> str:
    """Return the environment variable that a process is started with for a setting."""
    return f"{PREFIX}{name.upper()}"
