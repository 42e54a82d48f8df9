"""What a deployment could not start with, in words."""

from cli.preflight import count_problems, hub_problems, link_problems, linked_topics, name_problems


def test_topics_with_the_declared_counts_and_missing_ones_are_no_problem() -> None:
    assert not list(count_problems({"jobs.events": 12, "audit": 1}, {"jobs.events": 12, "x": 3}))
    assert not list(link_problems("north", is_taken=False))


def test_each_problem_is_reported_with_what_to_do() -> None:
    [count] = count_problems({"jobs.events": 12}, {"jobs.events": 3})
    assert count.startswith("topic jobs.events has 3 Kafka partitions instead of 12: ")
    assert "COPLACE_KAFKA_PARTITIONS" in count
    [name] = name_problems({"north.pricing": ["/10.0.0.2", "/10.0.0.1", "/10.0.0.2"]}, "north")
    assert name.startswith("a process at /10.0.0.1, /10.0.0.2 is already in the consumer group")
    assert "COPLACE_NAMESPACE='north'" in name
    [hub] = hub_problems(["commands", "jobs.events"], {"commands": 1})
    assert hub.startswith("the hub has no topic jobs.events: install the hub first")
    [link] = link_problems("north", is_taken=True)
    assert link.startswith("another process sends to the hub as the site north already")


def test_what_goes_over_the_link_is_what_one_end_writes_and_the_other_reads() -> None:
    assert linked_topics() == {
        *("audit", "billing", "commands", "jobs.events", "telemetry.nodes"),
        *("telemetry.shutters", "telemetry.signatures"),
        *("authority", "command.outcomes", "energy.advice", "placement.decisions"),
    }
