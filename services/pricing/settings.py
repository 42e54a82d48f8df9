"""Settings of pricing, read from COPLACE_PRICING_* environment variables."""

from decimal import Decimal
from typing import Final

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from shared.process.environment import EnvironmentSettings

_ONE_SU_PER_CORE_HOUR: Final = Decimal(1) / Decimal(3600)


class PricingSettings(EnvironmentSettings):
    """Settings that only pricing has."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_PRICING_", frozen=True)

    rate_su_per_core_s: Decimal = Field(
        _ONE_SU_PER_CORE_HOUR,
        ge=0,
        le=1000,
        description="L of equation 1: what a core second costs",
    )
    grace_s: float = Field(
        60.0,
        ge=0,
        description="How long a finish waits for its shutters where a clock closes the rounds",
    )
    remember_s: float = Field(
        7 * 86_400.0,
        gt=0,
        description="How long after a charge shutters that come late still make a new revision",
    )
