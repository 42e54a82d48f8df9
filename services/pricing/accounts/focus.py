"""Statements in the columns of FOCUS 1.2, the FinOps Open Cost and Usage Specification; as a page.

Times are ISO 8601 in UTC, costs are exact decimals in service units. `x_SlowedDownBy` is a column
of our own: the co-runners behind the difference of `ListCost` and `BilledCost`, the sum of the
parts."""

import html
from collections.abc import Iterator, Mapping
from decimal import Decimal

from services.pricing.accounts.statement import OPERATOR, Posting, SlowedBy, Statement
from shared.domain.times import in_utc

FocusValue = str | int | float | None | list[dict[str, str | int]]
FocusRow = Mapping[str, FocusValue]


def focus_rows(statement: Statement) -> Iterator[FocusRow]:
    """Yield a row for each posting."""
    for posting in statement.postings:
        yield _row(statement, posting)


def _row(statement: Statement, posting: Posting) -> FocusRow:
    entry = posting.entry
    cost, in_full = f"{posting.amount_su:f}", f"{posting.in_full_su:f}"
    core_h = Decimal(entry.cores) * Decimal(round(entry.runtime_s * 1e6)) / 3_600_000_000
    surcharge = posting.surcharge
    if surcharge is not None:
        core_h = Decimal(0)
    quantity = f"{-core_h if posting.is_reversal else core_h:.6f}"
    start_us = entry.started_at_us or entry.ended_at_us
    return {
        "BilledCost": cost,
        "BillingAccountId": OPERATOR,
        "BillingCurrency": "SU",
        "BillingPeriodEnd": _at(statement.until_us),
        "BillingPeriodStart": _at(statement.from_us),
        "ChargeCategory": "Adjustment" if posting.is_adjustment else "Usage",
        "ChargeClass": "Correction" if posting.is_adjustment else None,
        "ChargeDescription": _description(posting),
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodEnd": _at(entry.ended_at_us),
        "ChargePeriodStart": _at(start_us),
        "ConsumedQuantity": quantity,
        "ConsumedUnit": "core-hours",
        "ContractedCost": cost,
        "EffectiveCost": cost,
        "InvoiceIssuerName": OPERATOR,
        "ListCost": in_full,
        "PricingQuantity": quantity,
        "PricingUnit": "core-hours",
        "ProviderName": "Coplace",
        "PublisherName": "Coplace",
        "RegionId": entry.cluster,
        "ResourceId": surcharge.co_runner_job_id if surcharge else entry.job_id,
        "ResourceType": "Job",
        "ServiceCategory": "Compute",
        "ServiceName": "Batch jobs",
        "SkuId": entry.tariff or None,
        "SubAccountId": statement.account,
        "x_SlowedDownBy": [_part(each) for each in posting.slowed_by],
    }


def _description(posting: Posting) -> str:
    entry = posting.entry
    told = f"attempt {entry.attempt}, revision {entry.revision}, {entry.reason}"
    return f"surcharge: slowed down {entry.job_id}, {told}" if posting.surcharge else told


def _part(each: SlowedBy) -> dict[str, str | int]:
    return {
        "job": each.co_runner_job_id,
        "jobs": each.co_runners,
        "share": f"{each.share:f}",
        "discount_su": f"{each.discount_su:f}",
        "energy_j": f"{each.energy_j:f}",
    }


def page(statement: Statement) -> str:
    """Return the statement for people: one HTML page that loads nothing."""
    rows = "\n".join(_html_row(posting) for posting in statement.postings)
    account = html.escape(statement.account)
    period = f"{_at(statement.from_us)} to {_at(statement.until_us)}"
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Statement of {account}</title>
<style>body{{font-family:sans-serif}}td,th{{padding:.2em .8em;text-align:right}}
td:first-child,th:first-child{{text-align:left}}</style>
<h1>Statement of {account}</h1><p>{period}, service units</p>
<table><tr><th>job</th><th>cluster</th><th>revision</th><th>booked</th><th>reason</th>
<th>in full</th><th>price</th><th>slowed down by</th></tr>
<tr><td>opening balance</td><td></td><td></td><td></td><td></td><td></td>
<td>{statement.opening_su:f}</td><td></td></tr>
{rows}
<tr><th>closing balance</th><td></td><td></td><td></td><td></td><td></td>
<th>{statement.closing_su:f}</th><td></td></tr></table></html>
"""


def _html_row(posting: Posting) -> str:
    entry = posting.entry
    name = f"{entry.job_id} ({entry.attempt})" if entry.attempt > 1 else entry.job_id
    reason = entry.reason
    if posting.surcharge is not None:
        name, reason = posting.surcharge.co_runner_job_id, f"surcharge: slowed down {name}"
    if posting.is_adjustment:
        reason = f"{reason}, adjustment"
    cells = (
        name,
        entry.cluster,
        str(entry.revision),
        _at(posting.booked_at_us),
        reason,
        f"{posting.in_full_su:f}",
        f"{posting.amount_su:f}",
        "; ".join(map(_named, posting.slowed_by)),
    )
    return f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"


def _named(each: SlowedBy) -> str:
    who = each.co_runner_job_id or f"{each.co_runners} others"
    return f"{who}: {each.share * 100:.4f} %, {each.discount_su:f} SU, {each.energy_j:f} J"


def _at(time_us: int) -> str:
    return in_utc(time_us // 1_000_000)
