"""The rate by which is charged while no tariff is in force, read from the environment."""

from decimal import Decimal
from typing import Final

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from shared.process.environment import EnvironmentSettings

_ONE_SU_PER_CORE_HOUR: Final = Decimal(1) / Decimal(3600)


class RateSettings(EnvironmentSettings):
    """What pricing charges by, and placement quotes by, without a tariff."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_PRICING_", frozen=True)

    rate_su_per_core_s: Decimal = Field(
        _ONE_SU_PER_CORE_HOUR,
        ge=0,
        le=1000,
        description="L of equation 1: what a core second costs",
    )
