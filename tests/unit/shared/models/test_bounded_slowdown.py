"""What bounded slowdowns divide by."""

from shared.models.bounded_slowdown import bounded_length_s


def test_all_that_is_shorter_than_the_threshold_counts_alike() -> None:
    assert [bounded_length_s(runs_s) for runs_s in (0.0, 59.0, 60.0, 61.5)] == [60, 60, 60, 61.5]
