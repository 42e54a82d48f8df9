"""What resource managers started, by their own journals."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import combinations

from tests.chaos.audit.evidence import Evidence, is_hostile
from tests.chaos.journal import Journal, Run


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
    by_node: dict[tuple[str, str], list[tuple[Run, Fraction]]] = defaultdict(list)
    said_to_have_ended = evidence.said_to_have_ended
    runs = [run for run in evidence.world.journal.runs if run.key not in said_to_have_ended]
    for run in runs:
        for node, units in zip(run.nodes, run.units, strict=True):
            by_node[run.cluster, node].append((run, units * run.of_a_unit))
    for (cluster, node), held in by_node.items():
        # Of a cluster that somebody hostile declared nobody knows what it has.
        cores = evidence.world.journal.cores.get(cluster)
        if cores is not None:
            yield from _crowded(node, held, cores)


def _crowded(node: str, held: Iterable[tuple[Run, Fraction]], cores: int) -> Iterator[str]:
    """There are most at once when one of them begins."""
    found = sorted(held, key=lambda one: one[0].began_us)
    for place, (run, _) in enumerate(found):
        alive = [one for one in found[: place + 1] if one[0].is_alive_at(run.began_us)]
        if sum(count for _, count in alive) > cores:
            names = ", ".join(str(other.key) for other, _ in alive)
            yield f"{node} of {cores} cores runs {names} at once"


def nobody_is_beside_one_who_is_to_be_alone(evidence: Evidence) -> Iterator[str]:
    """Of two that are alive on a node at once both accept neighbours."""
    journal = evidence.world.journal
    by_node: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in journal.runs:
        # What somebody hostile published of his jobs came from several sources.
        if journal.submission(run.job_id) is not None and not is_hostile(run.job_id):
            for node in run.nodes:
                by_node[run.cluster, node].append(run)
    for (cluster, node), runs in by_node.items():
        if cluster in journal.cores:
            for one, other in combinations(runs, 2):
                alone = [r for r in (one, other) if not _shares(journal, r)]
                if alone and one.overlaps(other):
                    yield f"{node} runs {one.key} and {other.key} at once"


def _shares(journal: Journal, run: Run) -> bool:
    submitted = journal.submission(run.job_id)
    return submitted is not None and submitted.shareable
