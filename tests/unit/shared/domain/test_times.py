import pytest

from shared.domain.times import in_utc


@pytest.mark.parametrize(
    ("time_s", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_782_892_512, "2026-07-01T07:55:12Z"),
        (1_782_892_512.999_9, "2026-07-01T07:55:12Z"),
    ],
)
def test_a_time_is_in_utc_to_the_second_that_began(time_s: float, text: str) -> None:
    assert in_utc(time_s) == text
