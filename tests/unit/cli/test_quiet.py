"""Commands log warnings alone, and leave logging as it was."""

import structlog
from structlog.testing import capture_logs

from cli.quiet import only_warnings


def test_less_than_warnings_is_not_logged_within_and_is_again_behind() -> None:
    log = structlog.get_logger()
    with capture_logs() as logs:
        with only_warnings():
            log.info("looked")
            log.warning("refused")
        log.info("done")
    assert [each["event"] for each in logs] == ["refused", "done"]
