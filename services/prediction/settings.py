"""Settings of prediction, read from COPLACE_PREDICTION_* environment variables."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from coplace_client.bounds import ALPHA
from shared.process.environment import EnvironmentSettings


class PredictionSettings(EnvironmentSettings):
    """Settings that only prediction has."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_PREDICTION_", frozen=True)

    alpha: float = Field(
        0.1,
        ge=ALPHA.least,
        le=0.4,
        description="The share of jobs that may draw more than the upper bound of their power",
    )
