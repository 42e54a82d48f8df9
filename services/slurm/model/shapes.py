"""What Slurm knows of its nodes and placement does not, as far as jobs ask for it: pure."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from services.slurm.model.jobs import SlurmJob
from shared.domain.folding import fold
from shared.slurm.answers import number, text, texts
from shared.slurm.gres import gres_counts


class NodeShape(NamedTuple):
    """A node; or the most of several, as far as that matters. `threads` are CPUs of a core."""

    cpus: int
    sockets: int = 1
    cores_per_socket: int = 1
    threads: int = 1
    tmp_disk_mib: int = 0
    gres: Mapping[str, int] = MappingProxyType({})

    @classmethod
    def of_node(cls, node: Mapping[str, Any]) -> Self:
        """Return that of a node as Slurm's JSON has it."""
        cpus, sockets = (number(node.get(name)) or 1 for name in ("cpus", "sockets"))
        cores = number(node.get("cores")) or 1
        threads = cpus // (sockets * cores) if cpus % (sockets * cores) == 0 else 1
        disk_mib = number(node.get("temporary_disk")) or 0
        return cls(
            cpus, sockets, cores, max(threads, 1), disk_mib, gres_counts(text(node.get("gres")))
        )

    def suits(self, job: SlurmJob) -> bool:
        """Return whether Slurm would take this node for a job, by what a job asks of a node and
        placement knows nothing of."""
        return all(
            wanted <= had
            for wanted, had in (
                (job.asked("minimum_tmp_disk_per_node"), self.tmp_disk_mib),
                (job.asked("sockets_per_node"), self.sockets),
                (job.asked("cores_per_socket"), self.cores_per_socket),
                (job.asked("threads_per_core"), self.threads),
            )
        )


class NodeShapes:
    """The nodes of a Slurm by their names, and by their partitions."""

    def __init__(self, nodes: Iterable[Mapping[str, Any]] = ()) -> None:
        self._by_name: dict[str, NodeShape] = {}
        self._in: dict[str, list[str]] = {}
        self._most: dict[tuple[str, ...], NodeShape | None] = {}
        for node in nodes:
            if name := text(node.get("name")):
                self._by_name[name] = NodeShape.of_node(node)
                for partition in texts(node.get("partitions")):
                    self._in.setdefault(partition, []).append(name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NodeShapes):
            return NotImplemented
        return (self._by_name, self._in) == (other._by_name, other._in)

    __hash__ = None  # type: ignore[assignment]

    def most(self, job: SlurmJob) -> NodeShape | None:
        """Return the most that a node has on which a job may run; None where Slurm shows no such
        node."""
        key = tuple(job.partitions)
        if key not in self._most:
            self._most[key] = _most([self._by_name[name] for name in self._names(key)])
        return self._most[key]

    def unsuited(self, job: SlurmJob) -> list[str]:
        """Return the nodes on which it may not run for what it asks of a node, as host lists."""
        names = self._names(tuple(job.partitions)) if job.asks_of_nodes else ()
        return fold([name for name in names if not self._by_name[name].suits(job)])

    def but(self, job: SlurmJob, names: Iterable[str]) -> list[str]:
        """Return the other nodes on which a job may run by its partitions, as host lists."""
        kept = {*names}
        return fold([name for name in self._names(tuple(job.partitions)) if name not in kept])

    def _names(self, partitions: Sequence[str]) -> Iterable[str]:
        return dict.fromkeys(name for each in partitions for name in self._in.get(each, ()))


def _most(shapes: Sequence[NodeShape]) -> NodeShape | None:
    if not shapes:
        return None
    gres: dict[str, int] = {}
    for shape in shapes:
        for name, count in shape.gres.items():
            gres[name] = max(count, gres.get(name, 0))
    return NodeShape(
        cpus=max(shape.cpus for shape in shapes),
        threads=max(shape.threads for shape in shapes),
        gres=gres,
    )
