"""Settings of the node agent, read from COPLACE_AGENT_* and a few COPLACE_* variables."""

import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from coplace_agent.fields import Checked, Limits
from coplace_agent.model import OverheadBudget, Timing
from coplace_client.bounds import LENGTHS
from coplace_client.errors import RejectedError

PREFIX: Final = "COPLACE_AGENT_"
SHARED_PREFIX: Final = "COPLACE_"


@dataclass(frozen=True, slots=True)
class SharedSettings(Checked):
    """Settings that every process of Coplace has in the same variables. Raises RejectedError."""

    clock_tolerance_s: Annotated[float, Limits(above=0)] = 10.0
    """Larger steps of the clock are jumps."""
    clock_patience_s: Annotated[float, Limits(least=0)] = 60.0
    """After which a jump ends the process."""
    http_host: str = "127.0.0.1"
    """Where health and metrics are served."""
    http_port: Annotated[int, Limits(least=0, most=65535)] = 0
    """0 takes a free port and logs it."""
    log_level: Annotated[str, Limits(among=("debug", "info", "warning", "error"))] = "info"
    grpc_ca_file: Path | None = None
    """PEM that signs ingest's certificate."""
    grpc_cert_file: Path | None = None
    """PEM of our own certificate."""
    grpc_key_file: Path | None = None
    """PEM of its private key."""
    grpc_token_file: Path | None = None
    """File of our token, shown over TLS alone."""

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if (self.grpc_cert_file is None) != (self.grpc_key_file is None):
            raise RejectedError("grpc_cert_file", "needs grpc_key_file, and that needs it")
        if self.grpc_token_file and not self.grpc_ca_file:
            raise RejectedError("grpc_token_file", "needs grpc_ca_file: it is shown over TLS alone")
        for name in ("grpc_ca_file", "grpc_cert_file", "grpc_key_file", "grpc_token_file"):
            path = getattr(self, name)
            if path is not None and not path.is_file():
                raise RejectedError(name, "is not a file")


@dataclass(frozen=True, slots=True)
class AgentSettings(Checked):
    """Settings that only the agent has. Raises RejectedError."""

    ingest_address: str = "127.0.0.1:50051"
    """host:port of ingest."""
    source: Annotated[str, Limits(least=1, most=256)] = field(default_factory=socket.gethostname)
    """Of its events, such as SITE/CLUSTER/NODE; the host's name."""
    cluster: Annotated[str, Limits(most=256)] = ""
    """Of the node, whose power it then publishes."""
    node: Annotated[str, Limits(least=1, most=256)] = field(default_factory=socket.gethostname)
    """As the cluster declares it; the host's name."""
    node_model: Annotated[str, Limits(most=256)] = ""
    """As the cluster declares it."""
    node_cores: Annotated[int, Limits(least=1)] = field(default_factory=lambda: os.cpu_count() or 1)
    """That jobs share; all."""
    run_dir: Path = Path("/run/coplace-agent")
    """Of the jobs, and of what is paused: it is lost with a restart of the node."""
    spool_dir: Path = Path("/var/lib/coplace-agent")
    """Of what ingest has not yet acknowledged."""
    most_spool_mib: Annotated[int, Limits(least=1)] = 64
    """With so much unacknowledged nothing more is measured."""

    measurement_s: Annotated[float, Limits(above=0, most=1)] = 0.0032
    """S: one measurement."""
    measurements: Annotated[int, Limits(least=1, most=100)] = 1
    """K: measurements in a row."""
    period_s: Annotated[float, Limits(above=0, most=3600)] = 0.2
    """P: how long all jobs run between two shutters."""
    overhead: Annotated[float, Limits(above=0, most=0.3)] = 0.01
    """By how much pauses may lengthen runs, by equation 10: P and S give way."""
    least_measurement_s: Annotated[float, Limits(above=0)] = 0.0008
    """To which S gives way."""
    most_period_s: Annotated[float, Limits(above=0, most=3600)] = 2.0
    """To which P gives way first."""
    standstill_s: Annotated[float, Limits(above=0, most=0.1)] = 0.001
    """A job that does not stop within this time spoils the shutter."""
    most_pause_s: Annotated[float, Limits(above=0, most=10)] = 0.5
    """After so long the watchdog continues what is paused."""
    interval_s: Annotated[float, Limits(above=0, most=3600)] = 60.0
    """How often shutters are published, at the least."""
    look_s: Annotated[float, Limits(above=0, most=60)] = 1.0
    """How often it looks for new jobs."""

    sys_dir: Path = Path("/sys")
    """Where power meters, counters of energy and P-states are."""
    rest_power_w: Annotated[float, Limits(least=0, most=100000.0)] = 0.0
    """What the node draws beside what RAPL counts."""
    sample_s: Annotated[float, Limits(above=0, most=3600)] = 10.0
    """Time over which its power is a mean; published every INTERVAL_S."""
    signature_s: Annotated[float, Limits(above=0, most=3600)] = 60.0
    """So long a job has the node alone before it has one."""

    @property
    def timing(self) -> Timing:
        """Return S, K and P as wanted."""
        return Timing(self.measurement_s, self.measurements, self.period_s)

    @property
    def budget(self) -> OverheadBudget:
        """Return what overhead shutters may have, and between which bounds they are spaced."""
        return OverheadBudget(self.overhead, self.least_measurement_s, self.most_period_s)

    @property
    def most_shutters(self) -> int:
        """Return how many shutters one event may hold."""
        return LENGTHS["shutters"].most
