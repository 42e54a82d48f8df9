"""`coplace limits set|show`."""

import pytest
from coplace.v1.control_pb2 import LIMIT_SUBJECT_ACCOUNT, LIMIT_SUBJECT_QOS, LIMIT_SUBJECT_USER

from cli import limits as commands
from tests.unit.cli.command_line import IN_FORCE, published_by, refusal, said, taken
from tests.unit.cli.served import Served
from tests.unit.shared.placement.region import T0_US, limits, placement, round_of, submitted


def test_limits_are_shown_with_what_is_held_under_them() -> None:
    processor = placement()
    ada = limits(LIMIT_SUBJECT_USER, "ada", most_running_jobs=3, most_nodes=4)
    physics = limits(LIMIT_SUBJECT_ACCOUNT, "physics", most_nodes=9)
    gone = limits(LIMIT_SUBJECT_USER, "bob", most_running_jobs=1)
    no_more = limits(LIMIT_SUBJECT_USER, "bob", T0_US + 1)
    job = submitted("a", nodes=2, user="ada", account="physics")
    round_of(processor, 0, ada, physics, gone, no_more, job)
    with Served(processor) as address:
        shown = said("limits", "show", "--output", "csv", "--placement", address)
    assert shown.splitlines() == [
        "of,name,each,who,jobs,most jobs,nodes,most nodes,cores,most cores,"
        "node-hours,most node-hours,resources,declared_by,site",
        "account,physics,,,1,,2,9,96,,2.0,,,test,",
        "user,ada,,,1,3,2,4,96,,2.0,,,test,",
    ]


def test_limits_of_a_site_are_set_and_shown_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    processor = placement()
    at_site = limits(LIMIT_SUBJECT_QOS, "long", site="site", most_nodes=2)
    job = submitted("a", nodes=2, qos="long")
    round_of(processor, 0, limits(LIMIT_SUBJECT_QOS, "long", most_nodes=9), at_site, job)
    published = published_by(commands, monkeypatch)
    words = ("limits", "set", "qos", "long", "--site", "site", "--nodes", "3")
    with Served(processor) as address:
        listed = ("limits", "show", "--site", "site", "--output", "csv")
        shown = said(*listed, "--placement", address)
        told = said(*words, "--placement", address)
    assert shown.splitlines()[1:] == ["qos,long,,,1,,2,2,96,,2.0,,,test,site"]
    assert told.startswith("declared for qos long at site: at most 3 nodes at once\n")
    assert told.endswith("placement now has: at most 2 nodes at once; 1 jobs run on 2 nodes\n")
    [event] = published
    assert (taken(event).topic, event.limits_declared.site) == ("commands", "site")


def test_what_is_set_is_an_event_that_ingest_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    processor = placement()
    round_of(processor, 0, limits(LIMIT_SUBJECT_USER, "ada", most_nodes=32))
    published = published_by(commands, monkeypatch)
    words = ("limits", "set", "user", "ada", "--nodes", "64", "--source", "operator/bob")
    declared = f"declared for user ada: at most 64 nodes at once\n{IN_FORCE}"
    with Served(processor) as address:
        told = said(*words, "--placement", address)
    now = "at most 32 nodes at once; 0 jobs run on 0 nodes"
    assert told == f"{declared}placement now has: {now}\n"
    nobody = said(*words, "--placement", "127.0.0.1:1")
    assert nobody.startswith(f"{declared}placement now has: it did not say (127.0.0.1:1: ")
    del published[1:]
    [event] = published
    assert (taken(event).topic, taken(event).event.source) == ("commands", "operator/bob")
    assert (event.limits_declared.most_running_jobs, event.limits_declared.most_nodes) == (0, 64)


def test_each_user_of_a_qos_is_given_a_limit_of_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    published = published_by(commands, monkeypatch)
    words = ("--jobs", "3", "--cores", "64", "--resources", "gpu=4,fpga=1", "--node-hours", "100")
    told = said("limits", "set", "qos", "long", "--each", "user", *words)
    assert told.startswith(
        "declared for each user of qos long: at most 3 jobs, 64 cores, 100 node-hours, 1 fpga, "
        "4 gpu at once"
    )
    limit = published[0].limits_declared
    assert (limit.subject, limit.each) == (LIMIT_SUBJECT_QOS, LIMIT_SUBJECT_USER)
    assert (limit.most_cores, dict(limit.most_resources)) == (64, {"gpu": 4, "fpga": 1})
    assert limit.most_node_hours == 100


@pytest.mark.parametrize("resources", ["gpu", "gpu=", "=4", "gpu=x", "gpu=-1"])
def test_what_is_no_count_of_resources_is_refused_in_one_line(resources: str) -> None:
    told = refusal("limits", "set", "user", "ada", "--resources", resources)
    assert "--resources" in told


def test_a_name_that_is_none_is_refused_in_one_line() -> None:
    told = refusal("limits", "set", "user", "", "--nodes", "64")
    assert told.startswith("error: name: must be 1 to 256 printable characters")
