"""Settings of the history, read from COPLACE_HISTORY_* environment variables."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from shared.process.environment import EnvironmentSettings


class HistorySettings(EnvironmentSettings):
    """Settings that only the history has."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_HISTORY_", frozen=True)

    database: Path = Field(
        description="File of the SQLite database; its folder is there, on a local disk"
    )
    archive: str = Field(
        "", description="Folder or object store of the archive, for what topics have not any more"
    )
    host: str = Field("127.0.0.1", description="Address that gRPC listens on")
    port: int = Field(0, ge=0, le=65535, description="Its port; 0 takes a free one and logs it")
    most_calls: int = Field(
        64, gt=0, description="Questions that are answered at once; more are refused for now"
    )
