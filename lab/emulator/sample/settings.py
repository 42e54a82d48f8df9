"""Settings of the sample, read from COPLACE_SAMPLE_* environment variables."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from shared.process.environment import EnvironmentSettings


class SampleSettings(EnvironmentSettings):
    """Raises WrongSettingsError naming the variable."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_SAMPLE_", frozen=True)

    begun_at_us: int = Field(
        gt=0, description="When its jobs are submitted, microseconds since 1970: names them too"
    )
    ingest_address: str = Field("127.0.0.1:50051", description="host:port of ingest's gRPC")
    watch_address: str = Field("127.0.0.1:50054", description="host:port that streams decisions")
