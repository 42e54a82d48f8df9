"""What the prediction service remembers, in tables that a changelog rebuilds."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import orjson

from shared.domain.cluster import Cluster
from shared.domain.job import Job

T = TypeVar("T")


class Reading(NamedTuple):
    """The newest readings of one node: their mean."""

    time_us: int
    event_id: str
    node_model: str
    power_w: float


class Traffic(NamedTuple):
    """An application's bandwidth on a node model: its newest run at the highest P-state."""

    freq_ghz: float
    time_us: int
    event_id: str
    mem_gbps: float


class Run(NamedTuple):
    """A finished job: what was asked for, where it ran, and what each of its nodes drew for it."""

    time_us: int
    job: Job
    cluster: str
    freq_ghz: float
    cores_per_node: int
    node_power_w: float


class Pair(NamedTuple):
    """What the shutters of one interval said."""

    time_us: int
    app_id: str
    co_runner_app_id: str
    node_model: str
    slowdown_ratio: float


class Progress(NamedTuple):
    """What was published: the rows that each model was trained on, the known node models; and how
    many rows were forgotten since."""

    runs: int = 0
    pairs: int = 0
    node_models: tuple[str, ...] | None = None
    forgotten_runs: int = 0
    forgotten_pairs: int = 0


class Table(Generic[T]):
    """Values by key, each of them one record of the changelog."""

    def __init__(
        self,
        name: str,
        restored: Mapping[str, bytes],
        encode: Callable[[T], Any],
        decode: Callable[[Any], T],
    ) -> None:
        self._prefix = f"{name}|"
        self._encode = encode
        self._rows = {
            key.removeprefix(self._prefix): decode(orjson.loads(value))
            for key, value in restored.items()
            if key.startswith(self._prefix)
        }
        self._changed: set[str] = set()

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def get(self, key: str) -> T | None:
        """The value of a key, None when there is none."""
        return self._rows.get(key)

    def put(self, key: str, value: T) -> None:
        """Set the value of a key."""
        self._rows[key] = value
        self._changed.add(key)

    def drop(self, key: str) -> T | None:
        """Forget a key; its value."""
        self._changed.add(key)
        return self._rows.pop(key, None)

    def items(self) -> Iterator[tuple[str, T]]:
        """Keys and values, ascending by key."""
        return iter(sorted(self._rows.items(), key=lambda item: item[0]))

    def values(self) -> Iterator[T]:
        """Values, ascending by key."""
        return (value for _, value in self.items())

    def changes(self) -> dict[str, bytes | None]:
        """Records of what changed since the last call."""
        changed, self._changed = self._changed, set()
        return {self._prefix + key: self._record(key) for key in sorted(changed)}

    def _record(self, key: str) -> bytes | None:
        if key not in self._rows:
            return None
        return orjson.dumps(self._encode(self._rows[key]))


class State:
    """All tables."""

    def __init__(self, restored: Mapping[str, bytes]) -> None:
        self.clusters = Table(
            "cluster",
            restored,
            _as_is,
            lambda v: Cluster(**(v | {"pstates_ghz": tuple(v["pstates_ghz"])})),
        )
        self.jobs = Table("job", restored, _as_is, Job.restored)
        self.runs = Table(
            "run",
            restored,
            list,
            lambda v: Run(v[0], Job.restored(v[1]), *v[2:]),
        )
        self.pairs = Table("pair", restored, list, lambda v: Pair(*v))
        self.nodes = Table("node", restored, list, lambda v: Reading(*v))
        self.traffic = Table("traffic", restored, list, lambda v: Traffic(*v))
        self.progress = Table("progress", restored, list, _progress)

    def changes(self) -> dict[str, bytes | None]:
        """Records of what changed since the last call."""
        tables: tuple[Table[Any], ...] = (
            self.clusters,
            self.jobs,
            self.runs,
            self.pairs,
            self.nodes,
            self.traffic,
            self.progress,
        )
        return {key: value for table in tables for key, value in table.changes().items()}


def _as_is(value: T) -> T:
    """JSON knows dataclasses."""
    return value


def _progress(value: list[Any]) -> Progress:
    runs, pairs, node_models, *forgotten = value
    return Progress(runs, pairs, node_models and tuple(node_models), *forgotten)
