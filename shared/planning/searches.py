"""What became of the searches for plans."""

from dataclasses import dataclass


@dataclass(slots=True)
class Searches:
    """How many plans were looked for: without an answer in time, which is the list schedule then,
    and those that came out cheaper than it."""

    plans: int = 0
    unanswered: int = 0
    improved: int = 0
