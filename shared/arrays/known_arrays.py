"""Arrays whose tasks have not all ended: whose task an id is."""

from typing import NamedTuple

from coplace.v1.jobs_pb2 import JobSubmitted

from shared.domain.array_tasks import (
    NO_ORDINALS,
    as_task,
    count_of,
    packed,
    parse_tasks,
    unpacked,
    with_ordinal,
)
from shared.streams.state.state import State


class KeptArray(NamedTuple):
    """The indices of an array as they were submitted, and the ordinals of the tasks that ended."""

    indices: str
    ended: bytes = packed(NO_ORDINALS)


class KnownArrays:
    """Kept with the rest of a state, from the submission of an array until its last task ended, or
    the array is forgotten: tasks may run on after what was left in it has ended."""

    def __init__(self, state: State) -> None:
        self._rows = state.table("known-arrays", KeptArray)

    def submit(self, message: JobSubmitted) -> None:
        """Note an array; any other job is none."""
        if message.array and message.job_id not in self._rows:
            self._rows.put(message.job_id, KeptArray(message.array))

    def array_of(self, job_id: str) -> str | None:
        """Return the id of the array that has a task of this id; None where none has."""
        found = self._task(job_id)
        return None if found is None else found[0]

    def end(self, job_id: str) -> str | None:
        """Note that a job ended; return the id of the array that has ended with it, as the last of
        its tasks or by itself."""
        if self._rows.get(job_id) is not None:
            return job_id
        found = self._task(job_id)
        if found is None:
            return None
        array_id, kept, ordinal = found
        ended = with_ordinal(unpacked(kept.ended), ordinal)
        if count_of(ended) < len(parse_tasks(kept.indices)):
            self._rows.put(array_id, kept._replace(ended=packed(ended)))
            return None
        self._rows.drop(array_id)
        return array_id

    def forget(self, array_id: str) -> None:
        """Drop an array; any other job is none."""
        self._rows.drop(array_id)

    def _task(self, job_id: str) -> tuple[str, KeptArray, int] | None:
        named = as_task(job_id)
        kept = self._rows.get(named[0]) if named else None
        if named is None or kept is None:
            return None
        ordinal = parse_tasks(kept.indices).ordinal(named[1])
        return None if ordinal is None else (named[0], kept, ordinal)
