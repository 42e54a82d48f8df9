"""Logs as JSON lines on standard output, with the service and the trace that they belong to."""

import logging
import sys

import orjson
import structlog
from opentelemetry import trace
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, Processor, WrappedLogger

# Libraries that log their internals at level info.
_TALKATIVE = ("aiokafka", "faust", "kafka", "mode")

# Without locals, which may hold passwords.
_EXCEPTIONS = structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False))


def configure_logging(service: str, level: str) -> None:
    """Send what structlog and the libraries' loggers say to one JSON stream."""

    def add_service(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event.setdefault("service", service)  # or that of a service that shares the process
        return event

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        add_service,
        _add_trace,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    _write_to_stdout(level, _formatter(shared))


def _formatter(shared: list[Processor]) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _EXCEPTIONS,
            structlog.processors.JSONRenderer(_to_json),
        ],
    )


def _write_to_stdout(level: str, formatter: logging.Formatter) -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    if level == "info":
        for library in _TALKATIVE:
            logging.getLogger(library).setLevel(logging.WARNING)


def _add_trace(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = trace.format_trace_id(context.trace_id)
        event["span_id"] = trace.format_span_id(context.span_id)
    return event


def _to_json(event: EventDict, **_options: object) -> str:
    return orjson.dumps(event, default=repr).decode()
