"""One step of the benchmark: what is offered to the system, and what was seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

import numpy as np
import orjson

# A rate is sustained when nobody waits longer than this, and nothing is left this long afterwards.
MOST_P99_S: Final = 1.0
DRAIN_S: Final = 2.0
_SENT_SHARE: Final = 0.98


class Kind(StrEnum):
    """What the jobs of a step are like."""

    FILL = "fill"
    """For many hours: they start, and leave fewer free nodes."""
    TOP_UP = "top-up"
    """For fewer hours: they are backfilled."""
    WIDE = "wide"
    """A whole cluster for days: they wait, and hold the reservations."""
    QUEUE = "queue"
    """Of all sizes and for days: longer than the reservations, so that they wait."""
    WAIT = "wait"
    """Of all sizes; no node is free, so that they wait. Cancelled after the step."""
    FLOW = "flow"
    """Small and short: backfilled at once; started, measured, finished."""


@dataclass(frozen=True, slots=True)
class Step:
    """Jobs offered at a fixed rate, whatever becomes of them.

    `processes` are the pids whose CPU time is read. `first_index` keeps the ids of steps distinct.
    """

    name: str
    kind: Kind
    rate_per_s: float
    jobs: int
    first_index: int
    processes: Mapping[str, int]

    def to_json(self) -> str:
        """Encode the step for the process that plays it."""
        return orjson.dumps(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Decode the step that `to_json` wrote."""
        fields: dict[str, Any] = orjson.loads(text)
        return cls(**{**fields, "kind": Kind(fields["kind"])})


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of a step.

    Latencies are from the time at which a submission was meant to be sent to the time at which its
    outcome was read; `late` jobs had none within DRAIN_S of the last submission. `cpu_share` is of
    one core while the jobs were sent; `load_1min` is the machine's at its end.
    """

    name: str
    kind: Kind
    rate_per_s: float
    jobs: int
    sent_per_s: float
    late: int
    started: int
    p50_ms: float
    p99_ms: float
    worst_ms: float
    cpu_share: Mapping[str, float]
    load_1min: float

    @property
    def is_sustained(self) -> bool:
        """Return whether the system kept up."""
        kept_up = self.late == 0 and self.p99_ms <= MOST_P99_S * 1e3
        return kept_up and self.sent_per_s >= _SENT_SHARE * self.rate_per_s

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Decode what a step's process wrote."""
        fields: dict[str, Any] = orjson.loads(text)
        return cls(**{**fields, "kind": Kind(fields["kind"])})


def percentiles_ms(latencies_s: Sequence[float]) -> tuple[float, float, float]:
    """Return p50, p99 and worst, ms."""
    p50, p99, worst = np.percentile(latencies_s, [50, 99, 100]) * 1e3
    return float(p50), float(p99), float(worst)
