"""Objects that users wrote are read as what they may be."""

from typing import Any

import pytest

from coplace_client.errors import RejectedError
from shared.kubernetes.objects import (
    condition_of,
    is_older,
    mappings_of,
    require_identity,
    texts_of,
    time_us,
    unmanaged,
    whole_of,
)

NAMED = {
    "namespace": "physics",
    "name": "lu",
    "uid": "7-a",
    "creationTimestamp": "2026-01-01T00:00:00Z",
}


@pytest.mark.parametrize("told", [None, 7, "soon", [], {}, "9999-12-31T00:00:00Z", "0001-01-01"])
def test_what_is_no_time_is_none(told: Any) -> None:
    assert time_us(told) == 0


def test_values_of_another_type_are_missing() -> None:
    assert texts_of({"a": "b", "c": 7}) == {"a": "b"}
    assert (whole_of(True), whole_of("7"), whole_of(7)) == (None, None, 7)
    assert (mappings_of({}), mappings_of([{}, 7])) == ([], [{}])


def test_a_condition_counts_where_it_is_true() -> None:
    ready = {"type": "Ready", "status": "True"}
    assert condition_of({"conditions": [7, {"type": "Ready"}, ready]}, "Ready") == ready
    assert condition_of({"conditions": [{**ready, "status": "False"}]}, "Ready") is None


def test_versions_compare_as_numbers() -> None:
    assert is_older("9", "10")
    assert not is_older("10", "9")
    assert not is_older("x", "10")


def test_an_object_without_identity_is_refused_by_its_field() -> None:
    require_identity(NAMED)
    for name in NAMED:
        with pytest.raises(RejectedError, match=f"metadata.{name}"):
            require_identity({**NAMED, name: "../../"})


def test_who_wrote_which_field_is_not_kept() -> None:
    told: dict[str, Any] = {
        "metadata": {**NAMED, "managedFields": [{"manager": "kubectl"}]},
        "spec": {"a": 1},
    }
    assert unmanaged(told) == {"metadata": NAMED, "spec": {"a": 1}}
    assert "managedFields" in told["metadata"]
    assert unmanaged({"metadata": 7}) == {"metadata": 7}
