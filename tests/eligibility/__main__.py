"""`python -m tests.eligibility --seed 1 --minutes 10`: plays one seed after the other."""

import argparse
import sys
import time

from tests.eligibility.array_plays import ArrayPlay
from tests.eligibility.licence_plays import LicencePlay
from tests.eligibility.plays import Play

ROUNDS = 80


def main() -> None:
    """Run the command: it ends with 1 where the oracle objects."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="in each play")
    parser.add_argument("--arrays", action="store_true", help="arrays of tasks")
    parser.add_argument("--licences", action="store_true", help="arrays that need licences")
    arguments = parser.parse_args()
    play: type[Play | ArrayPlay] = ArrayPlay if arguments.arrays else Play
    play = LicencePlay if arguments.licences else play
    began_s, seed, violated = time.monotonic(), arguments.seed, 0
    events = starts = 0
    while time.monotonic() - began_s < 60 * arguments.minutes:
        played = play(seed).play(arguments.rounds)
        events, starts = events + played.events, starts + played.starts
        if played.violations:
            violated += 1
            print(f"seed {seed}:", *played.violations, sep="\n- ", flush=True)
        seed += 1
    plays = seed - arguments.seed
    print(f"{plays} plays, {events} events, {starts} starts, {violated} violated")
    sys.exit(bool(violated))


if __name__ == "__main__":
    main()
