"""What Prometheus sees of a planner that solves."""

from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from shared.planning.searches import Searches


def watch(searches: Searches, meter: Meter) -> None:
    """Count what CP-SAT answers."""

    def counting(count: Callable[[], int]) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _options: [Observation(count())]

    for name, description, count in (
        ("plans_solved", "Plans that CP-SAT was asked for", lambda: searches.plans),
        ("plans_improved", "Those cheaper than the list schedule", lambda: searches.improved),
        (
            "plans_unanswered",
            "Those without an answer in time: the list schedule holds",
            lambda: searches.unanswered,
        ),
    ):
        meter.create_observable_counter(name, [counting(count)], description=description)
