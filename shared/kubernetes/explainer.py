"""Why a job waits, as placement answers."""

from coplace.v1.placement_service_pb2 import ExplainResponse

from shared.kubernetes.explained_wait import ExplainedWait
from shared.kubernetes.placement import PlacementClient
from shared.kubernetes.texts import shown


class PlacementExplainer:
    """Asks placement, which may be too busy: then nobody knows."""

    def __init__(self, placement: PlacementClient) -> None:
        self._placement = placement

    async def explain(self, job_id: str) -> ExplainedWait | None:
        """Return why a job waits and when it is expected to start; None where nobody says."""
        answer = await self._placement.explain(job_id)
        return None if answer is None else explained_wait_of(answer)


def explained_wait_of(answer: ExplainResponse) -> ExplainedWait:
    """Return what an explanation says of a start: without a cluster none is expected."""
    forecast = answer.forecast
    return ExplainedWait(shown(answer.reason), forecast.start_at_us if forecast.cluster else 0)
