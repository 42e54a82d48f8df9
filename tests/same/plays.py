"""What is played, by name: each is all that something decides and charges."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from unittest.mock import patch

from google.protobuf.message import Message
from rich.console import Console

from cli.region_policy import RegionPolicy
from coplace_client.errors import RejectedError
from lab.benchmarks.placement_rounds import Rounds
from lab.demo import embedded
from lab.demo.history import History
from lab.demo.options import DemoOptions
from lab.demo.parity import first_difference
from lab.demo.run import run_embedded, run_on_servers
from shared.catalogue.event import Publish
from shared.streams.stages.stage import Round
from tests.chaos.episode import Episode
from tests.chaos.world import World
from tests.core.life import Life, Watched
from tests.core.systems import script
from tests.same.digests import Digests

JOBS: Final = 150
SEEDS: Final = range(1, 6)
# Each policy meets all four over the seeds, and each seed over the policies.
_CAPS_AND_SHARING: Final = ((True, True), (True, False), (False, True), (False, False))
ROUNDS: Final = 24
_CLUSTERS: Final = 8
_SITUATIONS: Final = {
    "plain": partial(Rounds, _CLUSTERS, is_capped=False),
    "caps and parts of nodes": partial(Rounds, _CLUSTERS, is_capped=True, in_parts=True),
    "plans under caps": partial(Rounds, _CLUSTERS, is_capped=True, planned=3),
    "plans and parts of nodes": partial(
        Rounds, _CLUSTERS, is_capped=False, in_parts=True, planned=3
    ),
}
# The seeds that tests/chaos and tests/core play in every run.
_EPISODES: Final = range(1, 41)
_PLANNED_EPISODES: Final = range(1, 4)
_EPISODE_EVENTS: Final = 600
_SYSTEMS: Final = range(48)
_PARITY_JOBS: Final = 100
_TOPICS: Final = ("placement.decisions", "prices.charges")

Play = Callable[[], Digests]


def plays() -> dict[str, Play]:
    """All of them. Names are "kind: which"; the long ones come first."""
    found: dict[str, Play] = {"parity: seed 1": parity}
    for number, policy in enumerate(RegionPolicy):
        for seed in SEEDS:
            capped, shares = _CAPS_AND_SHARING[(seed + number) % len(_CAPS_AND_SHARING)]
            caps, sharing = "caps" if capped else "no caps", "sharing" if shares else "alone"
            options = DemoOptions(seed, JOBS, policy, caps=capped, sharing=shares)
            found[f"demo: seed {seed}, {policy}, {caps}, {sharing}"] = partial(demo, options)
    for name, made in _SITUATIONS.items():
        found[f"rounds: {name}"] = partial(rounds, made)
    for seed in _EPISODES:
        found[f"chaos: seed {seed}"] = partial(episode, seed, planned=False)
    for seed in _PLANNED_EPISODES:
        found[f"chaos: seed {seed}, planned"] = partial(episode, seed, planned=True)
    for seed in _SYSTEMS:
        found[f"core: seed {seed}"] = partial(system, seed)
    return found


def play(name: str) -> Digests:
    """Play one of them, in whichever process. Raises KeyError for a name that there is not."""
    return plays()[name]()


def demo(options: DemoOptions) -> Digests:
    """`coplace demo`, in memory."""
    history = History.read(embedded.run(options, lambda _jobs: None).topic)
    return Digests.over([*history.decisions, *history.charges])


def parity() -> Digests:
    """`coplace demo-parity`. Raises SystemExit where memory and Kafka differ."""
    with TemporaryDirectory() as folder:
        place, console = Path(folder), Console(quiet=True)
        alone = DemoOptions(jobs=_PARITY_JOBS, out=place / "embedded", workers=2)
        served = DemoOptions(jobs=_PARITY_JOBS, out=place / "kafka", workers=2)
        run_embedded(alone, console)
        run_on_servers(served, console, place / "run")
        if difference := first_difference(alone.out, served.out):
            raise SystemExit(f"memory and Kafka decided or charged other things: {difference}")
    return demo(alone)


def rounds(made: Callable[[], Rounds]) -> Digests:
    """Rounds of `lab.benchmarks.placement_rounds`: all that placement publishes in them."""
    played, published = made(), list[Message]()
    end_round = played.placement.end_round

    def recorded(ended: Round) -> Iterable[Publish]:
        for each in end_round(ended):
            published.append(each.event.payload)
            yield each

    with patch.object(played.placement, "end_round", recorded):
        for number in range(1, ROUNDS + 1):
            played.play(number)
    return Digests.over(published)


def episode(seed: int, *, planned: bool) -> Digests:
    """One seed of the system under its adversary: all in two of its topics."""
    played = Episode(seed, _EPISODE_EVENTS, planned=planned)
    played.play()
    return Digests.over(_payloads(played.world))


def _payloads(world: World) -> Iterator[Message]:
    """What can be read: the adversary writes into these topics too."""
    for place in world.log.partitions():
        if place.topic.endswith(_TOPICS):
            for record in world.log.read(place, 0, 1 << 60):
                with suppress(RejectedError):
                    yield world.codec.decode(record).payload


@dataclass
class _Recorded(Life):
    """A life of a random system that keeps what its placement publishes."""

    published: list[Message] = field(default_factory=list)

    def _placement(self, state: Mapping[str, bytes]) -> Watched:
        made = super()._placement(state)
        end_round = made.end_round

        def recorded(ended: Round) -> Iterable[Publish]:
            for each in end_round(ended):
                self.published.append(each.event.payload)
                yield each

        made.end_round = recorded  # type: ignore[method-assign]
        return made


def system(seed: int) -> Digests:
    """One random system of the scheduling core: what placement publishes in each round."""
    life = _Recorded()
    life.play(script(seed))
    return Digests.over(life.published)
