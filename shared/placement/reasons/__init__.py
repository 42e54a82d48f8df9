"""Why a job waits, and what it has to expect."""
