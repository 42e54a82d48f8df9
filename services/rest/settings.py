"""Settings of REST, read from COPLACE_REST_* environment variables, and where the services are."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from shared.process.environment import EnvironmentSettings


class ServiceAddresses(EnvironmentSettings):
    """Where the services answer over gRPC, in the variables that commands read too."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_", frozen=True)

    ingest_address: str = Field("127.0.0.1:50051", description="host:port of ingest")
    energy_address: str = Field("127.0.0.1:50052", description="host:port of energy-api")
    placement_address: str = Field("127.0.0.1:50053", description="host:port of placement")
    watch_address: str = Field("127.0.0.1:50054", description="host:port of watch")
    history_address: str = Field("127.0.0.1:50055", description="host:port of history")
    webhooks_address: str = Field("127.0.0.1:50056", description="host:port of webhooks")

    def of_services(self) -> dict[str, str]:
        """Return the addresses by the name of the gRPC service."""
        return {
            "coplace.v1.IngestService": self.ingest_address,
            "coplace.v1.EnergyService": self.energy_address,
            "coplace.v1.PlacementService": self.placement_address,
            "coplace.v1.WatchService": self.watch_address,
            "coplace.v1.HistoryService": self.history_address,
            "coplace.v1.WebhookService": self.webhooks_address,
        }


class RestSettings(EnvironmentSettings):
    """Settings that only REST has."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_REST_", frozen=True)

    host: str = Field("127.0.0.1", description="Address that HTTP listens on")
    port: int = Field(0, ge=0, le=65535, description="Its port; 0 takes a free one and logs it")
    docs: bool = Field(
        False, description="Show /docs, whose page loads its scripts from a public server"
    )
    most_calls: int = Field(
        256, gt=0, description="Requests that are answered at once; more are refused for now, 503"
    )
    most_streams: int = Field(
        256, gt=0, description="Streams of events that are open at once; more are refused, 503"
    )
    most_body_bytes: int = Field(
        4_194_304, gt=0, description="Largest body of a request; a larger one is refused, 413"
    )
    body_within_s: float = Field(
        30.0, gt=0, description="Time in which a body has to be there; a later one is refused, 408"
    )
    answered_within_s: float = Field(
        90.0, gt=60, description="Time that a service has for its answer, which may wait for 60 s"
    )
