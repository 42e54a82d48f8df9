"""`coplace licence set|remove|list`."""

import pytest

from cli import licences as commands
from tests.unit.cli.command_line import IN_FORCE, coplace, published_by, said, taken
from tests.unit.cli.served import Served
from tests.unit.shared.placement.region import licences, placement, round_of, submitted


def test_licences_are_listed_with_how_many_are_in_use_and_by_whom() -> None:
    processor = placement(nodes=4)
    there = licences("matlab", 9, "site", reason="bought in May"), licences("ansys", 0, "p2")
    jobs = [submitted(name, licences={"matlab": n}) for name, n in (("a", 2), ("b", 3))]
    round_of(processor, 0, *there, *jobs)
    with Served(processor) as address:
        words = "--output", "csv", "--placement", address
        listed = said("licence", "list", *words)
        of_p1 = said("licence", "list", "p1", *words)
    head = "name,of,count,in use,held by,declared_by,reason"
    matlab = "matlab,site site,9,5,b (3) a (2),test,bought in May"
    assert listed.splitlines() == [head, "ansys,cluster p2,0,0,,test,", matlab]
    assert of_p1.splitlines() == [head, matlab]


def test_what_is_set_and_removed_is_an_event_that_ingest_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    processor = placement(nodes=4)
    round_of(processor, 0)
    published = published_by(commands, monkeypatch, lambda event: list(processor.handle(event)))
    with Served(processor) as address:
        where = "--placement", address, "--source", "operator/bob"
        told = said("licence", "set", "matlab", "5", "--site", "site", *where)
        gone = said("licence", "remove", "matlab", "--site", "site", *where)
        wide = said("licence", "set", "matlab", "0", "--region", *where)
    now = "placement now has: matlab of site site: 5, 0 in use\n"
    assert told == f"declared 5 matlab of site site\n{IN_FORCE}{now}"
    left = "placement now has: no matlab of site site\n"
    assert gone == f"removed matlab of site site\n{IN_FORCE}{left}"
    assert "matlab of the region: 0, 0 in use" in wide
    assert [taken(each).topic for each in published] == ["commands"] * 3
    counts = [each.licences_declared for each in published]
    assert [c.count if c.HasField("count") else None for c in counts] == [5, None, 0]


@pytest.mark.parametrize(
    "where", [(), ("--region", "--site", "north"), ("--cluster", "p1", "--region")]
)
def test_exactly_one_place_is_named(where: tuple[str, ...]) -> None:
    done = coplace("licence", "set", "matlab", "5", *where)
    assert done.exit_code == 2
    assert "give one of --cluster, --site and --region" in " ".join(
        done.stderr.replace("│", "").split()
    )
