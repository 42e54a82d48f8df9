"""Why a job waits, as placement answers."""

from coplace.v1.placement_service_pb2 import ExplainResponse

from services.kueue.model.outlook import Outlook
from shared.kubernetes.placement import PlacementClient
from shared.kubernetes.texts import shown


class PlacementOutlooks:
    """Asks placement, which may be too busy: then nobody knows."""

    def __init__(self, placement: PlacementClient) -> None:
        self._placement = placement

    async def outlook(self, job_id: str) -> Outlook | None:
        """Return why a job waits and when it is expected to start; None where nobody says."""
        answer = await self._placement.explain(job_id)
        return None if answer is None else outlook_of(answer)


def outlook_of(answer: ExplainResponse) -> Outlook:
    """Return what an explanation says of a start: without a cluster none is expected."""
    forecast = answer.forecast
    return Outlook(shown(answer.reason), forecast.start_at_us if forecast.cluster else 0)
