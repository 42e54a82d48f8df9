"""Commands that do in their own process what services do, without the logs of these."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def only_warnings() -> Iterator[None]:
    """Log nothing less meanwhile: what the command says is for people."""
    before = structlog.get_config()["wrapper_class"]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    try:
        yield
    finally:
        structlog.configure(wrapper_class=before)
