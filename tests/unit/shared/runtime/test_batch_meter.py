"""What Prometheus reads of the batches that a process committed."""

from collections import Counter

from prometheus_client import generate_latest

from shared.messaging.hooks import Tally
from shared.runtime.settings import Settings
from shared.runtime.telemetry import Telemetry


def exposition(telemetry: Telemetry) -> set[str]:
    return set(generate_latest(telemetry.registry).decode().splitlines())


def test_events_are_counted_by_stage_and_type_apart_from_barriers() -> None:
    telemetry = Telemetry("pricing", Settings())
    tally = Tally(records_out=5, published=Counter({"coplace.v1.ChargeMade": 3}))
    telemetry.hooks().meter.batch("pricing", 0, tally, duration_s=0.004)
    telemetry.hooks().meter.batch("pricing", 1, tally, duration_s=0.004)
    published = 'coplace_events_published_total{stage="pricing",type="coplace.v1.ChargeMade"} 6.0'
    assert published in exposition(telemetry)
    assert 'coplace_records_out_total{stage="pricing",unit="1"} 5.0' in exposition(telemetry)


def test_the_lag_is_asked_for_whenever_the_metrics_are_read() -> None:
    telemetry = Telemetry("pricing", Settings())
    waiting = [7]
    telemetry.hooks().meter.watch_lag("pricing", lambda: waiting[0])
    assert 'coplace_lag_records{stage="pricing"} 7.0' in exposition(telemetry)
    waiting[0] = 0
    assert 'coplace_lag_records{stage="pricing"} 0.0' in exposition(telemetry)


def test_batches_that_share_a_transaction_are_counted_together() -> None:
    tally = Tally(records_in=1, published=Counter({"a": 1}))
    tally.add(Tally(records_in=2, published=Counter({"a": 1, "b": 1})))
    assert tally == Tally(records_in=3, published=Counter({"a": 2, "b": 1}))
