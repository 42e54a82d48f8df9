"""Hostile messages of every kind, drawn from the schema and the bounds: the same seed, the same
messages."""

import math
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.energy_pb2 import AppIdMismatch, CoefficientsPublished, SignatureUpdated
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.prediction_pb2 import (
    DegradationModelPublished,
    NodeMetersRead,
    NodePowerMeasured,
    NodePowerPublished,
    PairTreesChosen,
    PairTreesJudged,
    PairTreesPublished,
    PowerHistoryUpdated,
    PowerModelPublished,
    PowerTreesChosen,
    PowerTreesJudged,
    PowerTreesPublished,
    RegressionTrees,
    RunningPowerMeasured,
)
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from coplace_client.bounds import LENGTHS, QUANTITIES
from shared.catalogue.digest import Model, model_sha256
from shared.models import degradation
from shared.models.pair_trees import COLUMNS, PAIRS_ORIGIN, UNIT
from shared.power_prediction.bound import SPREAD_GROUPS
from shared.power_prediction.kinds import MEMORIES, SHAPES
from shared.power_prediction.similar_jobs import ORIGIN, PREDICTORS
from shared.power_prediction.trees import SUBMITTED, TREES_ORIGIN

Field = FieldDescriptor

# Few, so that messages are about the same things; the last ones grow when JSON or UTF-8 write them.
TEXTS: Final = ("alpha", "beta", "m0", "m1", "hpcg", "bt", '"' * 256, "\U0001f600" * 256)
JOBS: Final = tuple(f"north/alpha/{number}/1767225600" for number in range(40))
NODES: Final = ("alpha-0000", "alpha-0001", "alpha-99999", "n[1-3]", "beta-0003")
STRANGE_TEXTS: Final = ("", "a\x00b", "x" * 257, "\u2028", "../..", "x" * 5_000, "\ud7ff", "a,[1-")
STRANGE_FLOATS: Final = (math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7e308, -1.0, 1e15, 1e-9)
STRANGE_INTS: Final = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1)
DAY_US: Final = 86_400_000_000
# What a site says most often comes most often.
KINDS: Final = (
    *(field.name for field in Envelope.DESCRIPTOR.oneofs_by_name["payload"].fields),
    *("job_submitted",) * 8,
    *("job_started", "job_finished") * 3,
    *("signature_measured", "cluster_declared") * 2,
)


class Adversary:
    """Draws messages; `now_us` is the time of the clock."""

    def __init__(self, seed: int, now_us: int, hostility: float = 0.02) -> None:
        self.random = Random(seed)
        self.now_us = now_us
        self.hostility = hostility
        self._drawn = 0

    def envelope(self) -> Envelope:
        """What somebody sends to ingest: mostly what it takes, at the bounds of each field."""
        name = self.random.choice(KINDS)
        found = Envelope(id=self._id(name), source="north", time_us=self._time_us())
        self._fill(getattr(found, name))
        self._consistent(getattr(found, name))
        if self._strange():
            found.id = self.random.choice((*STRANGE_TEXTS, "x" * 1_024, "i" * 1_025))
        if self._strange():
            found.time_us = self.random.choice((*STRANGE_INTS, -1))
        if self._strange():
            found.traceparent = self.random.choice(STRANGE_TEXTS)
        return found

    def internal(self) -> Message:
        """What only stages write, and anybody who may write to their topics."""
        kinds: Sequence[type[Message]] = (
            *(SignatureUpdated, AppIdMismatch, CoefficientsPublished),
            *(PowerModelPublished, DegradationModelPublished, NodePowerPublished),
            *(PowerHistoryUpdated, PowerTreesPublished, PowerTreesChosen, PowerTreesJudged),
            *(PairTreesPublished, PairTreesChosen, PairTreesJudged),
            *(RunningPowerMeasured, NodeMetersRead, NodePowerMeasured),
        )
        found = self.random.choice(kinds)()
        self._fill(found)
        self._consistent(found)
        if isinstance(found, Model) and not self._strange():
            found.sha256 = model_sha256(found)
        return found

    def _id(self, name: str) -> str:
        """Copies come, too."""
        if self.random.random() > 0.02:
            self._drawn += 1
        return f"north/{name}/{self._drawn}"

    def _strange(self) -> bool:
        return self.random.random() < self.hostility

    def _time_us(self) -> int:
        ago_us = self.random.choice((0, 1, 1_000_000, DAY_US, 30 * DAY_US, 3_650 * DAY_US, -DAY_US))
        return self.now_us - ago_us

    def _fill(self, message: Any) -> None:
        for field in message.DESCRIPTOR.fields:
            if field.is_repeated:
                self._fill_list(message, field)
            elif field.type == Field.TYPE_MESSAGE:
                if self.random.random() < 0.8:
                    self._fill(getattr(message, field.name))
            elif self.random.random() < 0.998:
                setattr(message, field.name, self._value(message, field))

    def _fill_list(self, message: Any, field: Field) -> None:
        values = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            self._fill_map(values, field.message_type.fields_by_name["value"])
            return
        for _ in range(self._length(field.name)):
            if field.type == Field.TYPE_MESSAGE:
                self._fill(values.add())
            else:
                values.append(self._value(message, field))
        if field.name == "pstates_ghz" and not self._strange():
            distinct = sorted(set(values))
            del values[:]
            values.extend(distinct)

    def _fill_map(self, values: Any, value: Field) -> None:
        if value.type == Field.TYPE_DOUBLE:
            values["m0"] = self._float("power_w")
            return
        for name in ("gpu", "fpga")[: self.random.randrange(3)]:
            values[self._text(name) if self._strange() else name] = self._int(value)

    def _length(self, name: str) -> int:
        length = LENGTHS.get(name)
        if length is not None and self._strange():
            return min(length.most, 3_600) + self.random.choice((0, 1))
        return self.random.choice((0, 1, 1, 2, 2, 3))

    def _value(self, message: Message, field: Field) -> Any:
        if field.type == Field.TYPE_STRING:
            return self._text(field.name)
        if field.type == Field.TYPE_DOUBLE:
            of_reading = message.DESCRIPTOR.name == "NodeSample"
            return self._float("samples.power_w" if of_reading else field.name)
        if field.type == Field.TYPE_BOOL:
            return self.random.random() < 0.5
        if field.type == Field.TYPE_BYTES:
            return b"\x00" * 32
        if field.enum_type is not None:
            known = [number for number in field.enum_type.values_by_number if number]
            return self.random.choice((0, 99) if self._strange() else known)
        return self._int(field)

    def _text(self, name: str) -> str:
        if self._strange():
            return self.random.choice(STRANGE_TEXTS)
        if name == "job_id" or name.endswith("_job_id"):
            return self.random.choice(JOBS)
        if name in ("node", "nodes", "node_names"):
            return self.random.choice(NODES)
        if name in ("cluster", "reference_cluster", "clusters"):
            return self.random.choice(TEXTS[:2] if self.random.random() < 0.9 else TEXTS)
        if name == "node_model":
            return self.random.choice(TEXTS[2:4])
        if name in ("tpi_scale", "architecture", "architectures"):
            return self.random.choice(TEXTS[:2])
        return self.random.choice(TEXTS)

    def _float(self, name: str) -> float:
        bound = QUANTITIES.get(name)
        if bound is None:
            bound = QUANTITIES["coefficient"]
        if self._strange():
            return self.random.choice((*STRANGE_FLOATS, bound.least - 1, bound.most * 1.01))
        if name.startswith("memory_gib") and self.random.random() < 0.7:
            return 0.0
        between = math.sqrt(max(bound.least, 1e-6) * bound.most)
        return self.random.choice((bound.least, bound.most, between, self.random.uniform(1, 3)))

    def _int(self, field: Field) -> int:
        signed = field.type in (Field.TYPE_INT64, Field.TYPE_SINT32, Field.TYPE_INT32)
        if field.name.endswith("_us") and not self._strange():
            return self._time_us()
        if self._strange():
            wide = field.type in (Field.TYPE_INT64, Field.TYPE_UINT64)
            fits = [i for i in STRANGE_INTS if wide or i < 2 ** (31 if signed else 32)]
            return self.random.choice([-i for i in fits] if signed else fits)
        bound = QUANTITIES.get(field.name)
        if bound is None:
            return self.random.choice((0, 1, 2))
        if field.name in ("attempt", "grant") and self.random.random() < 0.8:
            return 1
        small = self.random.choice((1, 1, 2, 4, 4, 8))
        return self.random.choice((small, small, small, round(bound.least), round(bound.most)))

    def _consistent(self, message: Message) -> None:
        """Tables whose columns fit each other, mostly: the rest is refused at once."""
        if self._strange():
            return
        self._order_times(message)
        if isinstance(message, ClusterDeclared):
            self._name_nodes(message)
        elif isinstance(message, CoefficientsPublished):
            self._tabulate(message)
        elif isinstance(message, DegradationModelPublished):
            self._refill(message.features, degradation.FEATURES)
            self._refill(message.weights, [self._float("weights") for _ in degradation.FEATURES])
        elif isinstance(message, PowerHistoryUpdated):
            self._tabulate_power(message)
        elif isinstance(message, NodePowerPublished):
            self._refill(message.clusters, [self._text("cluster") for _ in message.factors])
            self._refill(message.nodes, [self._text("node") for _ in message.factors])
        else:
            self._consistent_trees(message)

    def _consistent_trees(self, message: Message) -> None:
        if isinstance(message, PowerTreesPublished | PowerTreesChosen):
            self._plant(message)
        elif isinstance(message, PairTreesPublished | PairTreesChosen):
            self._plant_pairs(message)

    def _tabulate(self, message: CoefficientsPublished) -> None:
        """Tables of all pairs of P-states."""
        pairs = range(len(message.pstates_ghz) ** 2)
        for name in "abcdef":
            self._refill(getattr(message, name), [self._float(name) for _ in pairs])
        for name in ("power_sd", "time_sd"):
            self._refill(getattr(message, name), [self._sd() for _ in pairs])
        self._refill(message.available, [self.random.random() < 0.8 for _ in pairs])

    def _plant(self, told: PowerTreesPublished | PowerTreesChosen) -> None:
        """One split over each kind of columns, and the model of new users."""
        message = told.trees if isinstance(told, PowerTreesChosen) else told
        told.version = message.version
        message.origin = TREES_ORIGIN
        message.users.add()
        trees = [message.extra, message.boosted]
        for each in message.users:
            trees += [each.tree, each.forest]
        for tree in trees:
            self._split(tree, len(SUBMITTED), [self._float("log_w") for _ in range(3)])
        message.sha256 = model_sha256(message)

    def _plant_pairs(self, told: PairTreesPublished | PairTreesChosen) -> None:
        """One split, and values whose sums are exact."""
        message = told.trees if isinstance(told, PairTreesChosen) else told
        told.version = message.version
        message.origin = PAIRS_ORIGIN
        values = [self.random.randint(0, 2_000_000) * UNIT for _ in range(3)]
        self._split(message.trees, len(COLUMNS), values)
        message.sha256 = model_sha256(message)

    def _split(self, tree: RegressionTrees, features: int, values: list[float]) -> None:
        """A tree of one split."""
        self._refill(tree.sizes, [3])
        self._refill(tree.feature, [self.random.randint(1, features), 0, 0])
        self._refill(tree.threshold, [self._float("log_w")])
        self._refill(tree.right, [2])
        self._refill(tree.value, values)

    def _refill(self, column: Any, values: Sequence[object]) -> None:
        del column[:]
        column.extend(values)

    def _order_times(self, message: Any) -> None:
        """As they follow one another in the schema, but for what never happened."""
        names = [f.name for f in message.DESCRIPTOR.fields if f.name.endswith("_at_us")]
        times_us = sorted(getattr(message, name) or self._time_us() for name in names)
        for name, time_us in zip(names, times_us, strict=True):
            setattr(message, name, time_us)
        if isinstance(message, JobFinished) and self.random.random() < 0.2:
            message.started_at_us = 0

    def _name_nodes(self, message: ClusterDeclared) -> None:
        del message.node_names[:]
        if self.random.random() < 0.5:
            name = self.random.choice(("n", "alpha-", "😀" * 10))
            message.node_names.append(f"{name}[000001-{message.nodes:06d}]")

    def _sd(self) -> float:
        return self.random.choice((0.0, 10.0, math.nan, 0.1))

    def _tabulate_power(self, message: PowerHistoryUpdated) -> None:
        """As many of everything as this version's tables have."""
        message.origin = ORIGIN
        del message.similar[:], message.margins[:]
        for _ in SHAPES:
            row = message.similar.add(count=self.random.choice((1, 1, 2**63, 0)))
            self._refill(row.mean_log_w, [self._float("log_w") for _ in MEMORIES])
            self._refill(row.newest_log_w, [self._float("log_w")])
            self._refill(row.losses, [self._float("losses") for _ in PREDICTORS])
        for _ in range(SPREAD_GROUPS + 1):
            message.margins.add(
                above_w=self._float("above_w"), above_share=self._float("above_share")
            )
        self._refill(message.spreads_w, [self._float("above_w") for _ in range(SPREAD_GROUPS - 1)])
        self._refill(message.powers_w, [self._float("power_w") for _ in message.job_ids])
