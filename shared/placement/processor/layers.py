"""What placement is made of: each layer knows those before it."""

from collections.abc import Iterator, Mapping

from google.protobuf.message import Message

from shared.catalogue.policy_settings import PolicySettings
from shared.placement.budgets.layer import BudgetLayer
from shared.placement.decide.layer import DecideLayer
from shared.placement.evaluate.layer import EvaluateLayer
from shared.placement.explain.layer import ExplainLayer
from shared.placement.measures.layer import MeasureLayer
from shared.placement.state.layer import Fold, StateLayer
from shared.streams.state.state import State


class Layers:
    """The layers of one region, restored from a changelog."""

    def __init__(
        self, restored: Mapping[str, bytes], policy: PolicySettings, remember_days: float
    ) -> None:
        self._kept = kept = State(restored)
        self.state = StateLayer(kept, policy, remember_days)
        self.evaluate = EvaluateLayer(self.state)
        self.budgets = BudgetLayer(kept, self.state)
        self.decide = DecideLayer(kept, self.state, self.evaluate, self.budgets)
        self.measures = MeasureLayer(kept, self.state, self.evaluate, self.budgets)
        self.explain = ExplainLayer(self.state, self.evaluate, self.budgets, self.decide)
        kept.require_all_read()
        tables = self.state.folds, self.evaluate.folds, self.budgets.folds, self.decide.folds
        types = {message_type for folds in tables for message_type in folds}
        # By message type what each layer does with it, in their order.
        self.folds: Mapping[type[Message], tuple[Fold, ...]] = {
            each: tuple(folds[each] for folds in tables if each in folds) for each in types
        }

    def due_s(self) -> Iterator[float]:
        """Return when something falls due although nothing happens."""
        for layer in (self.state, self.budgets, self.decide, self.measures, self.explain):
            yield from layer.due_s()

    def changes(self) -> Mapping[str, bytes | None]:
        """Return the records that changed since the last call."""
        return self._kept.changes()
