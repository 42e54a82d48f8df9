"""Crash only: whatever is not bad input ends the process, and recovery is the only start-up."""

import os
from typing import NoReturn

import structlog

from shared.process.refusals import server_refusal
from shared.process.settings import settings

_log = structlog.get_logger(__name__)


def end_process(where: str, error: BaseException) -> NoReturn:
    """Log what happened and end the process at once, before anything more is acknowledged; of what
    a server does not allow one line says so."""
    if refused := server_refusal(settings(), error):
        _log.critical("process ends", where=where, problem=refused)
    else:
        _log.critical("process ends", where=where, error=repr(error), exc_info=error)
    os._exit(1)
