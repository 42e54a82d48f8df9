"""Settings of the history, read from COPLACE_HISTORY_* environment variables."""

from typing import Final

from pydantic import Field, FilePath, field_validator
from pydantic_settings import SettingsConfigDict

from shared.process.environment import EnvironmentSettings

_POSTGRESQL: Final = "postgresql://"


class DatabaseSettings(EnvironmentSettings):
    """Where the rows are, for the history and for commands."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_HISTORY_", frozen=True)

    database: str = Field(
        min_length=1,
        description="File of the SQLite database, whose folder is there, on a local disk; or "
        "postgresql://user@host:port/database",
    )
    database_password_file: FilePath | None = Field(
        None, description="File of PostgreSQL's password, read for each connection"
    )
    archive: str = Field(
        "", description="Folder or object store of the archive, for what topics have not any more"
    )

    @field_validator("database")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if "://" in value and not value.startswith(_POSTGRESQL):
            raise ValueError(f"must be a file, or {_POSTGRESQL}user@host:port/database")
        return value


class HistorySettings(DatabaseSettings):
    """Settings that only the history has."""

    host: str = Field("127.0.0.1", description="Address that gRPC listens on")
    port: int = Field(0, ge=0, le=65535, description="Its port; 0 takes a free one and logs it")
    most_calls: int = Field(
        64, gt=0, description="Questions that are answered at once; more are refused for now"
    )
