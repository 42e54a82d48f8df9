"""Plays an emulated run without a server."""

from collections.abc import Callable, Sequence

from coplace.v1.placement_pb2 import PlacementDecided

from services.emulator.emulator import Emulator, RoundOutput
from shared.messaging.stage import Round


def play(
    emulator: Emulator,
    publish: Callable[[RoundOutput], None],
    decisions_of: Callable[[Round], Sequence[PlacementDecided]],
) -> None:
    """Play to the end.

    `publish` is told each round's events, which it must put into the log before the round's
    barrier; `decisions_of` returns what was decided on the round. Raises StalledError or
    ImpossibleDecisionError when placement leaves jobs behind or decides what cannot be obeyed.
    """
    while not emulator.finished:
        output = emulator.next_round()
        publish(output)
        emulator.apply(decisions_of(output.round))
