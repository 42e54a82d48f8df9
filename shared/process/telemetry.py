"""Metrics for Prometheus and traces for a collector or a file, through OpenTelemetry."""

from collections.abc import Callable, Sequence
from pathlib import Path

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from shared.process.settings import Settings

# Spans reach their file soon enough for people that watch it.
_FILE_DELAY_MS = 500


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
        self.tracer = self._tracers.get_tracer("coplace") if self._tracers else None
        """None where traces go nowhere."""
        self.is_emulated = settings.is_emulated

    def exposition(self) -> bytes:
        """Return all metrics as Prometheus reads them."""
        return generate_latest(self.registry)

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


def _tracer_provider(resource: Resource, settings: Settings) -> TracerProvider | None:
    """Return what makes traces; None when they go nowhere, so that nobody pays for them."""
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
