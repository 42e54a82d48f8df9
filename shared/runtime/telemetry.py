"""Metrics for Prometheus and traces for a collector or a file, through OpenTelemetry."""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.metrics import Meter as InstrumentFactory
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry, ProcessCollector

from shared.messaging.events.event import Event
from shared.messaging.stages.hooks import Backlog, Hooks, Tally
from shared.runtime.settings import Settings

# Spans reach their file soon enough for somebody who watches it.
_FILE_DELAY_MS = 500
_CONTEXT = TraceContextTextMapPropagator()


class Telemetry:
    """What one process measures of itself; `close` sends what is still buffered."""

    def __init__(self, service: str, settings: Settings) -> None:
        resource = Resource.create({SERVICE_NAME: service})
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        reader = PrometheusMetricReader(
            registry=self.registry, prefix="coplace", scope_info_enabled=False
        )
        self._meters = MeterProvider([reader], resource)
        self.meter = self._meters.get_meter("coplace")
        self._tracers = _tracer_provider(resource, settings)
        tracer = self._tracers.get_tracer("coplace") if self._tracers else None
        self.stamper = Stamper(tracer, is_emulated=settings.is_emulated)

    def hooks(self) -> Hooks:
        """The listeners that the drivers of stages tell about their work."""
        return Hooks(stamper=self.stamper, meter=BatchMeter(self.meter))

    def watch_clock(self, off_s: Callable[[], float]) -> None:
        """Ask, whenever the metrics are read, how far the wall clock is off."""
        self.meter.create_observable_gauge(
            "clock_off",
            [lambda _options: [Observation(off_s())]],
            unit="s",
            description="The wall clock less the time that passed: an alarm unless 0",
        )

    def watch_readiness(self, is_ready: Callable[[], bool]) -> None:
        """Ask, whenever the metrics are read, whether the process does its work."""
        self.meter.create_observable_gauge(
            "ready",
            [lambda _options: [Observation(int(is_ready()))]],
            description="1 while the process does its work: /readyz says what it waits for",
        )

    def close(self) -> None:
        """Flush and stop the exporters."""
        if self._tracers:
            self._tracers.shutdown()
        self._meters.shutdown()


class Stamper:
    """A producer span for each event that belongs to a trace: from when it happened to when it is
    published, so that its length is what the region learned it late by. In an emulated run nothing
    happens at a time of this world: spans have no length there."""

    def __init__(self, tracer: Tracer | None, *, is_emulated: bool = False) -> None:
        self._tracer = tracer
        self._is_emulated = is_emulated

    def stamp(self, stage: str, event: Event) -> Event:
        """The event below a new span; unchanged when it has no trace or traces go nowhere."""
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
        """Show it until it is told anew."""
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
    "early": "Facts that wait for what they are about, which had not come",
    "quarantined": "Records and jobs left out since handling them failed again after restarts",
    "copies_dropped": "Events that had been applied before",
    "unknown_fields": "Fields of messages that this version does not know",
    "rounds_closed": "Rounds that were decided",
}


def _tracer_provider(resource: Resource, settings: Settings) -> TracerProvider | None:
    """None when traces go nowhere, so that nobody pays for them."""
    processors = list(_span_processors(settings))
    if not processors:
        return None
    provider = TracerProvider(resource=resource)
    for processor in processors:
        provider.add_span_processor(processor)
    return provider


def _span_processors(settings: Settings) -> Sequence[BatchSpanProcessor]:
    processors = []
    if settings.trace_file:
        file = SpanFile(settings.trace_file)
        processors.append(BatchSpanProcessor(file, schedule_delay_millis=_FILE_DELAY_MS))
    if settings.otlp_endpoint:
        processors.append(BatchSpanProcessor(_otlp_exporter(settings.otlp_endpoint)))
    return processors


def _otlp_exporter(endpoint: str) -> SpanExporter:
    # Imported only here: it is slow to load, and most processes run without a collector.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=endpoint, insecure=not endpoint.startswith("https://"))


class SpanFile(SpanExporter):
    """Appends spans to a file, one JSON object a line; processes may share the file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Append them in one write, so that lines of several processes do not mix."""
        lines = "".join(span.to_json(indent=None) + "\n" for span in spans)
        with self._path.open("ab", buffering=0) as file:
            file.write(lines.encode())
        return SpanExportResult.SUCCESS
