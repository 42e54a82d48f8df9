"""When jobs that wait would start, and where, if nothing else arrived and every limit held."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shared.scheduling.forward import forward
from shared.scheduling.lane import Lane
from shared.scheduling.load import Load, NodeSet
from shared.scheduling.power import PowerBudget
from shared.scheduling.queue import Entry, Line


@dataclass(frozen=True, slots=True)
class Expected:
    """A start that lies ahead."""

    cluster: str
    start_s: float


def forecast(
    now_s: float,
    lines: Mapping[str, Iterable[Entry]],
    loads: Mapping[str, Load],
    budgets: Mapping[str, Sequence[PowerBudget]] | None = None,
) -> Iterator[tuple[int, Expected]]:
    """The arrival numbers of the jobs in the queue with their expected starts, soonest first:
    as far as it is asked for. `lines` are by cluster, in order.

    Jobs end before their limits and others arrive, so most starts come earlier, and where better
    tiers or priorities arrive some come later. Nobody is expected to share nodes. Left out are
    jobs that fit nowhere as the clusters are, or under no cap. Lines and loads stay as they are,
    `budgets` by cluster, with nothing committed yet, are used up.
    """
    names, under = list(loads), budgets or {}
    lanes = [
        Lane(_copied(load), _alone(lines.get(name, ())), number=number, budgets=under.get(name, ()))
        for number, (name, load) in enumerate(loads.items())
    ]
    ends = [
        (max(held[0], now_s), lane.number, held[1])
        for lane in lanes
        for held in lane.releases.in_order
    ]
    for start_s, (number, entry, _, _) in forward(lanes, now_s, ends, []):
        yield entry.arrival, Expected(names[number], start_s)


def _copied(load: Load) -> Load:
    return Load(load.nodes, load.free, [_lone(s) for s in load.node_sets])


def _alone(entries: Iterable[Entry]) -> Line:
    line = Line()
    for entry in entries:
        line.add(entry._replace(shareable=False))
    return line


def _lone(node_set: NodeSet) -> NodeSet:
    return NodeSet(node_set.nodes, node_set.release_s, draw_mw=node_set.draw_mw)
