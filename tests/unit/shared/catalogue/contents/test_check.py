"""What each field of an event must be."""

from typing import Any

import pytest
from coplace.v1.jobs_pb2 import JobStarted

from coplace_client.errors import RejectedError
from shared.catalogue.contents.check import check_contents

START: Any = {"job_id": "a", "attempt": 1, "cluster": "p1", "started_at_us": 1_767_225_600_000_000}


def test_a_start_names_its_nodes_by_host_lists_of_any_length() -> None:
    every_other = f"n[{','.join(f'{index:05d}' for index in range(1, 20_000, 2))}]"
    check_contents(JobStarted(**START, nodes=["login1", every_other]))
    for wrong in ("", "n\n1"):
        with pytest.raises(RejectedError, match=r"nodes\[1\]"):
            check_contents(JobStarted(**START, nodes=["login1", wrong]))
