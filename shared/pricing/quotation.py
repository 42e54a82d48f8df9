"""What a job that is not submitted would be charged: the charge for a finish that it could have."""

from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from coplace.v1.jobs_pb2 import JobFinished, JobSubmitted
from coplace.v1.placement_service_pb2 import QuotedPlacement, QuotedPrice

from coplace_client.millicores import beside_cores, millicores, whole_cores
from shared.catalogue.payloads.domain_types import asked_memory_gib, asked_resources
from shared.domain.tariff import HOUR_US, HOURS_A_DAY, RateScope
from shared.pricing.charge import AttemptEnd, ChargeRevision, charge_message, usage_of
from shared.pricing.model import Evidence
from shared.pricing.terms import QuoteTerms


class PriceRange(NamedTuple):
    """Service units for the ends of an interval, and as expected."""

    low: Decimal
    expected: Decimal
    high: Decimal

    @property
    def message(self) -> QuotedPrice:
        """Return the message that carries it, to the last digit."""
        low, expected, high = (f"{each:f}" for each in self)
        return QuotedPrice(low=low, expected=expected, high=high)


class Quotation(NamedTuple):
    """One way to run a job, as placement quotes it `now_us`; what rates distinguish it by; and by
    what it is charged."""

    job: JobSubmitted
    quoted: QuotedPlacement
    now_us: int
    scope: RateScope
    terms: QuoteTerms

    def price(self) -> PriceRange:
        """Return the price's bounds. Low: the shortest run of the interval with the least energy,
        slowed down all the time as much as neighbours may; high: the longest, alone, with the most.
        Both by the start within the wait's interval at which that is cheapest and dearest."""
        run, energy, slowdown = self.quoted.run_s, self.quoted.energy_j, self.quoted.slowdown_ratio
        expected_us = self._at_us(self.quoted.wait_s.expected)
        return PriceRange(
            min(self._su(at, run.low, energy.low, slowdown) for at in self._starts_us(run.low)),
            self._su(expected_us, run.expected, energy.expected, 1.0),
            max(self._su(at, run.high, energy.high, 1.0) for at in self._starts_us(run.high)),
        )

    def _at_us(self, wait_s: float) -> int:
        return self.now_us + round(wait_s * 1e6)

    def _starts_us(self, run_s: float) -> set[int]:
        """Among them the cheapest and the dearest start: between two of them a price by the hour is
        a straight line, and after a day it is the same."""
        wait = self.quoted.wait_s
        begin_us, end_us = self._at_us(wait.low), self._at_us(wait.high)
        edges_us = [edge for edge in self.terms.edges_us() if begin_us < edge <= end_us]
        found = {*edges_us, *(edge - 1 for edge in edges_us)}
        for edge_us in (begin_us, *edges_us):
            found |= set(_by_the_hour(edge_us, round(run_s * 1e6)))
        return {begin_us, end_us, *(at for at in found if begin_us <= at <= end_us)}

    def _su(self, start_us: int, run_s: float, energy_j: float, slowdown: float) -> Decimal:
        finished = self._finished(start_us, run_s, energy_j)
        runtime_us = usage_of(finished).runtime_us
        rows = [Evidence("", runtime_us, slowdown, shutters_used=1)] if slowdown > 1 else []
        charge = charge_message(
            AttemptEnd(finished),
            ChargeRevision(1, finished.ended_at_us),
            self.terms.at(start_us),
            rows,
        )
        return Decimal(charge.price_su)

    def _finished(self, start_us: int, run_s: float, energy_j: float) -> JobFinished:
        """As its resource manager would publish it."""
        job, units = self.job, self.quoted.nodes
        held = units * millicores(self.quoted.cores_per_unit, self.quoted.millicores_per_unit)
        return JobFinished(
            job_id=job.job_id,
            attempt=1,
            user=job.user,
            account=job.account,
            nodes=units,
            cores=whole_cores(held),
            millicores=beside_cores(held),
            cluster=self.quoted.cluster,
            node_model=self.quoted.node_model,
            partition=self.scope.partition,
            qos=self.scope.qos,
            memory_gib=asked_memory_gib(job, units),
            resources=asked_resources(job, units),
            energy_j=energy_j,
            submitted_at_us=self.now_us,
            started_at_us=start_us,
            ended_at_us=start_us + round(run_s * 1e6),
        )


def _by_the_hour(begin_us: int, run_us: int) -> Iterator[int]:
    """The starts of a day at which a run begins or ends with an hour."""
    for offset_us in (0, run_us):
        first = -(-(begin_us + offset_us) // HOUR_US)
        for hour in range(first, first + HOURS_A_DAY + 1):
            yield hour * HOUR_US - offset_us
