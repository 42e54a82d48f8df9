"""Settings of placement, read from COPLACE_PLACEMENT_* environment variables."""

from pydantic import Field

from shared.placement.settings import RuleSettings


class PlacementSettings(RuleSettings):
    """The rules, and how questions are answered. Raises WrongSettingsError naming the variable."""

    host: str = Field("127.0.0.1", description="Address that gRPC listens on")
    port: int = Field(0, ge=0, le=65535, description="Its port; 0 takes a free one and logs it")
    most_foreseen: int = Field(
        20_000,
        ge=1,
        description="Starts that the forecast for one question goes through; of a job behind these "
        "it says until when it does not start",
    )
