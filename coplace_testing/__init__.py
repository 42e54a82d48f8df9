"""A region for other people's tests: see docs/how-to/test-against-coplace.md."""

from coplace_client.errors import RejectedError
from coplace_testing.manager import ObedientManager
from coplace_testing.region import CLUSTERS, Region

__all__ = ["CLUSTERS", "ObedientManager", "Region", "RejectedError"]
