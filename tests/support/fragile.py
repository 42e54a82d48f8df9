"""A processor that fails at what its input names, and the stage that runs it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.pricing_pb2 import ChargeMade

from shared.catalogue.event import Event, Publish
from shared.domain.rounds import RoundSource
from shared.streams.stages.quarantine import Fault
from shared.streams.stages.stage import Processor, Round, Stage
from tests.support.deaths import die


@dataclass
class Fragile:
    """Charges at the end of a round the jobs that came, and meets bugs by their names.

    `poison...` fails when it comes, `pair...` when its user has another pair, `big...` makes an
    output that is too large, `undecidable...` fails at the end of its round. `deadly...` kills its
    process when it comes, `fatal...` at the end of its round.
    """

    waiting: dict[str, str] = field(default_factory=dict)
    pairs: set[str] = field(default_factory=set)

    def handle(self, event: Event) -> Iterable[Publish]:
        """Let a job wait for the end of the round."""
        assert isinstance(event.payload, JobSubmitted)
        job, user = event.payload.job_id, event.payload.user
        if job.startswith("poison"):
            raise KeyError("a bug in the processor")
        if job.startswith("deadly"):
            die()
        if job.startswith("pair"):
            if user in self.pairs:
                raise ZeroDivisionError("two of a pair")
            self.pairs.add(user)
        self.waiting[job] = user
        if job.startswith("big"):
            yield self._charge(job, "x" * 2_000_000, event.time_us)

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Charge what waits."""
        waiting, self.waiting = self.waiting, {}
        for job in sorted(waiting):
            if job.startswith("undecidable"):
                raise IndexError("a bug in a decision")
            if job.startswith("fatal"):
                die()
            yield self._charge(job, waiting[job], ended.ended_at_us)

    def changes(self) -> Mapping[str, bytes | None]:
        """All there is, as one value."""
        return {"state": json.dumps([self.waiting, sorted(self.pairs)]).encode()}

    def _charge(self, job: str, user: str, time_us: int) -> Publish:
        charge = ChargeMade(job_id=job, user=user)
        return Publish("prices.charges", Event(f"c/{job}", "c", time_us, job, charge))


@dataclass
class FragileThatTells(Fragile):
    """The same, but it can hold single jobs back."""

    held: dict[str, str] = field(default_factory=dict)

    def suspects(self) -> Sequence[str]:
        """The jobs that wait."""
        return sorted(self.waiting)

    def hold_back(self, subject: str, fault: Fault, _ended: Round) -> None:
        """Keep a job out."""
        if self.waiting.pop(subject, None) is not None:
            self.held[subject] = fault.digest

    def changes(self) -> Mapping[str, bytes | None]:
        """All there is, as two values."""
        return {**super().changes(), "held": json.dumps(self.held).encode()}


def fragile(
    name: str = "counting",
    *,
    single: bool = False,
    rounds: RoundSource = RoundSource.BARRIERS,
    tells: bool = True,
) -> Stage:
    """A stage from jobs.events to prices.charges."""

    def create(_number: int, restored: Mapping[str, bytes]) -> Processor:
        waiting, pairs = json.loads(restored.get("state", b"[{}, []]"))
        if not tells:
            return Fragile(waiting, set(pairs))
        return FragileThatTells(waiting, set(pairs), json.loads(restored.get("held", b"{}")))

    return Stage(name, ("jobs.events",), ("prices.charges",), create, single, rounds)
