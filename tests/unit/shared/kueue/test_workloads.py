"""A Workload is read as what it may be."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.kueue.workloads import CheckNames, KueueWorkload, identified
from tests.unit.services.kueue.objects import CHECKS, OWNED, workload

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["conditions", "admissionChecks", "podSets", "name", "type", "count"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(ANYTHING, ANYTHING)
def test_whatever_is_in_it_is_no_failure(spec: Any, status: Any) -> None:
    found = workload()
    found = identified("alpha", {**found.fields, "spec": spec, "status": status})
    for name in ("pods", "checks", "reservation", "eviction", "nominated", "priority", "queue"):
        getattr(found, name)
    assert CHECKS.asks(found) in (True, False)


def test_without_identity_it_is_refused() -> None:
    with pytest.raises(RejectedError, match=r"metadata\.uid"):
        identified("alpha", {"metadata": {"namespace": "physics", "name": "lu"}})


def test_a_reservation_is_another_one_after_an_eviction() -> None:
    before = workload(QuotaReserved="2026-01-01T00:00:00Z")
    stats = {"schedulingStats": {"evictions": [{"count": 1}]}}
    after = workload(stats, QuotaReserved="2026-01-01T00:00:00Z")
    assert before.reservation
    assert before.reservation != after.reservation
    assert not workload().reservation


def test_it_asks_while_it_has_quota_and_a_check_is_pending() -> None:
    at = "2026-01-01T00:00:00Z"
    pending = {"admissionChecks": [{"name": "placement", "state": "Pending"}]}
    ready = {"admissionChecks": [{"name": "placement", "state": "Ready"}]}
    assert CHECKS.asks(workload(pending, QuotaReserved=at))
    assert not CHECKS.asks(workload(pending))
    assert not CHECKS.asks(workload(ready, QuotaReserved=at))
    for name in ("Evicted", "Finished", "Admitted"):
        both: dict[str, Any] = {"QuotaReserved": at, name: at}
        assert not CHECKS.asks(workload(pending, **both)), name


def test_a_nomination_waits_for_all_other_checks() -> None:
    at, sent = "2026-01-01T00:00:00Z", CheckNames(dispatched={"multikueue": ["alpha"]})

    def with_other(state: str, **more: Any) -> KueueWorkload:
        checks = [{"name": "multikueue", "state": "Pending"}, {"name": "other", "state": state}]
        return workload({"admissionChecks": checks, **more}, QuotaReserved=at)

    assert sent.asks(with_other("Ready"))
    assert not sent.asks(with_other("Pending"))
    assert not sent.asks(with_other("Ready", nominatedClusterNames=["alpha"]))
    assert not sent.asks(with_other("Ready", clusterName="alpha"))


def test_what_a_cronjob_makes_is_of_one_name() -> None:
    assert workload(owner="nightly-28391023").owner_name == "nightly"
    assert workload(owner="lu-c").owner_name == "lu-c"


def test_managed_fields_and_templates_are_not_kept() -> None:
    found = workload()
    env = [{"name": "A", "value": "B" * 1000}]
    found.fields["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["env"] = env
    kept = identified("alpha", {**found.fields, "metadata": {**found.metadata, **OWNED}})
    assert "managedFields" not in kept.metadata
    assert "env" not in kept.pod_sets[0].pod["containers"][0]
    assert kept.pod_sets[0].pod["containers"][0]["resources"]
