"""Why a job waits is what placement answers."""

import asyncio
from unittest.mock import AsyncMock, Mock

from coplace.v1.placement_service_pb2 import ExplainResponse, Forecast

from shared.kubernetes.explained_wait import ExplainedWait
from shared.kubernetes.explainer import PlacementExplainer, explained_wait_of


def test_without_a_cluster_no_start_is_expected() -> None:
    answer = ExplainResponse(reason="no nodes", forecast=Forecast(cluster="alpha", start_at_us=7))
    assert explained_wait_of(answer) == ExplainedWait("no nodes", 7)
    answer.forecast.cluster = ""
    assert explained_wait_of(answer) == ExplainedWait("no nodes", 0)


def test_a_placement_that_does_not_answer_says_nothing() -> None:
    placement = Mock(explain=AsyncMock(return_value=None))
    assert asyncio.run(PlacementExplainer(placement).explain("j")) is None
