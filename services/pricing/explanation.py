"""A charge made again from its inputs: the finish of its attempt, all shutters, its tariff."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType

from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.pricing_pb2 import ChargeMade
from coplace.v1.tariffs_pb2 import TariffDeclared
from coplace.v1.telemetry_pb2 import ShuttersMeasured

from coplace_client.errors import UnusableError
from services.pricing.runs import CoRunTime, KeptRun, run_of_finish, time_together
from shared.catalogue.payloads.tariffs import tariff_of
from shared.domain.tariff import PriceTariff
from shared.models.shutters import Shutter, interference
from shared.pricing.charge import ChargeRevision, charge_message, end_of, usage_of
from shared.pricing.model import CoRun, evidence


def shutters_of(measured: ShuttersMeasured) -> list[Shutter]:
    """Return the shutters of one interval. Raises RejectedError."""
    return [Shutter(each.ipc_before, each.ipc_during, each.ipc_after) for each in measured.shutters]


def co_run_of(measured: ShuttersMeasured) -> CoRun:
    """Return the measurement reduced to what a price needs. Raises RejectedError."""
    return CoRun(
        measured.co_runner_job_id,
        measured.began_at_us,
        measured.ended_at_us,
        interference(shutters_of(measured)),
    )


@dataclass(frozen=True, slots=True)
class Explanation:
    """A charge, the shutters of its pairs by their events' ids, and what they give by the charge's
    own tariff as it was declared; None where it has none. Those that are `left_out` are of pairs
    of which the charge has no row."""

    charge: ChargeMade
    tariff: TariffDeclared | None
    measured: Mapping[str, ShuttersMeasured]
    left_out: Sequence[ShuttersMeasured]
    again: ChargeMade

    @property
    def is_reproduced(self) -> bool:
        """Return whether both prices and all evidence are the same to the last digit."""
        return self.again == self.charge


def explain_charge(
    charge: ChargeMade,
    finished: JobFinished,
    measured: Mapping[str, ShuttersMeasured],
    declared: Sequence[TariffDeclared] = (),
    beside: Mapping[str, Sequence[KeptRun]] = MappingProxyType({}),
) -> Explanation:
    """Make a charge again: `measured` has each event once, of the charge's attempt; `declared` all
    tariffs, and `beside` the runs of co-runners that are known. The charge names the accounts of
    the co-runners. Raises RejectedError, and UnusableError where the charge's tariff was never
    declared."""
    accounts = {row.co_runner_job_id: row.co_runner_account for row in charge.evidence}
    # A pair that was not together is not believed, and has no row; some rows are of several.
    believed = {
        name: each
        for name, each in measured.items()
        if each.co_runner_job_id in accounts or "" in accounts
    }
    co_runs = (
        replace(found, co_runner_account=accounts.get(found.co_runner_job_id, ""))
        for found in _within_runs(map(co_run_of, believed.values()), finished, beside)
    )
    rows = evidence(co_runs, usage_of(finished))
    tariff = _tariff_of(charge, declared)
    terms: Decimal | PriceTariff = (
        Decimal(charge.rate_su_per_core_s) if tariff is None else tariff_of(tariff)
    )
    end = replace(end_of(charge), finished=finished)
    made = ChargeRevision(charge.revision, charge.charged_at_us, charge.booked_at_us)
    again = charge_message(end, made, terms, rows)
    if not charge.HasField("finished"):
        _as_before_tariffs(again)
    left_out = [each for name, each in measured.items() if name not in believed]
    return Explanation(charge, tariff, believed, left_out, again)


def _within_runs(
    co_runs: Iterable[CoRun], finished: JobFinished, beside: Mapping[str, Sequence[KeptRun]]
) -> Iterator[CoRun]:
    """As far as both jobs ran; all of it where nothing is known of a co-runner any more."""
    run = run_of_finish(finished, None)
    for each in co_runs:
        measured = CoRunTime(each.began_at_us, each.ended_at_us)
        time = time_together(run, beside.get(each.co_runner_job_id, ()), measured) or measured
        yield replace(each, **time._asdict())


def _as_before_tariffs(charge: ChargeMade) -> None:
    """Charges of before tariffs were declared hold no more than this."""
    for name in ("model", "reason", "booked_at_us", "finished", "node_failed", "requeued"):
        charge.ClearField(name)


def _tariff_of(charge: ChargeMade, declared: Sequence[TariffDeclared]) -> TariffDeclared | None:
    if not charge.tariff:
        return None
    named = charge.tariff, charge.tariff_version
    found = next((each for each in declared if (each.name, each.version) == named), None)
    if found is None:
        raise UnusableError(f"tariff {charge.tariff!r}, version {named[1]}, was never declared")
    return found
