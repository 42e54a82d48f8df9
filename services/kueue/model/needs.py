"""What the pods of a Workload need, as one job of equal units."""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from coplace_client.bounds import NODES
from coplace_client.errors import RejectedError
from shared.kubernetes.units import PodNeeds, amounts, needs_of, pod_amounts
from shared.kueue.workloads import KueueWorkload, PodSet

# A pod that asks for no CPU runs on some all the same.
_LEAST_CPU: Final = Fraction(1)


class SetNeeds(NamedTuple):
    """Pods of one pod set, and what one of them needs."""

    pods: int
    needs: PodNeeds


class WorkloadNeeds(NamedTuple):
    """What a Workload needs. A unit is as large as the largest of its pods: so all of them start
    together, and fit wherever Coplace puts them."""

    pods: int
    unit: PodNeeds
    sets: Sequence[SetNeeds]

    @property
    def millicores(self) -> int:
        """Return the thousandths of a core of all pods together."""
        return sum(each.pods * each.needs.millicores for each in self.sets)

    @property
    def resources(self) -> Mapping[str, int]:
        """Return what all pods have beside cores and memory, by name."""
        found: Counter[str] = Counter()
        for each in self.sets:
            found.update({name: each.pods * n for name, n in each.needs.resources.items()})
        return dict(found)


def workload_needs(workload: KueueWorkload) -> WorkloadNeeds:
    """Return what a Workload needs. Raises RejectedError, which names the field."""
    given = workload.assignments
    found: list[SetNeeds] = []
    for number, each in enumerate(workload.pod_sets):
        assigned = given.get(each.name)
        count = each.count if assigned is None or assigned.count is None else assigned.count
        if count > 0:
            usage = assigned.usage if assigned else {}
            found.append(SetNeeds(count, _pod_needs(number, each, usage, count)))
    pods = sum(each.pods for each in found)
    NODES.require("spec.podSets", pods)
    return WorkloadNeeds(pods, _largest([each.needs for each in found]), found)


def _pod_needs(number: int, pods: PodSet, usage: Mapping[str, Any], count: int) -> PodNeeds:
    """What its template asks for, and what Kueue counts where that is more: the defaults of a
    namespace, and the overhead of a runtime class."""
    where = f"spec.podSets[{number}].template.spec"
    asked = pod_amounts(pods.pod, where)
    counted = amounts("status.admission.podSetAssignments", usage)
    for name, amount in counted.items():
        asked[name] = max(asked.get(name, Fraction(0)), amount / count)
    asked["cpu"] = asked.get("cpu") or _LEAST_CPU
    try:
        return needs_of(asked)
    except RejectedError as error:
        raise error.inside(where) from error


def _largest(needs: Sequence[PodNeeds]) -> PodNeeds:
    resources: Counter[str] = Counter()
    for each in needs:
        resources |= Counter(each.resources)
    return PodNeeds(
        millicores=max(each.millicores for each in needs),
        memory_gib=max(each.memory_gib for each in needs),
        resources=dict(resources),
    )
