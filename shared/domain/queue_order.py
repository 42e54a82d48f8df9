"""Who orders the jobs that wait, where a site chooses it."""

from enum import StrEnum


class QueueOrder(StrEnum):
    """Coplace orders them by tier, priority and arrival, or resource managers by priorities of
    their own."""

    COPLACE = "coplace"
    MANAGER = "manager"
