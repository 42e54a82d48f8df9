"""The rules that placement decides by, read from COPLACE_PLACEMENT_* environment variables.

A planner reads the same variables, so that its own fold of the inputs comes to the same state.
"""

from typing import Final

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import SettingsConfigDict

from coplace_client.bounds import QUANTITIES
from coplace_client.errors import RejectedError
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.cap_measures import measures_of
from shared.domain.eamc_policy import Policy, Reading
from shared.process.environment import EnvironmentSettings

_QUANTITIES: Final = (
    "t_weight",
    "threshold",
    "max_slowdown",
    "quantile",
    "cap_slowdown",
    "cap_margin",
    "cap_risk",
    "cap_power_sd",
    "cap_user_correlation",
    "action_timeout_s",
    "start_timeout_s",
    "most_missed_starts",
    "most_requeues",
    "most_node_failures",
    "node_failure_window_s",
    "meter_silence_s",
)


class RuleSettings(EnvironmentSettings):
    """Raises WrongSettingsError naming the variable."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_PLACEMENT_", frozen=True)

    policy: Policy = Field(
        Policy.PRIORITY_INC_V, description="How clusters and frequencies are chosen (EAMC paper)"
    )
    t_weight: float = Field(1.0, description="Weight of time against energy, equations 4, 5")
    threshold: float = Field(
        0.35, description="priority-inc-v: how far above the best part_eff is the last tier"
    )
    reading: Reading = Field(
        Reading.DIMENSIONLESS,
        description="What equations 4 and 5 and the threshold are taken to say, docs/adr/0003",
    )
    max_slowdown: float = Field(
        1.25, description="Most predicted T_co / T_solo that either job of a pair may suffer"
    )
    quantile: float = Field(
        0.5,
        description="Plan with the time and energy that are exceeded with the probability 1 - this",
    )
    cap_counts_idle: bool = Field(
        True,
        description="The idle power of all nodes counts against caps of power; false: only what "
        "jobs draw beyond it",
    )
    cap_slowdown: float = Field(
        1.0,
        description="Most predicted T / T(own P-state) of a lower P-state at which a job starts "
        "where a cap of power refuses its own; 1: it waits for watts at its own",
    )
    cap_margin: float = Field(0.0, description="The share of each cap of power that is kept free")
    cap_risk: float = Field(
        0.5,
        description="The accepted probability that jobs together draw more than a cap, by the "
        "deviations that predictions carry; 0.5: what is predicted counts",
    )
    cap_power_sd: float = Field(
        0.0,
        description="How much runs of one application differ in what they draw, as the standard "
        "deviation of its logarithm: counts with that of each prediction where a risk is set",
    )
    cap_user_correlation: float = Field(
        0.0,
        description="How much alike predictions of one user's jobs are wrong, as the correlation "
        "of their errors: counts where a risk is set; 0: each errs for itself, 1: all as one",
    )
    cap_measures: str = Field(
        "lower-frequency,suspend",
        description="What is done to jobs that run, in this order, where a cap of power falls "
        "below what they draw: lower-frequency, suspend, end; empty: nothing",
    )
    cap_sharing: bool = Field(
        False,
        description="What runs is clocked down where a job that waits for watts alone may start "
        "then, and that takes more off bounded slowdowns than it adds",
    )
    action_timeout_s: float = Field(
        60.0,
        description="Where an action is not answered within this, the measures go on to other jobs",
    )
    start_timeout_s: float = Field(
        300.0,
        description="A start that is not confirmed within this is asked back; 0: never is, since "
        "some resource managers do not report starts",
    )
    most_missed_starts: int = Field(
        3,
        description="A job of which so many starts were declined is held; 0: none is",
    )
    most_requeues: int = Field(
        5, description="A job that was put back so often is held; 0: none is"
    )
    most_node_failures: int = Field(
        3, description="A node that failed so often is drained; 0: none is"
    )
    node_failure_window_s: float = Field(
        86_400.0, description="Failures of a node count for so long, and it is given last"
    )
    meter_silence_s: float = Field(
        600.0,
        description="Where the meter of a node that a job holds is silent for so long, the "
        "nameplate power that its cluster declares counts under caps; 0: never does",
    )
    most_applications: int = Field(
        10_000,
        ge=1,
        description="Signatures kept a node model; the oldest that no job needs are forgotten, and "
        "their applications are first runs again",
    )
    remember_days: float = Field(
        7.0, gt=0, description="How long after its end came copies of a job's events are recognised"
    )

    @field_validator(*_QUANTITIES)
    @classmethod
    def _within(cls, value: float, info: ValidationInfo) -> float:
        """As of what is declared while placement runs."""
        assert info.field_name is not None
        try:
            QUANTITIES[info.field_name].require("", value)
        except RejectedError as error:
            raise ValueError(error.problem) from None
        return value

    @field_validator("cap_measures")
    @classmethod
    def _known(cls, value: str) -> str:
        measures_of(value)
        return value

    @property
    def rules(self) -> PolicySettings:
        """All but how long ended jobs are remembered."""
        return PolicySettings(
            policy=self.policy,
            t_weight=self.t_weight,
            threshold=self.threshold,
            reading=self.reading,
            max_slowdown=self.max_slowdown,
            quantile=self.quantile,
            cap_counts_idle=self.cap_counts_idle,
            cap_slowdown=self.cap_slowdown,
            cap_margin=self.cap_margin,
            cap_risk=self.cap_risk,
            cap_power_sd=self.cap_power_sd,
            cap_user_correlation=self.cap_user_correlation,
            cap_measures=measures_of(self.cap_measures),
            cap_sharing=self.cap_sharing,
            action_timeout_s=self.action_timeout_s,
            start_timeout_s=self.start_timeout_s,
            most_missed_starts=self.most_missed_starts,
            most_requeues=self.most_requeues,
            most_node_failures=self.most_node_failures,
            node_failure_window_s=self.node_failure_window_s,
            meter_silence_s=self.meter_silence_s,
            most_applications=self.most_applications,
        )
