"""What the auditor knows of drained nodes."""

from typing import Any

import pytest
from coplace.v1.control_pb2 import ClusterDeclared, ClusterUndeclared, NodesDrained

from shared.catalogue.event import Event
from tests.chaos.audit.nodes import Words


def said(time_us: int, payload: Any, source: str = "chaos") -> Event:
    return Event(f"{type(payload).__name__}/{time_us}", source, time_us, "region", payload)


DECLARED = said(1, ClusterDeclared(cluster="a", nodes=1))
UNDECLARED = said(5, ClusterUndeclared(cluster="a"))
DRAINED = NodesDrained(cluster="a", nodes=["a-0"])


@pytest.mark.parametrize(
    ("events", "is_drained"),
    [
        pytest.param([DECLARED, said(2, DRAINED)], True, id="drained"),
        pytest.param([DECLARED, said(2, DRAINED), UNDECLARED], False, id="undeclared since"),
        pytest.param([DECLARED, said(9, DRAINED), UNDECLARED], True, id="by an operator, later"),
        pytest.param(
            [DECLARED, said(9, DRAINED, "placement"), UNDECLARED],
            False,
            id="by placement, whose clock was ahead",
        ),
        pytest.param(
            [
                *(DECLARED, UNDECLARED, said(7, DECLARED.payload)),
                *(said(9, DRAINED, "placement"), UNDECLARED),
            ],
            True,
            id="by placement, before a copy that comes late",
        ),
    ],
)
def test_what_is_undeclared_is_drained_no_more(events: list[Event], is_drained: bool) -> None:
    words = Words()
    for event in events:
        words.learn(event)
    assert words.drains("a", "a-0", 10) is is_drained
