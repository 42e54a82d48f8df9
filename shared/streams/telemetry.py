"""What the drivers of stages measure: spans of what is published, counts of what was committed."""

import time
from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.metrics import Meter as InstrumentFactory
from opentelemetry.trace import SpanKind, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from shared.catalogue.event import Event
from shared.process.telemetry import Telemetry
from shared.streams.stages.hooks import Backlog, Hooks, Tally

_CONTEXT = TraceContextTextMapPropagator()


def hooks_of(telemetry: Telemetry) -> Hooks:
    """Return the listeners that the drivers of stages notify of their work."""
    stamper = Stamper(telemetry.tracer, is_emulated=telemetry.is_emulated)
    return Hooks(stamper=stamper, meter=BatchMeter(telemetry.meter))


class Stamper:
    """A producer span for each event that belongs to a trace: from when it happened to when it is
    published, so that its length is what the region learned it late by. In an emulated run nothing
    happens at a time of this world: spans have no length there."""

    def __init__(self, tracer: Tracer | None, *, is_emulated: bool = False) -> None:
        self._tracer = tracer
        self._is_emulated = is_emulated

    def stamp(self, stage: str, event: Event) -> Event:
        """Return the event below a new span; unchanged when it has no trace or traces go
        nowhere."""
        if self._tracer is None or not event.traceparent:
            return event
        parent = _CONTEXT.extract({"traceparent": event.traceparent})
        now_ns = time.time_ns()
        happened_ns = now_ns if self._is_emulated else min(event.time_us * 1000, now_ns)
        name, attributes = f"{stage} publish", _attributes(event)
        span = self._tracer.start_span(
            name, parent, SpanKind.PRODUCER, attributes, start_time=happened_ns
        )
        span.end(now_ns)
        carrier: dict[str, str] = {}
        _CONTEXT.inject(carrier, set_span_in_context(span))
        return event.traced(carrier["traceparent"])


def _attributes(event: Event) -> dict[str, str]:
    return {"event.id": event.id, "event.type": event.type, "event.key": event.key}


class BatchMeter:
    """Counts committed batches by stage and unit."""

    def __init__(self, meter: InstrumentFactory) -> None:
        self._counters = {
            name: meter.create_counter(name, description=description)
            for name, description in _COUNTERS.items()
        }
        self._duration_s = meter.create_histogram(
            "batch_duration",
            unit="s",
            description="From receiving a batch to having committed it",
            explicit_bucket_boundaries_advisory=_DURATION_BUCKETS_S,
        )
        self._published = meter.create_counter(
            "events_published", description="Events of processors, by type"
        )
        self._refused = meter.create_gauge(
            "inconsistencies", description="What keeps a stage or read model from working"
        )
        self._backlogs: dict[str, Callable[[], Backlog]] = {}
        meter.create_observable_gauge(
            "lag_records",
            [self._observing(lambda backlog: backlog.records)],
            description="Records that wait for a stage",
        )
        meter.create_observable_gauge(
            "oldest_record_age",
            [self._observing(lambda backlog: backlog.oldest_age_s)],
            unit="s",
            description="How long ago the oldest record was written that waits for a stage",
        )

    def begin(self, stage: str, unit: int, published: Iterable[str] = ()) -> None:
        """Count from 0: what never happened is known not to have happened."""
        for counter in self._counters.values():
            counter.add(0, {"stage": stage, "unit": unit})
        for event_type in published:
            self._published.add(0, {"stage": stage, "type": event_type})
        self._refused.set(0, {"stage": stage})

    def batch(self, stage: str, unit: int, tally: Tally, duration_s: float) -> None:
        """Add one committed batch."""
        labels: dict[str, str | int] = {"stage": stage, "unit": unit}
        for name, counter in self._counters.items():
            if count := getattr(tally, name):
                counter.add(count, labels)
        for event_type, count in tally.published.items():
            self._published.add(count, {"stage": stage, "type": event_type})
        self._duration_s.record(duration_s, labels)

    def watch_backlog(self, stage: str, backlog: Callable[[], Backlog]) -> None:
        """Ask `backlog` whenever the metrics are read."""
        self._backlogs[stage] = backlog

    def refused(self, stage: str, inconsistencies: int) -> None:
        """Show it until it is set anew."""
        self._refused.set(inconsistencies, {"stage": stage})

    def _observing(
        self, figure: Callable[[Backlog], float]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            for stage, backlog in self._backlogs.items():
                yield Observation(figure(backlog()), {"stage": stage})

        return observe


_DURATION_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_COUNTERS = {
    "records_in": "Records taken from the input topics",
    "records_out": "Records written to the output topics",
    "dead_letters": "Records that could not be used",
    "early": "Facts that wait for what they are about, which has not come",
    "quarantined": "Records and jobs left out since handling them failed again after restarts",
    "copies_dropped": "Events that had been applied before",
    "skipped": "Events of types that the stage does not consume",
    "unknown_fields": "Fields of messages that this version does not know",
    "rounds_closed": "Rounds that were decided",
}
