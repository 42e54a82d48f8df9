"""By what placement decides: the policy, its parameters and its limits."""

from dataclasses import dataclass

from shared.domain.cap_measures import Measure
from shared.domain.eamc_policy import Policy, Reading


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The policy, its parameters and limits; see RuleSettings."""

    policy: Policy = Policy.PRIORITY_INC_V
    t_weight: float = 1.0
    threshold: float = 0.35
    reading: Reading = Reading.DIMENSIONLESS
    max_slowdown: float = 1.25
    quantile: float = 0.5
    cap_counts_idle: bool = True
    start_timeout_s: float = 300.0
    most_missed_starts: int = 3
    most_requeues: int = 5
    most_node_failures: int = 3
    node_failure_window_s: float = 86_400.0
    most_applications: int = 10_000
    cap_slowdown: float = 1.0
    cap_measures: tuple[Measure, ...] = (Measure.LOWER_FREQUENCY, Measure.SUSPEND)
    action_timeout_s: float = 60.0
    cap_margin: float = 0.0
    cap_risk: float = 0.5
    cap_power_sd: float = 0.0
    cap_user_correlation: float = 0.0
    meter_silence_s: float = 600.0
    cap_sharing: bool = False
