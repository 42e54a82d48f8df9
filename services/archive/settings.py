"""Settings of the archive, read from COPLACE_ARCHIVE_* environment variables."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from shared.process.environment import EnvironmentSettings


class ArchiveSettings(EnvironmentSettings):
    """Settings that only the archive has."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_ARCHIVE_", frozen=True)

    where: str = Field(
        min_length=1, description="A folder, or an object store: s3://bucket/prefix?region=..."
    )
    topics: str = Field(
        # What led to decisions, and all that the history is built from.
        "placement.inputs,jobs.events,placement.decisions,prices.charges,accounts.standings,"
        "commands,billing,authority,command.outcomes,audit",
        pattern=r"^[a-z][a-z0-9._]*(,[a-z][a-z0-9._]*)*$",
        description="What is archived, by commas",
    )
    tail_s: float = Field(
        60.0,
        gt=0,
        description="After so long records that do not fill a file yet are written too, s",
    )
    retention_days: float = Field(
        0.0, ge=0, description="Files whose records are all older are removed; 0: none ever is"
    )

    @property
    def topic_names(self) -> tuple[str, ...]:
        """Return each topic once."""
        return tuple(dict.fromkeys(self.topics.split(",")))
