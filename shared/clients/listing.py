"""Jobs that placement lists, however many there are."""

from collections.abc import Iterator

import grpc
from coplace.v1.placement_service_pb2 import ListJobsRequest, ListJobsResponse
from coplace.v1.placement_service_pb2_grpc import PlacementServiceStub


def pages_of_jobs(
    channel: grpc.Channel, request: ListJobsRequest, limit: int, within_s: float
) -> Iterator[ListJobsResponse]:
    """Yield answers one after the other, each with what the ones before left over. Raises
    grpc.RpcError."""
    stub = PlacementServiceStub(channel)
    while True:
        request.most = limit - request.skip
        answer: ListJobsResponse = stub.ListJobs(request, timeout=within_s)
        yield answer
        request.skip += len(answer.jobs)
        if not answer.jobs or request.skip >= min(limit, answer.in_all):
            return
