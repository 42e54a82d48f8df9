"""Settings of the energy service, read from COPLACE_ENERGY_* environment variables."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from services.energy.advice import AdvicePolicy, AdviceRule
from shared.eamc.to_solution import MIN_ENERGY_THRESHOLD, MIN_TIME_THRESHOLD
from shared.process.environment import EnvironmentSettings


class EnergySettings(EnvironmentSettings):
    """Raises WrongSettingsError naming the variable."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_ENERGY_", frozen=True)

    coefficients: Path | None = Field(
        None, description="Folder of published coefficients to use instead of learning"
    )
    adapt_after: int = Field(
        10,
        ge=0,
        description="Runs compared with their projection until coefficients are published anew; "
        "0: they stay those of the learning phase",
    )
    advice_rule: AdviceRule = Field(
        AdviceRule.MIN_DISTANCE, description="How the frequency of a running job is advised"
    )
    advice_t_weight: float = Field(
        1.0, ge=0, description="min-distance: weight of time against energy, equation 4"
    )
    advice_min_energy_threshold: float = Field(
        MIN_ENERGY_THRESHOLD, ge=0, description="min-energy-to-solution: share of time it may add"
    )
    advice_min_time_threshold: float = Field(
        MIN_TIME_THRESHOLD, ge=0, description="min-time-to-solution: time gain per clock gain"
    )
    misuse_half_life_days: float = Field(
        30.0, gt=0, description="After this a user's mismatch counts half"
    )
    advice_remember_s: float = Field(
        3600.0, ge=0, description="How long after its end what is measured of a job still counts"
    )

    @property
    def advice(self) -> AdvicePolicy:
        """Return the policy of the advisor."""
        return AdvicePolicy(
            self.advice_rule,
            self.advice_t_weight,
            self.advice_min_energy_threshold,
            self.advice_min_time_threshold,
        )
