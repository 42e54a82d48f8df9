"""Advice to jobs that run, and the users who name the wrong application."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from coplace.v1.energy_pb2 import (
    ADVICE_REASON_FIRST_RUN,
    ADVICE_REASON_MISMATCH,
    AppIdMismatch,
    AppIdMisused,
    CoefficientsPublished,
    FrequencyAdvised,
    MetricDeviation,
    SignatureUpdated,
)
from coplace.v1.jobs_pb2 import JobFinished, JobRequeued, JobStarted, JobSubmitted
from coplace.v1.telemetry_pb2 import SignatureMeasured
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.signature import Signature
from services.energy.advice import AdvicePolicy, AdviceRule, advice
from services.energy.processor.advisor import Advisor
from services.energy.processor.misuse import Count, Misuse
from shared.catalogue.digest import model_sha256
from shared.catalogue.event import Event
from shared.catalogue.payloads.coefficients import coefficients_of
from shared.streams.stages.stage import Round
from shared.streams.state.state import State
from tests.unit.services.changelog import fold
from tests.unit.services.energy.support import NODE_MODEL, in_round, measured

PSTATES = (1.2, 2.0, 3.1)
HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US


def table(clocks: tuple[float, ...] = PSTATES) -> CoefficientsPublished:
    """Power falls with the clock, and CPI with it as far as TPI says: a signature of CPI 4 and TPI
    0.01 waits for memory all the time."""
    ghz = np.array(clocks)
    ratio = ghz[np.newaxis, :] / ghz[:, np.newaxis]
    zeros = np.zeros(ratio.size)
    message = CoefficientsPublished(
        node_model=NODE_MODEL,
        version="coefficients@0",
        tpi_scale="per-instruction",
        pstates_ghz=clocks,
        a=(0.3 + 0.7 * ratio**2).flat,
        d=np.ones(ratio.size),
        e=(400.0 * (ratio - 1)).flat,
        available=[True] * ratio.size,
        b=zeros,
        c=zeros,
        f=zeros,
    )
    message.sha256 = model_sha256(message)
    return message


def event(payload: Message, event_id: str = "", time_us: int = 1) -> Event:
    return Event(event_id or payload.DESCRIPTOR.name, "test", time_us, "key", payload, "00-job")


def advisor(state: dict[str, bytes] | None = None, **policy: Any) -> Advisor:
    return Advisor(state or {}, AdvicePolicy(**policy), half_life_days=30.0, remember_s=3600.0)


def submitted(job: str = "j", attempt: int = 1, user: str = "ada") -> Event:
    payload = JobSubmitted(job_id=job, attempt=attempt, user=user, app_id="lu.C")
    return event(payload, f"submitted/{job}/{attempt}")


def started(job: str = "j", attempt: int = 1) -> Event:
    payload = JobStarted(job_id=job, attempt=attempt, cluster="p2", freq_ghz=3.1)
    return event(payload, f"started/{job}/{attempt}")


def finished(job: str = "j", attempt: int = 1, ended_at_us: int = 5) -> Event:
    payload = JobFinished(job_id=job, attempt=attempt, user="ada", ended_at_us=ended_at_us)
    return event(payload, f"finished/{job}/{attempt}")


def seen(job: str = "j", **changes: Any) -> SignatureMeasured:
    values: Any = {"job_id": job, "cpi": 4.0, "tpi": 0.01, "mem_gbps": 137.0} | changes
    payload = measured("x", **values).payload
    assert isinstance(payload, SignatureMeasured)
    return payload


def mismatch(job: str = "j", number: int = 0, **changes: Any) -> Event:
    payload = AppIdMismatch(
        app_id="lu.C",
        node_model=NODE_MODEL,
        job_id=job,
        metrics=[MetricDeviation(metric="power_w"), MetricDeviation(metric="cpi", differs=True)],
        measured=seen(job, **changes),
    )
    return event(payload, f"mismatch/{job}/{number}", number)


def running(**policy: Any) -> Advisor:
    found = advisor(**policy)
    in_round(found, 0, event(table()), submitted(), started())
    return found


def payloads(events: list[Event]) -> tuple[list[FrequencyAdvised], list[AppIdMisused]]:
    everything = [e.payload for e in events]
    advised = [p for p in everything if isinstance(p, FrequencyAdvised)]
    return advised, [p for p in everything if isinstance(p, AppIdMisused)]


def test_a_mismatched_run_is_advised_by_what_is_measured_of_it() -> None:
    events = in_round(running(), 1, mismatch())

    assert {(e.key, e.traceparent, e.time_us) for e in events} == {("j", "00-job", 30_000_000)}
    assert len({e.id for e in events}) == 2
    [advised], [misused] = payloads(events)
    assert (advised.job_id, advised.attempt, advised.user) == ("j", 1, "ada")
    assert (advised.app_id, advised.cluster, advised.node_model) == ("lu.C", "p2", NODE_MODEL)
    assert advised.reason == ADVICE_REASON_MISMATCH
    assert (advised.freq_ghz, advised.rule) == (1.2, "min-distance")
    assert (advised.present.freq_ghz, advised.present.time_s) == (3.1, 50.0)
    assert advised.present.energy_j == pytest.approx(50.0 * 360.0)
    assert advised.predicted.time_s == pytest.approx(50.0)
    assert advised.predicted.power_w == pytest.approx(360.0 * (0.3 + 0.7 * (1.2 / 3.1) ** 2))
    assert advised.predicted.energy_j < advised.present.energy_j
    assert advised.coefficients_version == "coefficients@0"
    assert (misused.user, misused.user_mismatches, list(misused.metrics)) == ("ada", 1.0, ["cpi"])
    assert misused.found_by == "mismatch/j/0"


@pytest.mark.parametrize(
    ("rule", "freq_ghz"),
    [
        (AdviceRule.MIN_ENERGY, 1.2),
        (AdviceRule.MIN_RUNTIME, 3.1),
        (AdviceRule.MIN_DISTANCE, 1.2),
        (AdviceRule.MIN_ENERGY_TO_SOLUTION, 2.0),
        (AdviceRule.MIN_TIME_TO_SOLUTION, 3.1),
    ],
)
def test_each_rule_chooses_as_it_does_for_jobs_that_wait(rule: AdviceRule, freq_ghz: float) -> None:
    """1.2 GHz takes 5.8 % longer, which is more than min-energy-to-solution may add."""
    signature = Signature("a", NODE_MODEL, 2.6, 50.0, 300.0, 4.0, 0.0095, 137.0, "per-instruction")
    coefficients = coefficients_of(table((1.2, 2.0, 2.6, 3.1)))

    found = advice(AdvicePolicy(rule, min_time_threshold=0.05), coefficients, signature)

    assert found is not None
    assert found.predicted.freq_ghz == freq_ghz


def test_no_advice_leads_nowhere_that_coefficients_do_not_lead() -> None:
    signature = Signature("a", NODE_MODEL, 3.1, 50.0, 300.0, 4.0, 0.01, 137.0, "per-instruction")
    policy, learned = AdvicePolicy(), coefficients_of(table())

    assert advice(policy, learned, signature) is not None
    assert advice(policy, learned, replace(signature, tpi_scale="eamc-2020")) is None
    assert advice(policy, learned, replace(signature, freq_ghz=2.95)) is None


@pytest.mark.parametrize(
    "events",
    [[mismatch(freq_ghz=1.2)], [finished(), mismatch()]],
    ids=["at its best frequency", "ended"],
)
def test_a_job_that_cannot_do_better_any_more_is_counted_but_not_advised(
    events: list[Event],
) -> None:
    advised, misused = payloads(in_round(running(), 1, *events))

    assert advised == []
    assert [m.user for m in misused] == ["ada"]


def test_a_job_is_published_once_and_counted_once() -> None:
    processor = running()
    in_round(processor, 1, mismatch(number=1))

    assert payloads(in_round(processor, 2, mismatch(number=2), mismatch(number=3))) == ([], [])


def test_of_a_job_measured_twice_in_a_round_the_newest_counts() -> None:
    advised, misused = payloads(
        in_round(running(), 1, mismatch(number=2), mismatch(number=1, freq_ghz=1.2))
    )

    assert [a.freq_ghz for a in advised] == [1.2]
    assert [m.found_by for m in misused] == ["mismatch/j/1"]


def test_a_job_is_forgotten_some_time_after_its_end() -> None:
    processor = running()
    in_round(processor, 1, finished(ended_at_us=30_000_000))
    kept = processor.changes()
    assert kept["job|j"] is not None

    in_round(processor, 122)
    assert processor.changes() == {"job|j": None}
    assert payloads(in_round(processor, 123, mismatch())) == ([], [])


def test_the_next_attempt_is_counted_anew_under_the_same_user() -> None:
    processor = running()
    in_round(processor, 1, mismatch())
    requeued = event(JobRequeued(job_id="j", attempt=2))
    events = in_round(processor, 2, requeued, started(attempt=2), mismatch(number=1))

    [advised], [misused] = payloads(events)
    assert (advised.attempt, misused.attempt, misused.user) == (2, 2, "ada")
    assert misused.user_mismatches == pytest.approx(2.0, rel=1e-4)


def test_an_applications_first_run_is_advised_and_blames_nobody() -> None:
    row = event(SignatureUpdated(app_id="lu.C", node_model=NODE_MODEL))
    processor = running()

    advised, misused = payloads(in_round(processor, 1, event(seen(), "first"), row))

    assert [a.reason for a in advised] == [ADVICE_REASON_FIRST_RUN]
    assert misused == []
    in_round(processor, 2, submitted("k"), started("k"))
    assert in_round(processor, 3, event(seen("k"), "second")) == []


def test_profiling_runs_and_kernels_are_not_advised() -> None:
    events = event(seen("")), event(seen(kernel=True))

    assert in_round(running(), 1, *events) == []


@given(st.integers(0, 6))
def test_a_restart_within_the_round_changes_nothing(restart: int) -> None:
    row = event(SignatureUpdated(app_id="lu.C", node_model=NODE_MODEL))
    first = event(seen("k"), "first", 3)
    round_events = [submitted("k"), started("k"), first, row, mismatch(number=1), finished("k")]

    def played(stop: int | None) -> list[Event]:
        state: dict[str, bytes] = {}
        processor = advisor()

        in_round(processor, 0, event(table()), submitted(), started())
        for number, each in enumerate(round_events):
            if number == stop:
                fold(state, processor.changes())
                processor = advisor(state)
            processor.handle(each)
        fold(state, processor.changes())
        return [p.event for p in advisor(state).end_round(Round(1, 30_000_000))]

    assert played(restart) == played(None)
    assert len(played(None)) == 2


def test_old_mismatches_count_less_and_users_of_long_ago_are_forgotten() -> None:
    counts = State({}).table("user", Count)
    misuse = Misuse(counts, half_life_days=30.0)

    assert misuse.add("ada", 0) == 1.0
    assert misuse.add("ada", 30 * DAY_US) == pytest.approx(1.5)
    assert misuse.of("ada", 60 * DAY_US) == pytest.approx(0.75)
    misuse.add("bob", 400 * DAY_US)
    assert "ada" not in counts
