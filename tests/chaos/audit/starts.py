"""What resource managers started, by their own journals."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations

from tests.chaos.audit.evidence import Evidence
from tests.chaos.journal import Run


def no_attempt_is_started_twice(evidence: Evidence) -> Iterator[str]:
    """One start a (job, attempt), anywhere and ever."""
    runs: dict[tuple[str, int], list[Run]] = defaultdict(list)
    for run in evidence.world.journal.runs:
        runs[run.key].append(run)
    for key, found in runs.items():
        if len(found) > 1:
            where = ", ".join(f"{run.cluster} at {run.began_us}" for run in found)
            yield f"{key} was started on {where}"


def no_core_is_given_twice(evidence: Evidence) -> Iterator[str]:
    """The runs that are alive on a node at once fit onto its cores."""
    by_node: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in evidence.world.journal.runs:
        for node in run.nodes:
            by_node[run.cluster, node].append(run)
    for (cluster, node), runs in by_node.items():
        # Of a cluster that somebody hostile declared nobody knows what it has.
        cores = evidence.world.journal.cores.get(cluster)
        if cores is not None:
            yield from _crowded(node, runs, cores)


def _crowded(node: str, runs: Iterable[Run], cores: int) -> Iterator[str]:
    for one, other in combinations(runs, 2):
        if one.overlaps(other) and one.cores_per_node + other.cores_per_node > cores:
            yield f"{node} of {cores} cores runs {one.key} and {other.key} at once"
