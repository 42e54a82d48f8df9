"""Every entry point as a real process on real servers in its empty state, and a planner with each
search: the small form of `make starts`."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deploy.local.servers import LocalServers
from shared.catalogue.topics import ROUND_ENDED, Origin, load_topics
from tests.starts.api_server import empty_api_server
from tests.starts.declared import Value
from tests.starts.entry_points import entry_points
from tests.starts.processes import Namespaces, Outcome, names_one, start

# They wait for servers for a part of their time.
_AT_ONCE = 3
ENTRIES = {each.module: each for each in entry_points()}
SEARCHES = [
    each for each in ENTRIES["services.planner"].values["COPLACE_PLANNER_SEARCH"] if each.is_taken
]
# Of the others none may find what it would have written itself.
TOLD_BY_NOBODY = [
    name
    for name, spec in load_topics().items()
    if spec.origin is Origin.OUTSIDE and ROUND_ENDED in spec.messages
]


@pytest.fixture
def namespaces(servers: LocalServers, tmp_path: Path) -> Iterator[Namespaces]:
    with empty_api_server() as api_server:
        yield Namespaces(servers.kafka_bootstrap, servers.redis_url, api_server, tmp_path)


def test_every_entry_point_comes_up_lives_and_stops_in_its_empty_state(
    namespaces: Namespaces,
) -> None:
    environment = namespaces.make(TOLD_BY_NOBODY)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        outcomes = pool.map(lambda each: start(each, environment, []), ENTRIES.values())
        found = dict(zip(ENTRIES, outcomes, strict=True))
    assert found == dict.fromkeys(ENTRIES, Outcome())


def test_a_planner_of_each_search_lives_through_a_round_without_clusters(
    namespaces: Namespaces,
) -> None:
    planner = ENTRIES["services.planner"]
    places = [namespaces.make(planner.told) for _ in SEARCHES]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lambda at, one: start(planner, at, [one]), places, SEARCHES))
    assert found == [Outcome()] * len(SEARCHES)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("COPLACE_SESSION_TIMEOUT_S", "0.01"),
        ("COPLACE_SESSION_TIMEOUT_S", "1000000"),
        ("COPLACE_KAFKA_SECURITY_PROTOCOL", "SSL"),
    ],
)
def test_a_value_that_this_kafka_does_not_take_is_named(
    namespaces: Namespaces, variable: str, text: str
) -> None:
    entry, tried = ENTRIES["services.ingest.jobcomp"], [Value(variable, text)]
    outcome = start(entry, namespaces.make(entry.told), tried)
    assert names_one(outcome, tried) == tried, outcome
