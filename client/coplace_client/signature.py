"""Signatures: how an application behaves on a node model at one P-state."""

from dataclasses import dataclass

from coplace_client.bounds import QUANTITIES
from coplace_client.checks import require_text
from coplace_client.errors import Violations


@dataclass(frozen=True, slots=True)
class Signature:
    """The metrics that the EAR model starts from. Raises RejectedError on construction.

    `time_s` is one iteration; `power_w` one node used whole; `tpi` is in units of `tpi_scale`.
    """

    app_id: str
    node_model: str
    freq_ghz: float
    time_s: float
    power_w: float
    cpi: float
    tpi: float
    mem_gbps: float
    tpi_scale: str
    count: int = 1

    def __post_init__(self) -> None:
        wrong = Violations()
        for field in ("app_id", "node_model", "tpi_scale"):
            wrong.check(require_text, field, getattr(self, field))
        for field in ("freq_ghz", "time_s", "power_w", "cpi", "tpi", "mem_gbps", "count"):
            wrong.check(QUANTITIES[field].require, field, getattr(self, field))
        wrong.require_none()
