"""`python -m tests.chaos --seed 1 --minutes 10`: episodes one after the other, until time is up or
one is violated."""

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping

from tests.chaos.episode import EVENTS_AN_EPISODE, Episode, Report
from tests.chaos.halving import shortest

_TELL_EVERY_S = 10.0
# Every so many an episode is played twice: the same seed must give the same bytes.
_REPEAT_EVERY = 20


class Simulation:
    """Episodes of consecutive seeds, and their results."""

    def __init__(self, first_seed: int, events: int, kind: Mapping[str, bool]) -> None:
        self._seed, self._events_an_episode = first_seed, events
        self._kind = kind
        self._began_s = self._told_s = time.monotonic()
        self._began_cpu_s = time.process_time()
        self.episodes = self.events = 0
        self.faults: Counter[str] = Counter()

    def run(self, minutes: float, most_episodes: int, *, goes_on: bool) -> Iterator[Report]:
        """Reports with a violation: the first one, or where it `goes_on` all of them."""
        while self.episodes < most_episodes and self._elapsed_s < 60 * minutes:
            report = self._play(self._seed + self.episodes)
            if report.violations:
                yield report
                if not goes_on:
                    return
            self._tell()

    @property
    def summary(self) -> str:
        """What was done so far, and how fast."""
        faults, elapsed_s = self.faults.total(), self._elapsed_s
        cpu_s = time.process_time() - self._began_cpu_s
        done = f"{self.episodes} episodes, {self.events} events, {faults} faults"
        return (
            f"{done} in {elapsed_s:.0f} s ({cpu_s:.0f} s of CPU): "
            f"{self.events / cpu_s:.0f} events and {faults / cpu_s:.1f} faults a CPU second"
        )

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _play(self, seed: int) -> Report:
        report = _played(seed, self._events_an_episode, **self._kind)
        self.episodes += 1
        self.events += report.events
        self.faults += report.faults
        if not report.violations and self.episodes % _REPEAT_EVERY == 0:
            again = _played(seed, self._events_an_episode, **self._kind)
            if again.digest != report.digest:
                raise SystemExit(f"seed {seed} gives other bytes when it is played again")
        return report

    def _tell(self) -> None:
        if time.monotonic() - self._told_s >= _TELL_EVERY_S:
            self._told_s = time.monotonic()
            print(self.summary, flush=True)


def _played(seed: int, events: int, **kind: bool) -> Report:
    """One episode, and no trace of its world: whose parts know each other, so that only the
    collector of cycles ends it. It has nothing to find before, and need not look again at what is
    left."""
    report = Episode(seed, events, **kind).play()  # type: ignore[arg-type]
    gc.collect()
    gc.freeze()
    return report


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first episode; 0: a fresh one")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--episodes", type=int, default=1 << 60, help="at most so many")
    parser.add_argument("--events", type=int, default=EVENTS_AN_EPISODE, help="in an episode")
    parser.add_argument("--keep-going", action="store_true", help="also after a violation")
    parser.add_argument("--trace", action="store_true", help="print the faults of a violation")
    parser.add_argument("--planned", action="store_true", help="with planners at work")
    parser.add_argument("--timed", action="store_true", help="jobs say when they may start")
    parser.add_argument("--asking", action="store_true", help="and ask for all that a job can")
    arguments = parser.parse_args()
    first = arguments.seed or time.time_ns() // 1_000_000_000
    print(f"seed {first}", flush=True)
    gc.disable()
    gc.freeze()
    kind = {name: getattr(arguments, name) for name in ("planned", "timed", "asking")}
    simulation = Simulation(first, arguments.events, kind)
    violated = []
    for found in simulation.run(
        arguments.minutes, arguments.episodes, goes_on=arguments.keep_going
    ):
        violated.append(found)
        print(f"seed {found.seed}:", *found.violations[:3], sep="\n- ", flush=True)
    print(f"{simulation.summary}, {len(violated)} violated")
    for name, count in sorted(simulation.faults.items()):
        print(f"  {count:8d} {name.replace('_', ' ')}")
    if violated:
        of = violated[0].seed

        def play(events: int) -> Report:
            return _played(of, events, **kind)

        found = shortest(play(arguments.events), play, least=1)
        _fail(found, [name for name, is_so in kind.items() if is_so], is_traced=arguments.trace)


def _fail(report: Report, kinds: list[str], *, is_traced: bool) -> None:
    print(f"\nseed {report.seed} is violated within {report.events} events:")
    for violation in report.violations:
        print(f"- {violation}")
    if is_traced:
        print(*report.trace, sep="\n")
    print(
        f"\nreplay: .venv/bin/python -m tests.chaos --seed {report.seed} --episodes 1 "
        f"--events {report.events} --trace{''.join(f' --{kind}' for kind in kinds)}"
    )
    sys.exit(1)


if __name__ == "__main__":
    main()
