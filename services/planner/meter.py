"""What Prometheus sees of a planner that searches for schedules."""

from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from shared.planning.searches import Searches


def watch(searches: Searches, meter: Meter) -> None:
    """Count the results of CP-SAT and of searches over orders."""

    def counting(count: Callable[[], int]) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _options: [Observation(count())]

    for name, description, count in (
        ("plans_solved", "Plans that were searched for", lambda: searches.plans),
        ("plans_improved", "Those cheaper than the list schedule", lambda: searches.improved),
        (
            "plans_unanswered",
            "Those without an answer in time: the list schedule stays in force",
            lambda: searches.unanswered,
        ),
    ):
        meter.create_observable_counter(name, [counting(count)], description=description)
