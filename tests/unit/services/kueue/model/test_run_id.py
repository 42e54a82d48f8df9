"""A pod says by its labels which Workload and which grant it runs for."""

from services.kueue.model.run_id import RunId, run_of
from shared.kubernetes.names import GRANT
from shared.kueue.names import WORKLOAD


def test_it_says_whose_it_is() -> None:
    assert run_of({"metadata": {"labels": {WORKLOAD: "w", GRANT: "3"}}}) == RunId("w", 3)
    assert run_of({"metadata": {"labels": {WORKLOAD: "w", GRANT: "x"}}}) is None
    assert run_of({}) is None
