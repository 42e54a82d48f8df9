"""Settings of the watch service, read from COPLACE_WATCH_* environment variables."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from shared.process.environment import EnvironmentSettings


class WatchSettings(EnvironmentSettings):
    """Settings that only the watch service has."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_WATCH_", frozen=True)

    host: str = Field("127.0.0.1", description="Address that gRPC listens on")
    port: int = Field(0, ge=0, le=65535, description="Its port; 0 takes a free one and logs it")
    most_watchers: int = Field(
        2_000, gt=0, description="Watchers at once; more are RESOURCE_EXHAUSTED"
    )
    most_waiting: int = Field(
        1_000,
        gt=0,
        description="Decisions that wait for one watcher; one that falls further behind is ended "
        "with RESOURCE_EXHAUSTED and goes on by its cursor",
    )
    ring_mib: int = Field(
        64, gt=0, description="Memory for the newest decisions, by which watchers go on, MiB"
    )
    history_s: float = Field(
        600.0, ge=0, description="How old decisions are read again at the start, for these, s"
    )
    most_catch_ups: int = Field(
        4, gt=0, description="Watchers at once that read older decisions from Kafka; others wait"
    )
    heartbeat_s: float = Field(
        5.0, gt=0, le=10, description="After so long without a decision a watcher gets a cursor, s"
    )
    stalled_s: float = Field(
        60.0, gt=0, description="A watcher that takes nothing for so long is ended, s"
    )
    remember_days: float = Field(
        30.0, gt=0, description="For how long after its submission a job's user is known at a start"
    )
    ended_jobs_kept_s: float = Field(
        86_400.0, ge=0, description="How long after a job's end its user is known, s"
    )
    most_jobs: int = Field(
        500_000, gt=0, description="Jobs whose users are known; the longest unheard of leave first"
    )
