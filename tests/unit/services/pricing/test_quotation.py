"""The price of a quote is a charge, and its interval holds those of all that it is made of."""

from decimal import Decimal

from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_service_pb2 import QuotedPlacement, QuotedRange
from coplace.v1.tariffs_pb2 import PRICE_MODEL_FAIR, TariffDeclared, TariffRate
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.tariff import ANY_JOB, FAIR, PriceTariff, Rate
from shared.pricing.quotation import Quotation
from shared.pricing.terms import PriceTerms, QuoteTerms

_T0_US = 1_767_225_600_000_000
_HOUR_S = 3_600.0


def tariff(factors: tuple[Decimal, ...] = (), su: str = "1") -> PriceTariff:
    rates = Rate("core", Decimal(su)), Rate("energy", Decimal("0.25"))
    return PriceTariff("t", 1, 0, 0, FAIR, rates, factors)


def way(wait: QuotedRange, run: QuotedRange, slowdown: float = 1.0) -> QuotedPlacement:
    energy = QuotedRange(low=1e6 * run.low, expected=1e6 * run.expected, high=1e6 * run.high)
    return QuotedPlacement(
        cluster="p1",
        nodes=2,
        cores_per_unit=8,
        wait_s=wait,
        run_s=run,
        energy_j=energy,
        slowdown_ratio=slowdown,
    )


def exactly(seconds: float) -> QuotedRange:
    return QuotedRange(low=seconds, expected=seconds, high=seconds)


def quotation(found: QuotedPlacement, terms: PriceTariff) -> Quotation:
    job = JobSubmitted(job_id="quote", user="ada", account="physics", nodes=2)
    return Quotation(job, found, _T0_US, ANY_JOB, QuoteTerms(PriceTerms(Decimal(1)), terms))


def test_what_is_certain_has_one_price() -> None:
    price = quotation(way(exactly(0), exactly(_HOUR_S)), tariff()).price()
    assert price.low == price.expected == price.high == Decimal("266.000000")


def test_neighbours_lower_the_least_price_alone() -> None:
    price = quotation(way(exactly(0), exactly(_HOUR_S), slowdown=1.25), tariff(su="100")).price()
    assert price.expected == price.high == Decimal("1850.000000")
    assert price.low == Decimal("1274.000000")  # 1600 / 1.25 / 1.25 + 250 for energy


def test_a_tariff_that_begins_while_the_job_waits_counts_for_the_starts_behind_it() -> None:
    job = JobSubmitted(job_id="quote", user="ada", account="physics", nodes=2)
    found = way(QuotedRange(low=0, expected=0, high=7_200), exactly(_HOUR_S))
    begins_us = _T0_US + 3_600_000_000
    terms = PriceTerms(Decimal(1))
    for name, su, from_us in (("cheap", "1", 1), ("dear", "2", begins_us)):
        rates = [TariffRate(resource="core", su=su), TariffRate(resource="energy", su="0.25")]
        declared = TariffDeclared(
            name=name, version=1, from_us=from_us, model=PRICE_MODEL_FAIR, rates=rates
        )
        declared.declared_at_us = from_us
        terms.declare(declared)
    price = Quotation(job, found, _T0_US, ANY_JOB, terms.of_quote("")).price()
    assert price.high - price.low == 16


@settings(max_examples=60)
@given(
    factors=st.lists(st.integers(0, 20), min_size=24, max_size=24),
    waits=st.lists(st.integers(0, 100_000), min_size=3, max_size=3),
    run_s=st.integers(1, 100_000),
    share=st.floats(0, 1),
)
def test_no_start_within_the_waits_interval_is_charged_outside_of_the_prices(
    factors: list[int], waits: list[int], run_s: int, share: float
) -> None:
    low, middle, high = sorted(waits)
    terms = tariff(tuple(Decimal(factor) / 10 for factor in factors))
    found = way(QuotedRange(low=low, expected=middle, high=high), exactly(run_s))
    whole = quotation(found, terms).price()
    at = exactly(round(low + share * (high - low)))
    one = quotation(way(at, exactly(run_s)), terms).price()
    assert whole.low <= one.expected <= whole.high
