"""`python -m tests.chaos.rights --seed 1 --events 1000000`: plays one after the other, until so
many events reached the door, time is up, or one is violated."""

import argparse
import gc
import sys
import time
from collections import Counter

from tests.chaos.halving import shortest
from tests.chaos.rights.play import EVENTS_A_PLAY, Play, PlayReport
from tests.chaos.rights.region import Act

_TELL_EVERY_S = 20.0


class Plays:
    """Plays of consecutive seeds, and what came of them."""

    def __init__(self, first_seed: int) -> None:
        self._seed = first_seed
        self._began_s = self._told_s = time.monotonic()
        self.plays = self.events = self.checks = self.runs = 0
        self.acts: Counter[tuple[Act, bool]] = Counter()
        self.unjust: Counter[tuple[str, str]] = Counter()
        self.violated: list[PlayReport] = []

    def run(self, events: int, minutes: float, *, goes_on: bool) -> None:
        """Play until so many events reached the door, or time is up; at a violation, unless it
        `goes_on`, no further."""
        while self.events < events and time.monotonic() - self._began_s < 60 * minutes:
            self._play(self._seed + self.plays)
            if self.violated and not goes_on:
                return
            if time.monotonic() - self._told_s >= _TELL_EVERY_S:
                self._told_s = time.monotonic()
                print(self.summary, flush=True)

    @property
    def summary(self) -> str:
        """What was done so far."""
        elapsed_s = time.monotonic() - self._began_s
        done = f"{self.plays} plays, {self.events} events, {self.runs} runs, {self.checks} looks"
        return f"{done} in {elapsed_s:.0f} s, {len(self.violated)} violated"

    @property
    def table(self) -> list[str]:
        """How often each kind of act came of each kind of credential, and how much was taken."""
        names = {(act.credential, act.kind, act.is_rightful) for act, _ in self.acts}
        rows = []
        for credential, kind, is_rightful in sorted(names, key=lambda name: (not name[2], name)):
            act = Act(credential, kind, is_rightful)
            taken, refused = self.acts[act, True], self.acts[act, False]
            word = "true" if is_rightful else "lie"
            rows.append(f"{word:5s} {credential:17s} {kind:30s} {taken:9d} {refused:9d}")
        rightful = sum(
            count for (act, is_taken), count in self.acts.items() if act.is_rightful and is_taken
        )
        share = rightful / max(1, self.acts.total())
        rows.append(f"of all acts {share:.0%} were rightful and taken")
        return rows

    def _play(self, seed: int) -> None:
        report = Play(seed).run()
        gc.collect()
        gc.freeze()
        self.plays += 1
        self.events += report.events
        self.checks += report.checks
        self.runs += report.runs
        self.acts += report.acts
        self.unjust += report.unjust
        if report.violations:
            self.violated.append(report)
            print(f"seed {seed}:", *report.violations[:5], sep="\n- ", flush=True)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first play; 0: a fresh one")
    parser.add_argument("--events", type=int, default=1 << 60, help="in all")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--play", type=int, default=0, help="this seed alone, for so many events")
    parser.add_argument("--keep-going", action="store_true", help="also after a violation")
    arguments = parser.parse_args()
    first = arguments.seed or time.time_ns() // 1_000_000_000
    print(f"seed {first}", flush=True)
    if arguments.play:
        _fail(Play(first, arguments.play).run())
        return
    gc.freeze()
    plays = Plays(first)
    plays.run(arguments.events, arguments.minutes, goes_on=arguments.keep_going)
    print(f"{'':5s} {'credential':17s} {'kind':30s} {'taken':>9s} {'refused':>9s}")
    print(*plays.table, sep="\n")
    for (kind, reason), count in plays.unjust.most_common(20):
        print(f"  {count:7d} true, and refused: {kind}: {reason}")
    print(plays.summary)
    if plays.violated:
        seed = plays.violated[0].seed
        _fail(shortest(Play(seed).run(), lambda events: Play(seed, events).run(), least=2))


def _fail(report: PlayReport) -> None:
    if not report.violations:
        print(f"seed {report.seed} is not violated within {report.events} events")
        return
    print(f"\nseed {report.seed} is violated within {report.events} events of {EVENTS_A_PLAY}:")
    print(*(f"- {violation}" for violation in report.violations), sep="\n")
    print(
        f"\nreplay: .venv/bin/python -m tests.chaos.rights --seed {report.seed} "
        f"--play {report.events}"
    )
    sys.exit(1)


if __name__ == "__main__":
    main()
