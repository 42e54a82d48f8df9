"""What can go wrong with local servers. Each message says what to do next."""


class LocalServersError(Exception):
    """The local servers cannot do what was asked."""


class PrerequisiteError(LocalServersError):
    """Something that has to be installed is missing or too old."""


class NotRunningError(LocalServersError):
    """No local servers run in the run folder."""


class NotReadyError(LocalServersError):
    """A program ended, or was not ready in time."""
