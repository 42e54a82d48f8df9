"""Settings of the emulator, read from COPLACE_SIMULATION_* environment variables."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import SettingsConfigDict

from lab.emulator.effects import effects_without
from shared.process.environment import EnvironmentSettings


def _known(names: str) -> str:
    """Require that effects of these names exist."""
    effects_without(names)
    return names


class SimulationSettings(EnvironmentSettings):
    """Raises WrongSettingsError naming the variable."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_SIMULATION_", frozen=True)

    seed: int = Field(1, ge=0, description="Of the workload, the nodes and the noise")
    jobs: int = Field(1000, gt=0, description="How many jobs are submitted")
    swf: Path | None = Field(None, description="Log in the Standard Workload Format to replay")
    coefficients: Path | None = Field(
        None, description="Folder whose apps.csv names the TPI unit of imported coefficients"
    )
    reports: Path | None = Field(
        None, description="Folder of EAR's reports, NODE_MODEL.csv each, that are imported first"
    )
    round_s: float = Field(30.0, gt=0, description="Virtual time of a round")
    kill_at_limit: bool = Field(False, description="End jobs at their limit")
    mislabelled_share: float = Field(
        0.0, ge=0, le=1, description="Share of the jobs whose app_id is that of something else"
    )
    quarters_share: float = Field(
        0.25, ge=0, le=0.5, description="Share of the built-in jobs on quarters of nodes"
    )
    gpus_share: float = Field(
        0.05,
        ge=0,
        le=0.5,
        description="Share of the built-in jobs that need GPUs; p1 has some then",
    )
    thousandths_share: float = Field(
        0.0,
        ge=0,
        le=0.5,
        description="Share of the built-in jobs whose units are no whole cores",
    )
    partitions_share: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the built-in jobs that ask for partitions; clusters have some then",
    )
    reserved_share: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the built-in jobs that ask for a reservation; clusters have one and a"
        " maintenance then",
    )
    licensed_share: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the built-in jobs that need licences; clusters, their site and the"
        " region have some then",
    )
    timed_share: float = Field(
        0.0, ge=0, le=1, description="Share of the built-in jobs that say when they may start"
    )
    gangs_share: float = Field(
        0.0, ge=0, le=1, description="Share of the built-in jobs of several nodes that are gangs"
    )
    arrays_share: float = Field(
        0.0, ge=0, le=1, description="Share of the built-in jobs that are arrays of tasks"
    )
    interactive_share: float = Field(
        0.0, ge=0, le=1, description="Share of the built-in jobs that somebody waits for"
    )
    fair_share_every_s: float = Field(
        0.0,
        ge=0,
        description="Resource managers order their queues by fair share, anew so often; 0: never",
    )
    measured_after_s: float = Field(
        0.0, ge=0, description="Running jobs are measured so long after their start too; 0: never"
    )
    metered_every_s: float = Field(
        0.0, ge=0, description="Meters of nodes in use are read so often; 0: at the end of jobs"
    )
    nameplate_power_w: float = Field(
        0.0, ge=0, description="Declared of all nodes as the most that one draws; 0: not declared"
    )
    under_predicted_share: float = Field(
        0.0, ge=0, le=1, description="Share of the jobs that predictions are 40 % too low for"
    )
    without: Annotated[str, AfterValidator(_known)] = Field(
        "", description="Effects to leave out of what really happens, with commas between them"
    )
    caps: bool = Field(
        False, description="Operators cap the power of the first cluster and of the region"
    )
    planned: bool = Field(
        False,
        description="A planner is at work: each round waits for it too, and publishes its plan",
    )
    ingest_address: str = Field("127.0.0.1:50051", description="host:port of ingest's gRPC")
