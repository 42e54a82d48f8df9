"""Steps travel to their process and back, and say whether a rate was sustained."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from lab.benchmarks.system.step import MOST_P99_S, Kind, Seen, Step, percentiles_ms

SEEN = Seen(
    name="wait-500",
    kind=Kind.WAIT,
    rate_per_s=500.0,
    jobs=6000,
    sent_per_s=499.0,
    late=0,
    started=0,
    p50_ms=100.0,
    p99_ms=200.0,
    worst_ms=300.0,
    cpu_share={"kafka": 0.5},
    load_1min=1.0,
)


def test_a_step_reaches_its_process_and_what_was_seen_returns_as_it_was_written() -> None:
    step = Step("flow-100", Kind.FLOW, 100.0, 1200, 17, {"kafka": 4711})
    assert Step.from_json(step.to_json()) == step
    assert Seen.from_json(orjson.dumps(SEEN)) == SEEN


@pytest.mark.parametrize(
    ("changed", "sustained"),
    [
        ({}, True),
        ({"late": 1}, False),
        ({"p99_ms": MOST_P99_S * 1e3 + 1}, False),
        ({"sent_per_s": 400.0}, False),
    ],
)
def test_a_rate_is_sustained_when_nobody_is_late_and_all_was_sent(
    changed: dict[str, Any], sustained: bool
) -> None:
    assert replace(SEEN, **changed).is_sustained is sustained


def test_percentiles_are_in_milliseconds() -> None:
    assert percentiles_ms([0.1] * 99 + [2.0]) == pytest.approx((100.0, 119.0, 2000.0))
