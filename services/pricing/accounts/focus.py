"""Statements in the columns of FOCUS 1.2, the FinOps Open Cost and Usage Specification; as a page.

A job is priced in service units, the pricing currency, and billed in the national currency that its
tariff declares. Where that declares none, costs are in service units and `BillingCurrency` is
empty: FOCUS demands a national currency, so that such rows are not of FOCUS.

Times are ISO 8601 in UTC, costs exact decimals. `x_SlowedDownBy` is a column of our own: the
co-runners behind the difference of `PricingQuantity` and `PricingCurrencyEffectiveCost`, the sum of
the parts.
"""

import html
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Final

from coplace_client.millicores import exact_cores, millicores
from services.pricing.accounts.statement import (
    OPERATOR,
    ChargeEntry,
    Posting,
    SlowedBy,
    Statement,
)
from shared.domain.times import in_utc

FocusValue = str | int | float | None | list[dict[str, str | int]]
FocusRow = Mapping[str, FocusValue]

SERVICE_UNIT: Final = "SU"
# 18 digits times 18 digits: no product is rounded.
_EXACT: Final = Context(prec=40)
# The end of the year 9999, behind which no month begins.
_LAST_US: Final = 253_402_300_799_000_000
# What is priced by the rate of a core and second alone.
_UNRATED: Final = "core-seconds"


def focus_rows(statement: Statement) -> Iterator[FocusRow]:
    """Yield a row for each posting."""
    for posting in statement.postings:
        yield _row(statement, posting)


def unbilled(statement: Statement) -> int:
    """Return how many postings are of tariffs that name no currency."""
    return sum(not posting.entry.currency for posting in statement.postings)


def _row(statement: Statement, posting: Posting) -> FocusRow:
    entry, surcharge = posting.entry, posting.surcharge
    unit_cost = entry.su_cost if entry.currency else Decimal(1)
    cost, in_full = (
        _decimal(_EXACT.multiply(su, unit_cost)) for su in (posting.amount_su, posting.in_full_su)
    )
    begin_us, end_us = billing_period(posting.booked_at_us, statement.closed_us)
    return {
        "BilledCost": cost,
        "BillingAccountId": OPERATOR,
        "BillingAccountName": OPERATOR,
        "BillingAccountType": "Operator",
        "BillingCurrency": entry.currency or None,
        "BillingPeriodEnd": _at(end_us),
        "BillingPeriodStart": _at(begin_us),
        "ChargeCategory": "Usage",
        "ChargeClass": "Correction" if posting.is_correction else None,
        "ChargeDescription": _description(posting),
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodEnd": _at(entry.ended_at_us),
        "ChargePeriodStart": _at(entry.started_at_us or entry.ended_at_us),
        # None is bought: whether a quantity may be empty depends on it.
        "CommitmentDiscountStatus": None,
        "ConsumedQuantity": f"{core_hours(posting):.6f}",
        "ConsumedUnit": "Core-Hours",
        "ContractedCost": in_full,
        "ContractedUnitPrice": _decimal(unit_cost),
        "EffectiveCost": cost,
        "InvoiceId": f"{statement.account}/{_at(begin_us)}",
        "InvoiceIssuerName": OPERATOR,
        "ListCost": in_full,
        "ListUnitPrice": _decimal(unit_cost),
        "PricingCategory": "Standard",
        "PricingCurrency": SERVICE_UNIT,
        "PricingCurrencyContractedUnitPrice": "1.0",
        "PricingCurrencyEffectiveCost": _decimal(posting.amount_su),
        "PricingCurrencyListUnitPrice": "1.0",
        "PricingQuantity": _decimal(posting.in_full_su),
        "PricingUnit": SERVICE_UNIT,
        "ProviderName": OPERATOR,
        "PublisherName": "Coplace",
        "RegionId": entry.cluster or None,
        "RegionName": entry.cluster or None,
        "ResourceId": surcharge.co_runner_job_id if surcharge else entry.job_id,
        "ResourceName": None,
        "ResourceType": "Job",
        "ServiceCategory": "Compute",
        "ServiceName": "Batch jobs",
        "ServiceSubcategory": "Other (Compute)",
        "SkuId": f"batch-jobs/{entry.tariff.rpartition('/')[0] or _UNRATED}",
        "SkuMeter": "Service units of jobs",
        "SkuPriceDetails": None,
        "SkuPriceId": entry.tariff or _UNRATED,
        "SubAccountId": statement.account,
        "SubAccountName": statement.account,
        "SubAccountType": "Account",
        "x_SlowedDownBy": [_part(each) for each in posting.slowed_by],
    }


def billing_period(booked_us: int, closed_us: Sequence[int]) -> tuple[int, int]:
    """Return the period that something is billed in: a calendar month in UTC, cut where a period
    was closed within it."""
    month = datetime.fromtimestamp(booked_us // 1_000_000, UTC).replace(
        day=1, hour=0, minute=0, second=0
    )
    begin_us = round(month.timestamp() * 1e6)
    following = (month + timedelta(days=31)).replace(day=1) if month.year < 9999 else None
    end_us = round(following.timestamp() * 1e6) if following else _LAST_US
    place = bisect_right(closed_us, booked_us)
    before = closed_us[place - 1] if place else 0
    after = closed_us[place] if place < len(closed_us) else _LAST_US
    return max(begin_us, before), min(end_us, after)


def columns() -> Sequence[str]:
    """Return the names of the columns, of a statement without a posting too."""
    none = Decimal(0)
    entry = ChargeEntry("", 1, 1, "", "", none, none, 0, 0.0, 0, 0, 0, "", "")
    return [*_row(Statement("", 0, 0, none, ()), Posting(0, entry, "", none, none, False))]


def core_hours(posting: Posting) -> Decimal:
    """Return what a posting is of: a surcharge is of no time of the account's own."""
    if posting.surcharge is not None:
        return Decimal(0)
    entry = posting.entry
    cores = exact_cores(millicores(entry.cores, entry.millicores))
    core_h = cores * Decimal(round(entry.runtime_s * 1e6)) / 3_600_000_000
    return -core_h if posting.is_reversal else core_h


def _decimal(value: Decimal) -> str:
    """With a point: readers of CSV take a column of whole numbers for integers."""
    text = f"{value:f}"
    return text if "." in text else f"{text}.0"


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
    since = f"{_at(statement.from_us)} " if statement.from_us else ""
    period = f"{since}to {_at(statement.until_us)}"
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
