"""A charge made again from what was told: the finish of its attempt and all shutters."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.pricing_pb2 import ChargeMade
from coplace.v1.telemetry_pb2 import ShuttersMeasured

from services.pricing.charge import charge_message, usage_of
from services.pricing.model import CoRun, evidence
from shared.models.shutters import Shutter, interference


def shutters_of(measured: ShuttersMeasured) -> list[Shutter]:
    """The shutters of one interval. Raises RejectedError."""
    return [Shutter(each.ipc_before, each.ipc_during, each.ipc_after) for each in measured.shutters]


def co_run_of(measured: ShuttersMeasured) -> CoRun:
    """The measurement reduced to what a price needs. Raises RejectedError."""
    return CoRun(
        measured.co_runner_job_id,
        measured.began_at_us,
        measured.ended_at_us,
        interference(shutters_of(measured)),
    )


@dataclass(frozen=True, slots=True)
class Explanation:
    """A charge, the shutters of its attempt by their events' ids, and what they come to by the
    charge's own tariff."""

    charge: ChargeMade
    measured: Mapping[str, ShuttersMeasured]
    again: ChargeMade

    @property
    def is_reproduced(self) -> bool:
        """Whether both prices and all evidence are the same to the last digit."""
        return self.again == self.charge


def explained(
    charge: ChargeMade, finished: JobFinished, measured: Mapping[str, ShuttersMeasured]
) -> Explanation:
    """`measured` has each event once, of the charge's attempt. Raises RejectedError."""
    rows = evidence(map(co_run_of, measured.values()), usage_of(finished))
    rate = Decimal(charge.rate_su_per_core_s)
    again = charge_message(finished, charge.revision, rate, rows, charge.charged_at_us)
    return Explanation(charge, measured, again)
