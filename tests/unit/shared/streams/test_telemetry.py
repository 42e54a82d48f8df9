"""What Prometheus reads of the batches that a process committed."""

from collections import Counter

from shared.process.settings import Settings
from shared.process.telemetry import Telemetry, exposition
from shared.streams.stages.hooks import Backlog, Tally
from shared.streams.telemetry import hooks_of


def shown(telemetry: Telemetry) -> set[str]:
    return set(exposition({"pricing": telemetry}).decode().splitlines())


def test_events_are_counted_by_stage_and_type_without_barriers() -> None:
    telemetry = Telemetry("pricing", Settings())
    tally = Tally(records_out=5, published=Counter({"coplace.v1.ChargeMade": 3}))
    hooks_of(telemetry).meter.batch("pricing", 0, tally, duration_s=0.004)
    hooks_of(telemetry).meter.batch("pricing", 1, tally, duration_s=0.004)
    published = 'coplace_events_published_total{stage="pricing",type="coplace.v1.ChargeMade"} 6.0'
    assert published in shown(telemetry)
    assert 'coplace_records_out_total{stage="pricing",unit="1"} 5.0' in shown(telemetry)


def test_what_waits_is_asked_for_whenever_the_metrics_are_read() -> None:
    telemetry = Telemetry("pricing", Settings())
    waiting = [Backlog(7, 2.5)]
    hooks_of(telemetry).meter.watch_backlog("pricing", lambda: waiting[0])
    assert 'coplace_lag_records{stage="pricing"} 7.0' in shown(telemetry)
    assert 'coplace_oldest_record_age_seconds{stage="pricing"} 2.5' in shown(telemetry)
    waiting[0] = Backlog(0, 0.0)
    assert 'coplace_lag_records{stage="pricing"} 0.0' in shown(telemetry)


def test_counters_of_a_unit_at_work_are_there_before_anything_happened() -> None:
    telemetry = Telemetry("pricing", Settings())
    hooks_of(telemetry).meter.begin("pricing", 3, ["coplace.v1.ChargeMade"])
    lines = shown(telemetry)
    for name in ("records_in", "dead_letters", "quarantined", "rounds_closed"):
        assert f'coplace_{name}_total{{stage="pricing",unit="3"}} 0.0' in lines
    type_of = 'type="coplace.v1.ChargeMade"'
    assert f'coplace_events_published_total{{stage="pricing",{type_of}}} 0.0' in lines
    assert 'coplace_inconsistencies{stage="pricing"} 0.0' in lines


def test_a_process_shows_what_it_uses_and_whether_it_works() -> None:
    telemetry = Telemetry("pricing", Settings())
    telemetry.watch_readiness(lambda: False)
    assert "coplace_ready 0.0" in shown(telemetry)
    assert any(line.startswith("process_resident_memory_bytes ") for line in shown(telemetry))


def test_batches_that_share_a_transaction_are_counted_together() -> None:
    tally = Tally(records_in=1, published=Counter({"a": 1}))
    tally.add(Tally(records_in=2, published=Counter({"a": 1, "b": 1})))
    assert tally == Tally(records_in=3, published=Counter({"a": 2, "b": 1}))
