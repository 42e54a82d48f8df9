"""What is written to Workloads and AdmissionChecks: what Coplace owns of their status.

Each names the version of the object that it was decided on: where that is newer, nothing is changed
(409)."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import orjson

from services.kueue.model.records import WorkloadRecord
from shared.domain.hostlist import expand
from shared.kubernetes.names import FREQUENCY_GHZ, GRANT, HOSTNAME, JOB_ID
from shared.kubernetes.objects import mapping_of, mappings_of, texts_of
from shared.kueue.answers import Body, status_body
from shared.kueue.names import RECALLED, WORKLOAD
from shared.kueue.workloads import KueueWorkload


def nominated(workload: KueueWorkload, clusters: Sequence[str], manager: str) -> Body:
    """Nominate clusters for a Workload, as the manager of its admission: with all else that this
    manager owns, which would be removed without."""
    owned = mapping_of(_owned(workload, manager).get("status"))
    return status_body(workload, {**owned, "nominatedClusterNames": list(clusters)})


def recalled(workload: KueueWorkload, grant: int) -> Body:
    """Note that a grant is recalled. It is a write that an answer on its way meets: what was
    decided before does not count any more."""
    version = {"uid": workload.id.uid, "resourceVersion": workload.resource_version}
    return {"metadata": {**version, "annotations": {RECALLED: str(grant)}}}


def pod_set_updates(
    workload: KueueWorkload,
    record: WorkloadRecord,
    uid: str,
    *,
    selector: Mapping[str, str],
    hostnames: Mapping[str, str],
    flavors: Mapping[str, Mapping[str, str]],
) -> list[Body]:
    """Return what the pods of a Workload get with a start. They carry the `uid` of the Workload
    that was granted. `selector` are labels of the nodes of its cluster, `hostnames` those by which
    pods ask for one, by its name. A label is left out where the template or a flavor asks for
    another value: Kueue would end the Workload."""
    claim = record.claim
    labels = {WORKLOAD: uid, GRANT: str(claim.grant)}
    annotations = {JOB_ID: record.job_id, FREQUENCY_GHZ: f"{claim.freq_ghz:g}"}
    found: list[Body] = []
    for each in workload.pod_sets:
        given = workload.assignments.get(each.name)
        taken = dict(texts_of(each.pod.get("nodeSelector")))
        for name in sorted(given.flavors) if given else ():
            taken |= flavors.get(name, {})
        wanted = dict(selector)
        if not (given and given.has_topology):
            wanted |= _only_node(record, hostnames)
        chosen = {name: told for name, told in wanted.items() if taken.get(name, told) == told}
        update = {"name": each.name, "labels": labels, "annotations": annotations}
        found.append({**update, "nodeSelector": chosen} if chosen else update)
    return found


def let_go_updates(workload: KueueWorkload, record: WorkloadRecord, uid: str) -> list[Body]:
    """Return what the pods of a Workload get that Kueue starts by its own rules: by what Coplace
    knows them."""
    labels = {WORKLOAD: uid, GRANT: str(record.run_label)}
    annotations = {JOB_ID: record.job_id}
    told = {"labels": labels, "annotations": annotations}
    return [{"name": each.name, **told} for each in workload.pod_sets]


def _only_node(record: WorkloadRecord, hostnames: Mapping[str, str]) -> Mapping[str, str]:
    """Labels have one value: where several nodes were decided, Kubernetes chooses."""
    names = [name for each in record.claim.nodes for name in expand(each)]
    label = hostnames.get(names[0], "") if len(names) == 1 else ""
    return {HOSTNAME: label} if label else {}


def _owned(workload: KueueWorkload, manager: str) -> Mapping[str, Any]:
    """Return what a field manager owns of the status of a Workload by server-side apply."""
    for each in mappings_of(workload.metadata.get("managedFields")):
        is_its = each.get("manager") == manager and each.get("operation") == "Apply"
        if is_its and each.get("subresource") == "status":
            return mapping_of(_part(workload.fields, mapping_of(each.get("fieldsV1"))))
    return {}


def _part(told: Any, fields: Mapping[str, Any]) -> Any:
    """Return the part of an object that a set of fields names, as Kubernetes writes these: `f:` is
    a field, `k:` an entry of a list by its keys, `v:` one by its value."""
    if not any(name != "." for name in fields):
        return deepcopy(told)
    if isinstance(told, Mapping):
        own = [(name[2:], more) for name, more in fields.items() if name.startswith("f:")]
        return {name: _part(told[name], mapping_of(more)) for name, more in own if name in told}
    if isinstance(told, list):
        return [each for name, more in fields.items() for each in _entries(told, name, more)]
    return deepcopy(told)


def _entries(told: list[Any], name: str, more: Any) -> list[Any]:
    if name.startswith("v:"):
        value = orjson.loads(name[2:])
        return [value] if value in told else []
    if not name.startswith("k:"):
        return []
    keys = mapping_of(orjson.loads(name[2:]))
    entries = [each for each in mappings_of(told) if keys.items() <= each.items()]
    return [{**keys, **_part(each, mapping_of(more))} for each in entries]
