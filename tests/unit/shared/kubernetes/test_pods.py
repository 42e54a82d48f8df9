"""A run is from the last pod's Ready to the last pod's end."""

from typing import Any

from shared.kubernetes.pods import (
    RunPod,
    all_ready_us,
    begun_us,
    ended_us,
    read_pod,
    removed_pod,
    trimmed_pod,
    units_by_node,
    why_not_ready,
)

SECOND_US = 1_000_000
T0_US = 1_767_225_600 * SECOND_US


def pod(phase: str = "Running", ready: str = "", **state: dict[str, str]) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": ready}] if ready else []
    status = {"phase": phase, "conditions": conditions, "containerStatuses": [{"state": state}]}
    metadata = {"uid": "p", "namespace": "physics"}
    return {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": status}


def test_one_that_has_ended_still_knows_when_it_was_ready() -> None:
    ready = read_pod(pod(ready="2026-01-01T00:00:05Z"))
    over = {"startedAt": "2026-01-01T00:00:01Z", "finishedAt": "2026-01-01T00:01:00Z"}
    found = read_pod(pod("Succeeded", terminated=over), ready)
    assert found.ready_us == T0_US + 5 * SECOND_US
    assert found.ended_us == T0_US + 60 * SECOND_US
    assert found.is_over
    unseen = read_pod(pod("Succeeded", terminated=over))
    assert unseen.began_us == T0_US + 1 * SECOND_US


def test_a_restarted_container_does_not_end_its_pod() -> None:
    over = {"startedAt": "2026-01-01T00:00:01Z", "finishedAt": "2026-01-01T00:00:02Z"}
    found = read_pod(pod("Running", terminated=over))
    assert (found.is_over, found.ended_us) == (False, 0)


def test_one_that_was_deleted_ended_when_its_container_did_or_now() -> None:
    over = {"finishedAt": "2026-01-01T00:00:02Z"}
    assert removed_pod(pod("Failed", terminated=over), None, 7).ended_us == T0_US + 2 * SECOND_US
    assert removed_pod(pod(), None, 7).ended_us == 7


def test_a_run_begins_with_the_last_of_as_many_pods_as_there_are() -> None:
    pods = [RunPod(str(at), "", ready_us=at) for at in (30, 10, 20)]
    assert all_ready_us(pods, 3) == 30
    assert all_ready_us(pods, 2) == 20, "a later pod takes the place of one that ended"
    assert all_ready_us(pods, 4) == 0
    assert all_ready_us([], 0) == 0


def test_a_run_whose_pods_were_never_ready_begins_when_they_ran() -> None:
    pods = [RunPod("a", "", started_us=10), RunPod("b", "", started_us=20), RunPod("c", "")]
    assert all_ready_us(pods, 2) == 0
    assert begun_us(pods, 2) == 20
    assert begun_us([RunPod("c", "")], 2) == 0


def test_the_last_end_counts() -> None:
    ran = [RunPod("a", "", started_us=1, ended_us=5), RunPod("b", "", ready_us=2, ended_us=9)]
    assert ended_us(ran) == 9
    never_ran = removed_pod(pod("Pending"), None, 70)
    assert ended_us([*ran, never_ran]) == 9, "a run does not last until what never ran is deleted"
    assert ended_us([never_ran]) == 0
    assert units_by_node([RunPod("a", "", "n1"), RunPod("b", "", "n1"), RunPod("c", "")]) == {
        "n1": 2
    }


def test_of_a_pod_is_kept_what_is_read() -> None:
    whole = pod(ready="2026-01-01T00:00:05Z")
    whole["spec"]["containers"] = [{"env": ["x"] * 100}]
    kept = trimmed_pod(whole)
    assert "containers" not in kept["spec"]
    assert (kept["metadata"]["uid"], read_pod(kept)) == ("p", read_pod(whole))
    assert read_pod(trimmed_pod({})).uid == "None"


def test_one_that_waits_says_for_what() -> None:
    pulls = {"reason": "ImagePullBackOff", "message": "no such image"}
    volume = [{"type": "PodScheduled", "status": "False", "message": 'no claim "data"'}]
    unscheduled = {"metadata": {"uid": "q"}, "status": {"phase": "Pending", "conditions": volume}}
    waits = [read_pod(pod("Pending", waiting=pulls)), read_pod(unscheduled)]
    assert why_not_ready(waits) == "ImagePullBackOff: no such image"
    assert why_not_ready(waits[1:]) == 'no claim "data"'
    assert why_not_ready([]) == "it has no pods: see the events of the Job"
    ready = read_pod(pod(ready="2026-01-01T00:00:05Z"), waits[0])
    assert ready.waits_for == ""


def test_one_whose_node_says_nothing_of_containers_ran_since_its_node_had_it() -> None:
    told = {"metadata": {"uid": "p"}, "status": {"startTime": "2026-01-01T00:00:05Z"}}
    told["status"]["phase"] = "Succeeded"
    assert read_pod(told).began_us == T0_US + 5 * SECOND_US
    told["status"]["phase"] = "Failed"  # it may never have run
    assert read_pod(told).began_us == 0
