"""Pages of jobs: each job once, whatever happens between two pages."""

from collections.abc import Iterator

import pytest
from coplace.v1.placement_service_pb2 import JOB_STANDING_DECIDED, ListJobsRequest

from coplace_client.errors import RejectedError
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from tests.unit.shared.placement.region import T0_US, finished, placement, round_of, submitted

_NAMES = [f"job-{number:02d}" for number in range(25)]


@pytest.fixture
def processor() -> Placement:
    """Arrived in another order than that of their ids."""
    found = placement(policy=Policy.BASE)
    arriving = [*_NAMES[13:], *_NAMES[:13]]
    round_of(found, 0, *(submitted(name, T0_US + n, nodes=4) for n, name in enumerate(arriving)))
    return found


def pages(processor: Placement, **asked: object) -> Iterator[list[str]]:
    request = ListJobsRequest(**asked)  # type: ignore[arg-type]
    while True:
        answer = processor.queries.jobs(request)
        yield [job.job_id for job in answer.jobs]
        if not answer.next_page_token:
            return
        request.page_token = answer.next_page_token


def test_pages_in_the_order_of_ids_have_each_job_once(processor: Placement) -> None:
    found = list(pages(processor, page_size=10))
    assert found == [_NAMES[:10], _NAMES[10:20], _NAMES[20:]]


def test_a_page_that_ends_with_the_last_job_has_no_token(processor: Placement) -> None:
    assert list(pages(processor, page_size=25)) == [_NAMES]
    assert list(pages(processor)) == [_NAMES]


def test_jobs_that_come_between_two_pages_move_no_other(processor: Placement) -> None:
    reading = pages(processor, page_size=10)
    first = next(reading)
    late = ["job-00a", "job-15a", "zebra"]
    round_of(processor, 1, *(submitted(name, T0_US + 99, nodes=4) for name in late))
    rest = [name for page in reading for name in page]
    assert first + rest == sorted([*_NAMES, "job-15a", "zebra"])


def test_a_page_has_what_the_filters_select(processor: Placement) -> None:
    assert list(pages(processor, standings=[JOB_STANDING_DECIDED])) == [[_NAMES[13]]]
    assert list(pages(processor, user="nobody")) == [[]]


def test_what_is_no_token_is_refused(processor: Placement) -> None:
    for token in ("%", "å", "_w=="):
        with pytest.raises(RejectedError, match="page_token: must be the next_page_token"):
            processor.queries.jobs(ListJobsRequest(page_token=token))


@pytest.mark.parametrize("other", [{"most": 5}, {"skip": 1}, {"in_queue": True}])
def test_pages_have_one_order(processor: Placement, other: dict[str, int]) -> None:
    with pytest.raises(RejectedError, match="page_size: goes without"):
        processor.queries.jobs(ListJobsRequest(page_size=5, **other))  # type: ignore[arg-type]


def test_jobs_by_arrival_are_as_before(processor: Placement) -> None:
    answer = processor.queries.jobs(ListJobsRequest(most=3, skip=10))
    assert [job.job_id for job in answer.jobs] == [_NAMES[23], _NAMES[24], _NAMES[0]]
    assert (answer.in_all, answer.next_page_token) == (25, "")


def test_a_forgotten_job_is_on_no_page(processor: Placement) -> None:
    assert _NAMES[13] in next(pages(processor))
    round_of(processor, 1, finished(_NAMES[13], T0_US + 1_000_000))
    round_of(processor, 30 * 86_400)
    assert _NAMES[13] not in [name for page in pages(processor) for name in page]
