"""Plays an emulated run without a server."""

from collections.abc import Callable

from lab.emulator.answers import Answers
from lab.emulator.emulator import Emulator, RoundOutput
from shared.streams.stages.stage import Round


def play(
    emulator: Emulator,
    publish: Callable[[RoundOutput], None],
    answers_of: Callable[[Round], Answers],
) -> None:
    """Play to the end.

    `publish` gets each round's events, which it must put into the log before the round's
    barrier; `answers_of` returns what was decided on the round and proposed after it. Raises
    StalledError or ImpossibleDecisionError when placement leaves jobs behind or decides what
    cannot be obeyed.
    """
    while not emulator.finished:
        output = emulator.next_round()
        publish(output)
        emulator.apply(*answers_of(output.round))
