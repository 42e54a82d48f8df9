"""Settings that every process shares, read from COPLACE_* environment variables."""

from functools import cache
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, FilePath, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from shared.domain.rounds import RoundSource
from shared.process.environment import EnvironmentSettings


class Settings(EnvironmentSettings):
    """One process's shared settings. Raises WrongSettingsError naming the variable."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_", frozen=True)

    kafka_bootstrap: str = Field("127.0.0.1:9092", description="Kafka brokers, host:port,...")
    redis_url: str = Field(
        "redis://127.0.0.1:6379/0",
        pattern=r"^(rediss?|unix)://",
        description="rediss:// speaks TLS",
    )
    namespace: str = Field(
        "",
        pattern=r"^[a-zA-Z0-9._-]*$",
        description="Prefix of topics, groups, transactional ids and Redis keys",
    )
    kafka_partitions: int = Field(
        0, ge=0, description="Kafka partitions of keyed topics; 0 takes what the topic files say"
    )
    max_message_bytes: int = Field(
        1_048_576,
        ge=1_048_576,
        description="Largest message that gRPC and topics accept; what stages write has to fit",
    )
    session_timeout_s: float = Field(
        10.0, gt=0, description="A silent group member loses its Kafka partitions after this"
    )
    quarantine_after: int = Field(
        3,
        ge=0,
        description="Failures or deaths at one place, each with a restart, after which their cause "
        "is isolated; 0: never, then they go on until an operator acts",
    )
    worker: str = Field(
        "",
        pattern=r"^[a-zA-Z0-9._-]*$",
        description="Name of this process among the workers of its service: restarted under it, "
        "the process has its Kafka partitions back at once; empty waits for the old session's end",
    )
    rounds: RoundSource = Field(
        RoundSource.CLOCK, description="What closes rounds: clock, or barriers in emulated runs"
    )
    round_period_s: float = Field(0.1, gt=0, description="Wall time of a round that a clock closes")

    clock_tolerance_s: float = Field(
        10.0,
        gt=0,
        description="Steps of the wall clock up to this are followed, and clocks of two machines "
        "may differ by it; a larger step is a jump, which no round follows",
    )
    clock_patience_s: float = Field(
        60.0, ge=0, description="A process whose clock jumped and is not back after this ends"
    )

    http_host: str = Field("127.0.0.1", description="Where health and metrics are served")
    http_port: int = Field(0, ge=0, le=65535, description="0 takes a free port and logs it")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least severe log line that is written"
    )
    otlp_endpoint: str = Field("", description="host:port of an OTLP gRPC collector for traces")
    trace_file: Path | None = Field(None, description="JSON lines file of spans, without collector")

    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="How to speak to Kafka"
    )
    kafka_ca_file: FilePath | None = Field(
        None, description="PEM that signs the brokers' certificates"
    )
    kafka_cert_file: FilePath | None = Field(None, description="PEM of our client certificate")
    kafka_key_file: FilePath | None = Field(None, description="PEM of its private key")
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "SCRAM-SHA-512", description="Used when the protocol is SASL_*"
    )
    kafka_sasl_username: str = Field("", description="Used when the protocol is SASL_*")
    kafka_sasl_password: SecretStr = Field(SecretStr(""), description="Its password")
    kafka_sasl_password_file: FilePath | None = Field(
        None, description="File of its password, read at each connection; goes before the password"
    )

    redis_username: str = Field("", description="User of Redis, where the URL names none")
    redis_password_file: FilePath | None = Field(
        None, description="File of its password, read at each connection; the URL has none then"
    )
    redis_ca_file: FilePath | None = Field(None, description="PEM that signs Redis's certificate")
    redis_cert_file: FilePath | None = Field(None, description="PEM of our client certificate")
    redis_key_file: FilePath | None = Field(None, description="PEM of its private key")

    grpc_cert_file: FilePath | None = Field(None, description="PEM of this process's certificate")
    grpc_key_file: FilePath | None = Field(None, description="PEM of its private key")
    grpc_ca_file: FilePath | None = Field(
        None, description="PEM that signs the other side's certificate; a server then demands one"
    )

    grpc_calls_per_client: int = Field(
        256,
        gt=0,
        description="Calls that one client of a server, by identity or else by address, may have "
        "open at once, and at most three quarters of all; more are RESOURCE_EXHAUSTED",
    )
    grpc_token_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Of a server beside its own port: there a token counts in place of a client "
        "certificate; 0: none",
    )
    grpc_token_file: FilePath | None = Field(
        None, description="File of our token, read at each call; shown over TLS alone"
    )

    @property
    def is_emulated(self) -> bool:
        """Return whether barriers close the rounds and therefore have to travel through every
        topic."""
        return self.rounds is RoundSource.BARRIERS

    @property
    def kafka_knows_its_clients(self) -> bool:
        """Return whether Kafka asks clients to authenticate, so that its access lists can keep
        others out."""
        return self.kafka_security_protocol.startswith("SASL_")

    @model_validator(mode="after")
    def _certificates_come_with_keys(self) -> Self:
        for user in ("kafka", "redis", "grpc"):
            cert, key = getattr(self, f"{user}_cert_file"), getattr(self, f"{user}_key_file")
            if (cert is None) != (key is None):
                raise ValueError(f"set both {user}_cert_file and {user}_key_file, or neither")
        return self

    @model_validator(mode="after")
    def _tokens_are_encrypted(self) -> Self:
        if self.grpc_token_file and not self.grpc_ca_file:
            raise ValueError("grpc_token_file needs grpc_ca_file: a token is shown over TLS alone")
        if self.grpc_token_port and not self.grpc_cert_file:
            raise ValueError("grpc_token_port needs grpc_cert_file: tokens come over TLS alone")
        return self

    @property
    def kafka_password(self) -> str:
        """Return the password of the SASL user as it is now. Raises OSError."""
        if self.kafka_sasl_password_file:
            return self.kafka_sasl_password_file.read_text().strip()
        return self.kafka_sasl_password.get_secret_value()

    @model_validator(mode="after")
    def _sasl_has_a_user(self) -> Self:
        if self.kafka_security_protocol.startswith("SASL_") and not self.kafka_sasl_username:
            protocol = f"kafka_security_protocol={self.kafka_security_protocol}"
            raise ValueError(f"kafka_sasl_username is needed by {protocol}")
        return self


@cache
def settings() -> Settings:
    """Return the process's settings, read from the environment once."""
    return Settings()
