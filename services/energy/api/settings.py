"""Settings of the energy API, read from COPLACE_ENERGY_API_* environment variables."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from shared.process.environment import EnvironmentSettings


class EnergyApiSettings(EnvironmentSettings):
    """Settings that only the energy API has."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_ENERGY_API_", frozen=True)

    host: str = Field("127.0.0.1", description="Address that gRPC listens on")
    port: int = Field(0, ge=0, le=65535, description="Its port; 0 takes a free one and logs it")
    most_points: int = Field(
        32_768,
        ge=1,
        description="Subjects x P-states of all node models in one call; 60 bytes a point must fit "
        "into what gRPC clients take, 4 MiB by default",
    )
