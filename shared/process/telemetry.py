"""Metrics for Prometheus and traces for a collector or a file, through OpenTelemetry."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.registry import Collector

from shared.process.settings import Settings

# Spans reach their file soon enough for people that watch it.
_FILE_DELAY_MS = 500


class Telemetry:
    """What one process measures of itself; `close` sends what is still buffered."""

    def __init__(self, service: str, settings: Settings) -> None:
        resource = Resource.create({SERVICE_NAME: service})
        self.registry = CollectorRegistry()
        reader = PrometheusMetricReader(
            registry=self.registry, prefix="coplace", scope_info_enabled=False
        )
        self._meters = MeterProvider([reader], resource)
        self.meter = self._meters.get_meter("coplace")
        self._tracers = _tracer_provider(resource, settings)
        self.tracer = self._tracers.get_tracer("coplace") if self._tracers else None
        """None where traces go nowhere."""
        self.is_emulated = settings.is_emulated

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


def exposition(services: Mapping[str, Telemetry]) -> bytes:
    """Return the metrics of a process as Prometheus reads them; with the label `service` where
    several share it."""
    process = CollectorRegistry()
    ProcessCollector(registry=process)
    if len(services) == 1:
        return generate_latest(process) + b"".join(
            generate_latest(each.registry) for each in services.values()
        )
    process.register(_Labelled({name: each.registry for name, each in services.items()}))
    return generate_latest(process)


class _Labelled(Collector):
    """The metrics of several registries, each with the name of its own as a label."""

    def __init__(self, registries: Mapping[str, CollectorRegistry]) -> None:
        self._registries = registries

    def collect(self) -> Iterable[Metric]:
        """Return each metric once, with the samples of all."""
        found: dict[str, Metric] = {}
        for service, registry in self._registries.items():
            for metric in registry.collect():
                kind = metric.name, metric.documentation, metric.type, metric.unit
                own = found.setdefault(metric.name, Metric(*kind))
                own.samples += [
                    sample._replace(labels={**sample.labels, "service": service})
                    for sample in metric.samples
                ]
        return found.values()


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
