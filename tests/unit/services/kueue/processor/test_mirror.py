"""What was seen last counts, whatever order it comes in."""

from typing import Any

import pytest

from coplace_client.errors import RejectedError
from services.kueue.model.records import recording
from services.kueue.processor.mirror import WorkloadMirror
from shared.kubernetes.names import GRANT
from shared.kueue.names import MULTIKUEUE_CHECK, ORIGIN, PLACEMENT_CHECK, WORKLOAD
from shared.kueue.workloads import KueueWorkload
from tests.unit.services.kueue.objects import LIVE, recorded, workload


def mirror(*managers: str) -> WorkloadMirror:
    return WorkloadMirror(lambda each: each.local_id, ["alpha"], managers)


def patched(server: str = "alpha", spec: Any = None, **metadata: Any) -> KueueWorkload:
    found = workload(spec=spec)
    return KueueWorkload(server, {**found.fields, "metadata": {**found.metadata, **metadata}})


def pod(uid: str = "p", grant: int = 3, namespace: str = "physics") -> dict[str, Any]:
    labels = {WORKLOAD: "00000001-alpha", GRANT: str(grant)}
    return {"metadata": {"uid": uid, "namespace": namespace, "labels": labels}, "status": {}}


def kept(version: str = "8", uid: str = "", **more: Any) -> dict[str, Any]:
    """A record as the API server has it."""
    body = dict(recording(workload(), recorded(**more)))
    name = uid or body["metadata"]["name"]
    return {**body, "metadata": {"name": name, "resourceVersion": version}}


def test_an_older_version_does_not_replace_a_newer_one() -> None:
    found = mirror()
    found.put(patched(resourceVersion="9"))
    found.put(patched(resourceVersion="8", labels={"a": "b"}))
    seen = found.workload(workload().id)
    assert seen is not None
    assert seen.labels == {}
    found.put_record("alpha", kept("9", claim=LIVE))
    found.put_record("alpha", kept("8"))
    record = found.record(workload().id)
    assert record is not None
    assert record.claim.is_live


def test_a_record_that_was_dropped_does_not_come_again() -> None:
    found = mirror()
    found.put(workload())
    found.put_record("alpha", kept("8", claim=LIVE))
    found.drop_record(workload().id)
    found.put_record("alpha", kept("9", claim=LIVE))
    assert found.record(workload().id) is None, "what was written before comes late"
    found.note_dropped(workload().id)
    found.put_record("alpha", kept("11"))
    assert found.record(workload().id) is not None


def test_a_record_outlives_its_workload() -> None:
    found = mirror()
    found.put_record("alpha", kept(claim=LIVE))
    seen = found.workload(workload().id)
    assert seen is not None
    assert (seen.key, seen.resource_version) == (workload().key, "")
    assert found.replace_records("alpha", []) == [workload().id]
    assert found.record(workload().id) is None


def test_one_whose_name_is_anothers_was_deleted() -> None:
    found = mirror()
    found.put(patched(uid="newer"))
    found.put_record("alpha", kept(claim=LIVE))
    old = found.workload(workload().id)
    assert old is not None
    assert old.is_deleted_there
    newer = found.at(workload().key)
    assert newer is not None
    assert newer.uid == "newer"


def test_a_record_that_cannot_be_read_is_refused_when_it_is_asked_for() -> None:
    found = mirror()
    found.put(workload())
    found.put_record("alpha", {**kept(), "spec": {"workload": kept()["spec"]["workload"]}})
    with pytest.raises(RejectedError):
        found.record(workload().id)


def test_pods_count_while_their_grant_is_live() -> None:
    found = mirror()
    found.put(workload())
    assert found.see_pod("alpha", pod()) is None
    found.put_record("alpha", kept("8", claim=LIVE))
    assert found.see_pod("alpha", pod()) == workload().id
    assert found.see_pod("alpha", pod("q", grant=2)) is None
    assert found.see_pod("alpha", pod("r", namespace="other")) is None
    assert len(found.pods(workload().id)) == 1
    assert found.lose_pods("alpha", [], 7) == [workload().id]
    assert found.pods(workload().id)[0].is_over
    found.put_record("alpha", kept("9"))
    assert found.pods(workload().id) == ()


def test_what_a_list_does_not_have_was_deleted() -> None:
    found = mirror()
    found.put(workload())
    assert found.replace("beta", []) == []
    assert found.replace("alpha", []) == [workload().id]
    gone = found.workload(workload().id)
    assert gone is not None
    assert gone.is_over
    found.remove(workload().id)
    assert len(found) == 0
    assert found.of_id(workload().local_id) is None


def test_a_copy_is_of_the_workload_of_its_name_at_a_manager() -> None:
    found = mirror("manager")
    root, copy = patched("manager", uid="m"), patched(labels={ORIGIN: "m"})
    found.put(root)
    found.put_record("manager", kept(uid="m", claim=LIVE))
    found.put(copy)
    assert found.is_copy(copy)
    assert not found.is_copy(root)
    assert found.root(copy) == root
    record = found.record(root.id)
    assert record is not None
    assert found.copy(root, record) == copy
    found.note_deleted(copy.id)
    assert found.copy(root, record) is None
    assert not mirror().is_copy(copy), "without a manager of its own it is one like others"


def test_checks_are_those_of_their_controllers() -> None:
    found = mirror("manager")
    multikueue = {"controllerName": MULTIKUEUE_CHECK, "parameters": {"name": "workers"}}
    checks: dict[str, dict[str, Any]] = {
        "placement": {"spec": {"controllerName": PLACEMENT_CHECK}},
        "multikueue": {"spec": multikueue},
        "other": {"spec": {"controllerName": "other"}},
        "odd": {"spec": 7},
    }
    for server in ("manager", "alpha"):
        found.note_checks(server, checks)
    found.note_configs("manager", {"workers": {"spec": {"clusters": ["alpha", "unknown", 7]}}})
    assert found.checks("manager") == (frozenset({"placement"}), {"multikueue": ["alpha"]}, "")
    assert found.checks("alpha") == (frozenset({"placement"}), {}, "alpha")
    found.note_configs("manager", {})
    assert found.checks("manager").dispatched == {}


def test_flavors_have_labels() -> None:
    found = mirror()
    found.note_flavors("alpha", {"spot": {"spec": {"nodeLabels": {"a": "b"}}}, "odd": {}})
    assert found.flavors("alpha") == {"spot": {"a": "b"}, "odd": {}}
    assert found.flavors("beta") == {}
