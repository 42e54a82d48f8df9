"""What a deployment could not start with, in words."""

from cli.preflight import (
    count_problems,
    hub_problems,
    link_problems,
    linked_topics,
    name_problems,
)


def test_topics_with_the_declared_counts_and_missing_ones_are_no_problem() -> None:
    assert not list(count_problems({"jobs.events": 12, "audit": 1}, {"jobs.events": 12, "x": 3}))


def test_a_topic_with_another_count_is_told_with_what_to_do() -> None:
    [told] = count_problems({"jobs.events": 12}, {"jobs.events": 3})
    assert told.startswith("topic jobs.events has 3 Kafka partitions instead of 12: ")
    assert "COPLACE_KAFKA_PARTITIONS" in told


def test_a_name_that_is_taken_is_told_with_who_has_it() -> None:
    [told] = name_problems({"north.pricing": ["/10.0.0.2", "/10.0.0.1", "/10.0.0.2"]}, "north")
    assert told.startswith("somebody at /10.0.0.1, /10.0.0.2 is already in the consumer group")
    assert "COPLACE_NAMESPACE='north'" in told


def test_a_hub_without_the_topics_of_the_link_is_no_hub() -> None:
    [told] = hub_problems(["commands", "jobs.events"], {"commands": 1})
    assert told.startswith("the hub has no topic jobs.events: install the hub first")


def test_a_second_site_of_a_name_is_told() -> None:
    assert not list(link_problems("north", is_taken=False))
    [told] = link_problems("north", is_taken=True)
    assert told.startswith("somebody sends to the hub as the site north already")


def test_what_goes_over_the_link_is_what_one_end_writes_and_the_other_reads() -> None:
    assert linked_topics() == {
        *("audit", "billing", "commands", "jobs.events", "telemetry.nodes"),
        *("telemetry.shutters", "telemetry.signatures"),
        *("authority", "energy.advice", "placement.decisions"),
    }
