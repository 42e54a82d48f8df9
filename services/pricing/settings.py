"""Settings of pricing, read from COPLACE_PRICING_* environment variables."""

from pydantic import Field

from shared.pricing.settings import RateSettings


class PricingSettings(RateSettings):
    """Settings that only pricing has, beside the rate."""

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
