"""Settings of the energy service, read from COPLACE_ENERGY_* environment variables."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class EnergySettings(BaseSettings):
    """Raises pydantic.ValidationError naming the field."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_ENERGY_", frozen=True)

    coefficients: Path | None = Field(
        None, description="Folder of published coefficients to use instead of learning"
    )
