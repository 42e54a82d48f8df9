"""Which barriers of rounds are believed."""

from coplace.v1.control_pb2 import RoundEnded

from coplace_client.errors import RejectedError
from shared.catalogue.topics import TopicSpec
from shared.streams.stages.stage import Round


def check_writer(spec: TopicSpec, source: str) -> None:
    """Raise RejectedError unless one of the topic's producers, or a unit of one, wrote the
    barrier."""
    stage, _, unit = source.rpartition(".")
    if source in spec.producers or (stage in spec.producers and unit.isdecimal()):
        return
    writers = ", ".join(spec.producers)
    raise RejectedError("ce_source", f"{source[:80]!r} does not end rounds here: {writers} may")


def check_number(barrier: RoundEnded, closed: Round | None, *, skips: bool) -> None:
    """Raise RejectedError unless the number can follow that of the last closed round.

    It is the next one, but where records may have been deleted (`skips`) or none was closed yet it
    may be a later one, though no more than one round a microsecond can have passed.
    """
    number, ended_at_us = (closed.number, closed.ended_at_us) if closed else (-1, 0)
    if closed is not None and not skips and barrier.round != number + 1:
        raise RejectedError("round", f"is {barrier.round}, the next one is {number + 1}")
    if barrier.round - number > max(barrier.ended_at_us - ended_at_us, 1):
        problem = f"is {barrier.round} at {barrier.ended_at_us} us, the last was {number}"
        raise RejectedError("round", f"{problem} at {ended_at_us} us: so many cannot have passed")


def check_time(barrier: RoundEnded, closed: Round | None, latest_us: int) -> None:
    """Raise RejectedError for a round that ended before the last one, or later than `latest_us`."""
    if closed is not None and barrier.ended_at_us < closed.ended_at_us:
        problem = f"is {barrier.ended_at_us} us, the last round ended at {closed.ended_at_us} us"
        raise RejectedError("ended_at_us", problem)
    if barrier.ended_at_us > latest_us:
        problem = f"is {barrier.ended_at_us} us, the latest now is {latest_us} us"
        raise RejectedError("ended_at_us", f"{problem}: compare the clocks of the machines")
