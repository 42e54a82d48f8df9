"""Settings of the node agent, read from COPLACE_AGENT_* environment variables."""

import os
import socket
from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from services.agent.model import OverheadBudget, Timing
from shared.domain.bounds import LENGTHS
from shared.runtime.environment import EnvironmentSettings


class AgentSettings(EnvironmentSettings):
    """What only the agent needs to be told. Raises WrongSettingsError naming the variable."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_AGENT_", frozen=True)

    ingest_address: str = Field("127.0.0.1:50051", description="host:port of ingest")
    source: str = Field(
        default_factory=socket.gethostname,
        min_length=1,
        max_length=256,
        description="Of its events, such as SITE/CLUSTER/NODE; the host's name",
    )
    cluster: str = Field("", max_length=256, description="Of the node, whose power it then tells")
    node: str = Field(
        default_factory=socket.gethostname,
        min_length=1,
        max_length=256,
        description="As the cluster declares it; the host's name",
    )
    node_model: str = Field("", max_length=256, description="As the cluster declares it")
    node_cores: int = Field(
        default_factory=lambda: os.cpu_count() or 1, ge=1, description="That jobs share; all"
    )
    run_dir: Path = Field(
        Path("/run/coplace-agent"),
        description="Of the jobs, and of what is paused: gone with a restart of the node",
    )
    spool_dir: Path = Field(
        Path("/var/lib/coplace-agent"), description="Of what ingest has not yet acknowledged"
    )
    most_spool_mib: int = Field(
        64, ge=1, description="With so much unacknowledged nothing more is measured"
    )

    measurement_s: float = Field(0.0032, gt=0, le=1, description="S: one measurement")
    measurements: int = Field(1, ge=1, le=100, description="K: measurements in a row")
    period_s: float = Field(
        0.2, gt=0, le=3600, description="P: how long all jobs run between two shutters"
    )
    overhead: float = Field(
        0.01,
        gt=0,
        le=0.3,
        description="By how much pauses may lengthen runs, by equation 10: P and S give way",
    )
    least_measurement_s: float = Field(0.0008, gt=0, description="To which S gives way")
    most_period_s: float = Field(2.0, gt=0, le=3600, description="To which P gives way first")
    standstill_s: float = Field(
        0.001, gt=0, le=0.1, description="What does not stand still within spoils the shutter"
    )
    most_pause_s: float = Field(
        0.5, gt=0, le=10, description="After so long the watchdog continues what is paused"
    )
    interval_s: float = Field(
        60.0, gt=0, le=3600, description="How often shutters are told, at the least"
    )
    look_s: float = Field(1.0, gt=0, le=60, description="How often it looks for new jobs")

    sys_dir: Path = Field(
        Path("/sys"), description="Where power meters, counters of energy and P-states are"
    )
    rest_power_w: float = Field(
        0.0, ge=0, le=1e5, description="What the node draws beside what RAPL counts"
    )
    sample_s: float = Field(
        10.0, gt=0, le=3600, description="Over so long its power is a mean; told by INTERVAL_S"
    )
    signature_s: float = Field(
        60.0, gt=0, le=3600, description="So long a job has the node alone before it has one"
    )

    @property
    def timing(self) -> Timing:
        """S, K and P as wanted."""
        return Timing(self.measurement_s, self.measurements, self.period_s)

    @property
    def budget(self) -> OverheadBudget:
        """What overhead shutters may have, and between which bounds they are spaced."""
        return OverheadBudget(self.overhead, self.least_measurement_s, self.most_period_s)

    @property
    def most_shutters(self) -> int:
        """How many shutters one event may hold."""
        return LENGTHS["shutters"].most
