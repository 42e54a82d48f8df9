"""Settings of webhooks, read from COPLACE_WEBHOOKS_* environment variables."""

from pathlib import Path

from pydantic import Field, FilePath, model_validator
from pydantic_settings import SettingsConfigDict

from shared.process.environment import EnvironmentSettings


class WebhooksSettings(EnvironmentSettings):
    """Settings that only webhooks have."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_WEBHOOKS_", frozen=True)

    database: Path = Field(
        description="File of the SQLite database; its folder is there, on a local disk"
    )
    key_file: Path | None = Field(
        None,
        description="File of the key that all secrets follow from, made where it is missing; "
        "without it the database's name and .key",
    )
    host: str = Field("127.0.0.1", description="Address that gRPC listens on")
    port: int = Field(0, ge=0, le=65535, description="Its port; 0 takes a free one and logs it")
    most_calls: int = Field(
        64, gt=0, description="Calls that are answered at once; more are refused for now"
    )
    alerts_token_file: FilePath | None = Field(
        None, description="File of the bearer token of Alertmanager; without it none is listened to"
    )
    alerts_host: str = Field("127.0.0.1", description="Address that Alertmanager posts to")
    alerts_port: int = Field(
        0, ge=0, le=65535, description="Its port; 0 takes a free one and logs it"
    )
    allowed: str = Field(
        "",
        description="Hosts and networks that are posted to although they are not public, comma "
        "between",
    )
    allow_http: bool = Field(False, description="Post by http too, where anybody can read along")
    ca_file: FilePath | None = Field(
        None, description="PEM that signs certificates of receivers, beside what the system trusts"
    )
    timeout_s: float = Field(15.0, gt=0, le=60, description="Time that an attempt has, s")
    most_of_one_owner: int = Field(10, gt=0, description="Webhooks of one owner")
    most: int = Field(10_000, gt=0, description="Webhooks in all")
    most_waiting: int = Field(
        10_000, gt=0, description="Deliveries that wait for one webhook; more are given up"
    )
    most_failed: int = Field(
        10_000, gt=0, description="Deliveries that were given up, of one webhook; the newest stay"
    )
    at_once: int = Field(256, gt=0, description="Deliveries under way at once")
    at_once_failing: int = Field(
        64, gt=0, description="Of webhooks whose last attempt failed, beside these"
    )
    at_once_of_one: int = Field(4, gt=0, description="Deliveries of one webhook under way at once")
    delivered_kept_days: float = Field(
        7.0,
        gt=0,
        description="How long a delivery that was made is known, so that copies make none",
    )
    failed_kept_days: float = Field(
        30.0, gt=0, description="How long a delivery that was given up is kept"
    )
    disabled_after_days: float = Field(
        5.0, gt=0, description="A webhook that fails for so long is disabled"
    )
    old_secret_h: float = Field(
        24.0, ge=0, description="How long the secret before signs beside a new one, h"
    )
    budget_percent: int = Field(
        80, ge=1, le=100, description="Used share of an allocation that is posted, by default, %"
    )

    @model_validator(mode="after")
    def _fits(self) -> "WebhooksSettings":
        if self.at_once_of_one > self.at_once:
            raise ValueError("COPLACE_WEBHOOKS_AT_ONCE_OF_ONE must be at most _AT_ONCE")
        return self

    @property
    def key_path(self) -> Path:
        """Return the file of the key."""
        return self.key_file or Path(f"{self.database}.key")
