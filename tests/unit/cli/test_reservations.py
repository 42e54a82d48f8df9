"""`coplace reservation set|remove|list|show`."""

import pytest

from cli import reservations as commands
from cli.times import clock_us, duration_us, time_us
from tests.unit.cli.command_line import IN_FORCE, coplace, published_by, refusal, said, taken
from tests.unit.cli.served import Served
from tests.unit.shared.placement.region import T0_US, placement, reserved, round_of, submitted

_HOUR_US = 3_600_000_000


def test_reservations_are_listed_with_their_nodes_and_what_runs_there() -> None:
    processor = placement(nodes=4)
    chosen = reserved("course", 7200.0, 10800.0, node_count=2, users=["ada"], reason="MPI")
    fans = reserved("fans", 600.0, 3600.0)
    job = submitted("a", walltime_s=60.0, clusters=["p1"])
    round_of(processor, 0, chosen, fans, job)
    with Served(processor) as address:
        words = "--output", "csv", "--placement", address
        listed = said("reservation", "list", *words)
        shown = said("reservation", "show", "p1", "course", *words)
        unknown = refusal("reservation", "show", "p1", "other", "--placement", address)
    head = "cluster,name,nodes,count,allocated,from,until,users,accounts,declared_by,reason"
    fans_row = "p1,fans,all of p1,4,1,2026-01-01T00:10:00Z,2026-01-01T01:00:00Z,,,test,"
    course = "p1,course,p1-[0000-0001],2,1,2026-01-01T02:00:00Z,2026-01-01T03:00:00Z,ada,,test,MPI"
    assert listed.splitlines() == [head, fans_row, course]
    assert shown.splitlines() == [head, course]
    assert "p1 has no reservation 'other'" in unknown


def test_what_is_set_and_removed_is_an_event_that_ingest_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    processor = placement(nodes=4)
    round_of(processor, 0)
    published = published_by(commands, monkeypatch, lambda event: list(processor.handle(event)))
    until = ("--from", "now+1hour", "--for", "2hours", "--reason", "fans")
    words = ("reservation", "set", "p1", "fans", "--node", "p1-[0000-0001]", *until)
    with Served(processor) as address:
        where = "--placement", address, "--source", "operator/bob"
        told = said(*words, *where)
        gone = said("reservation", "remove", "p1", "fans", *where)
    assert told.startswith("reserved fans for nobody (a maintenance) on p1, from ")
    now = "placement now has: fans of p1: p1-[0000-0001] (2 nodes, 0 of them allocated)\n"
    assert told.endswith(f"{IN_FORCE}{now}")
    left = "placement now has: no reservation fans of p1\n"
    assert gone == f"removed fans of p1\n{IN_FORCE}{left}"
    first, second = published
    assert (taken(first).topic, taken(second).topic) == ("commands", "commands")
    message = first.reservation_declared
    assert message.until_us - message.from_us == 2 * _HOUR_US
    assert abs(message.from_us - _HOUR_US - clock_us()) < 60_000_000


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--from", "now"), "give one of --until and --for"),
        (("--until", "now+1hour", "--for", "1hour"), "give one of --until and --for"),
        (("--for", "soon"), "is not a duration such as 90minutes, 4hours or 2days"),
        (("--from", "soon", "--for", "1hour"), "is not a time such as"),
    ],
)
def test_a_time_that_is_none_is_refused(words: tuple[str, ...], told: str) -> None:
    done = coplace("reservation", "set", "p1", "fans", *words)
    assert done.exit_code == 2
    assert told in " ".join(done.stderr.replace("│", "").split())


def test_a_duration_is_parsed_as_it_is_written() -> None:
    assert duration_us("90minutes") == duration_us("1hour") + 30 * 60_000_000
    assert time_us("2026-01-01T00:00:00Z") == T0_US
