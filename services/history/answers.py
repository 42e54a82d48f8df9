"""Rows as the messages that answers are made of. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from coplace.v1.history_service_pb2 import (
    STORY_EVENT_CHARGED,
    STORY_EVENT_ENDED,
    STORY_EVENT_REQUEUED,
    STORY_EVENT_STARTED,
    STORY_EVENT_SUBMITTED,
    Account,
    AuditRecord,
    Change,
    Charge,
    Run,
    RunState,
    ShowStatementResponse,
    StatementLine,
    StoryLine,
)

from services.history.model import RunRow
from services.history.reading import StatementRows
from services.history.story import StoryRow, word_of
from shared.domain.money import su_text

_CHARGE_FIELDS: Final = (
    *("job_id", "attempt", "revision", "user", "account", "cluster", "reason", "cores"),
    *("runtime_s", "started_at_us", "ended_at_us", "charged_at_us", "booked_at_us", "tariff"),
    *("currency", "su_cost", "millicores"),
)
_RUN_FIELDS: Final = (
    *("job_id", "attempt", "state", "user", "account", "app_id", "cluster", "nodes", "freq_ghz"),
    *("submitted_at_us", "decided_at_us", "started_at_us", "ended_at_us", "energy_j"),
    *("ended_as", "exit_code", "signal"),
)
_AUDIT_FIELDS: Final = (
    *("who", "action", "about", "refused", "reason", "event_id", "door", "version", "at_us"),
)
_CHANGE_FIELDS: Final = ("subject", "before", "after", "result", "reason")
_JOULES_A_KWH: Final = 3.6e6
_US_AN_HOUR: Final = 3.6e9


def run_message(row: RunRow) -> Run:
    """Return a run."""
    found = Run(**{name: getattr(row, name) for name in _RUN_FIELDS})
    found.node_names.extend(row.node_names.split("\n") if row.node_names else ())
    found.reason = row.requeue_reason if row.requeued_at_us else row.reason
    if row.revision:
        found.price_su = su_text(row.price_micro_su)
        found.state_of_practice_su = su_text(row.in_full_micro_su)
    return found


def charge_message(row: Any, prefix: str = "") -> Charge:
    """Return a charge from a row, whose columns begin with a prefix."""
    found = Charge(**{name: row[prefix + name] for name in _CHARGE_FIELDS})
    found.price_su = su_text(row[f"{prefix}price_micro_su"])
    found.state_of_practice_su = su_text(row[f"{prefix}in_full_micro_su"])
    return found


def account_message(row: Any) -> Account:
    """Return an account."""
    return Account(
        account=row.account,
        charged_su=su_text(int(row.charged_micro_su)),
        allocated_su=row.allocated_su,
        reserved_su=row.reserved_su,
        standing=row.standing,
        changed_at_us=row.changed_at_us,
    )


def audit_message(row: Any, changes: Iterable[Any]) -> AuditRecord:
    """Return a record of the audit with what it set."""
    found = AuditRecord(**{name: getattr(row, name) for name in _AUDIT_FIELDS})
    found.changes.extend(
        Change(**{name: getattr(each, name) for name in _CHANGE_FIELDS}) for each in changes
    )
    return found


def statement_message(account: str, rows: StatementRows) -> ShowStatementResponse:
    """Return a statement with all its lines."""
    before, within = rows.before, rows.within
    return ShowStatementResponse(
        account=account,
        opening_su=su_text(before.amount_micro_su),
        closing_su=su_text(before.amount_micro_su + within.amount_micro_su),
        amount_su=su_text(within.amount_micro_su),
        in_full_su=su_text(within.in_full_micro_su),
        lines_in_period=within.lines,
        lines=[_line(row._mapping) for row in rows.lines],
    )


def _line(row: Any) -> StatementLine:
    return StatementLine(
        charge=charge_message(row, "charges_"),
        booked_at_us=row["postings_booked_at_us"],
        amount_su=su_text(row["postings_amount_micro_su"]),
        in_full_su=su_text(row["postings_in_full_micro_su"]),
        is_reversal=row["postings_is_reversal"],
        is_adjustment=row["postings_is_adjustment"],
        co_runner_job_id=row["postings_co_runner_job_id"],
    )


def story(
    runs: Iterable[RunRow], between: Iterable[StoryRow], charges: Iterable[Any]
) -> Sequence[StoryLine]:
    """Return what happened to a job, in order."""
    lines = [line for run in runs for line in _of_run(run)]
    lines += [
        StoryLine(at_us=row.at_us, attempt=row.attempt, event=row.event, details=row.details)  # type: ignore[arg-type]
        for row in between
    ]
    lines += [_charged(charge) for charge in charges]
    return sorted(lines, key=lambda line: (line.at_us, line.attempt, line.event))


def _of_run(run: RunRow) -> Iterator[StoryLine]:
    told = (
        (run.submitted_at_us, STORY_EVENT_SUBMITTED, f"{run.user} ({run.account})"),
        (run.started_at_us, STORY_EVENT_STARTED, _where(run)),
        (run.requeued_at_us, STORY_EVENT_REQUEUED, run.requeue_reason),
        (run.ended_at_us, STORY_EVENT_ENDED, _ended(run)),
    )
    for at_us, event, details in told:
        if at_us:
            yield StoryLine(at_us=at_us, attempt=run.attempt, event=event, details=details)


def _where(run: RunRow) -> str:
    clock = f" at {run.freq_ghz:g} GHz" if run.freq_ghz else ""
    return f"on {run.nodes} nodes of {run.cluster}{clock}"


def _ended(run: RunRow) -> str:
    state = word_of(RunState, run.state)
    ran_h = (run.ended_at_us - (run.started_at_us or run.ended_at_us)) / _US_AN_HOUR
    energy = f", {run.energy_j / _JOULES_A_KWH:.2f} kWh" if run.energy_j else ""
    return f"{state} after {ran_h:.2f} h{energy}"


def _charged(charge: Any) -> StoryLine:
    again = f" (revision {charge.revision})" if charge.revision > 1 else ""
    price, full = su_text(charge.price_micro_su), su_text(charge.in_full_micro_su)
    return StoryLine(
        at_us=charge.charged_at_us,
        attempt=charge.attempt,
        event=STORY_EVENT_CHARGED,
        details=f"{price} SU to {charge.account}, in full {full}{again}",
    )
