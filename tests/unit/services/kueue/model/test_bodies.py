"""What is written owns what Coplace says, and takes nothing from others."""

from services.kueue.model.bodies import nominated, pod_set_updates
from shared.kubernetes.names import FREQUENCY_GHZ, GRANT, HOSTNAME, JOB_ID
from shared.kueue.answers import activated, checked
from shared.kueue.names import ADMISSION_MANAGER, WORKLOAD
from shared.kueue.workloads import CheckState, KueueWorkload
from tests.unit.services.kueue.objects import LIVE, NOW_US, OWNED, pod_set, recorded, workload

HOSTNAMES = {"n1": "host-1"}
ADMISSION = {"clusterQueue": "cq", "podSetAssignments": []}


def test_a_nomination_has_all_that_kueue_owns_of_the_status() -> None:
    quota = {"type": "QuotaReserved", "status": "True", "reason": "x"}
    finished = {"type": "Finished", "status": "False", "reason": "x"}
    status = {
        "admission": ADMISSION,
        "conditions": [quota, finished],
        "resourceRequests": ["a", "b"],
        "admissionChecks": [],
    }
    found = workload(status)
    whole = KueueWorkload("alpha", {**found.fields, "metadata": {**found.metadata, **OWNED}})
    body = nominated(whole, ["alpha"], ADMISSION_MANAGER)
    assert body["status"] == {
        "admission": {"clusterQueue": "cq"},
        "conditions": [{"type": "QuotaReserved", "status": "True"}],
        "resourceRequests": ["a"],
        "nominatedClusterNames": ["alpha"],
    }
    assert body["metadata"]["resourceVersion"] == "7"
    assert nominated(found, [], ADMISSION_MANAGER)["status"] == {"nominatedClusterNames": []}


def test_pods_get_their_grant_clock_and_node() -> None:
    [update] = pod_set_updates(
        workload(), recorded(claim=LIVE), "u", selector={}, hostnames=HOSTNAMES, flavors={}
    )
    assert update["labels"] == {WORKLOAD: "u", GRANT: "3"}
    assert update["annotations"][FREQUENCY_GHZ] == "2.1"
    assert update["annotations"][JOB_ID].startswith("north/alpha/physics/job-lu-1a2b/")
    assert update["nodeSelector"] == {HOSTNAME: "host-1"}


def test_a_selector_that_conflicts_is_left_out() -> None:
    """Kueue would end the Workload as failed to start."""
    mine = pod_set()
    mine["template"]["spec"]["nodeSelector"] = {HOSTNAME: "n2"}
    assigned = [{"name": "main", "count": 1, "flavors": {"cpu": "spot"}}]
    found = workload({"admission": {"podSetAssignments": assigned}}, mine)
    [update] = pod_set_updates(
        found,
        recorded(claim=LIVE),
        "u",
        selector={"model": "gold", "zone": "a"},
        hostnames=HOSTNAMES,
        flavors={"spot": {"model": "other"}},
    )
    assert update["nodeSelector"] == {"zone": "a"}


def test_what_kueue_places_by_topology_has_no_node() -> None:
    assigned = [{"name": "main", "count": 1, "topologyAssignment": {"levels": ["rack"]}}]
    found = workload({"admission": {"podSetAssignments": assigned}})
    [update] = pod_set_updates(
        found, recorded(claim=LIVE), "u", selector={}, hostnames=HOSTNAMES, flavors={}
    )
    assert "nodeSelector" not in update


def test_an_answer_is_of_one_line_and_names_its_version() -> None:
    body = checked(workload(), ["a", "b"], CheckState.RETRY, "x\ny", NOW_US, requeue_s=5)
    first, second = body["status"]["admissionChecks"]
    assert first == {**second, "name": "a"}
    assert (first["message"], first["requeueAfterSeconds"]) == ("x y", 5)
    assert "podSetUpdates" not in first


def test_a_check_is_active_at_its_generation() -> None:
    body = activated({"metadata": {"name": "placement", "generation": 3}}, NOW_US)
    [condition] = body["status"]["conditions"]
    assert (body["metadata"], condition["observedGeneration"]) == ({"name": "placement"}, 3)


def test_a_node_without_a_label_is_not_asked_for() -> None:
    record = recorded(claim=LIVE)
    for hostnames in ({}, {"n1": ""}):
        names: dict[str, str] = hostnames
        [update] = pod_set_updates(
            workload(), record, "u", selector={}, hostnames=names, flavors={}
        )
        assert "nodeSelector" not in update
