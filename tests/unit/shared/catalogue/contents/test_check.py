"""What each field of an event must be."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from coplace.v1.jobs_pb2 import JobStarted
from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from shared.catalogue.contents.check import check_all_contents, check_contents
from shared.catalogue.topics import load_topics
from tests.attacks.distortion import distorted, examples
from tests.support.seeds import of_each_seed

START: Any = {"job_id": "a", "attempt": 1, "cluster": "p1", "started_at_us": 1_767_225_600_000_000}


def test_a_start_names_its_nodes_by_host_lists_of_any_length() -> None:
    every_other = f"n[{','.join(f'{index:05d}' for index in range(1, 20_000, 2))}]"
    check_contents(JobStarted(**START, nodes=["login1", every_other]))
    for wrong in ("", "n\n1"):
        with pytest.raises(RejectedError, match=r"nodes\[1\]"):
            check_contents(JobStarted(**START, nodes=["login1", wrong]))


@of_each_seed(range(4))
def test_who_wants_to_know_all_is_answered_the_first_that_others_are(seed: int) -> None:
    rng, several = Random(seed), 0
    messages = examples(load_topics())
    for _ in range(1_000):
        message = distorted(rng.choice(messages), rng)
        first = rejection(check_contents, message)
        every = rejection(check_all_contents, message)
        assert str(first) == str(every)
        if every is not None:
            fields = [each.field for each in every.each()]
            several += len(fields) > 1
    assert several > 100


def rejection(check: Callable[[Message], None], message: Message) -> RejectedError | None:
    try:
        check(message)
    except RejectedError as error:
        return error
    return None
