"""Several services in one process."""

import pytest

from cli.processes import EVERY
from cli.together import main_of
from coplace_client.errors import UnusableError


@pytest.mark.parametrize("service", EVERY)
def test_every_service_of_a_region_has_a_main_to_share_a_process_with(service: str) -> None:
    assert callable(main_of(service))


def test_a_service_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UnusableError, match="'prices' is no service: known are ingest, energy"):
        main_of("prices")
