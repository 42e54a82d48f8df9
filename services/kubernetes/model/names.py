"""Labels, annotations and the finalizer by which Coplace and Kubernetes refer to each other.

Users write all of them: what they ask for is read from them, and nothing else (`records.py`)."""

from typing import Final

QUEUE_NAME: Final = "coplace.io/queue-name"
"""Label of a Job: the queue that starts it."""
APP: Final = "coplace.io/app"
"""Label of a Job: the application that it runs, such as lu.C."""
EXCLUSIVE: Final = "coplace.io/exclusive"
"""Annotation of a Job, "true": its nodes are its own."""
PRIORITY: Final = "coplace.io/priority"
"""Annotation of a Job: -100 to 100."""
WALLTIME_S: Final = "coplace.io/walltime-s"
"""Annotation of a Job: the limit that was asked for; the decided one is activeDeadlineSeconds."""

NODE_PER_INDEX: Final = "coplace.io/node-per-index"
"""Annotation of an Indexed Job, "true": each index has a node that no other index is on."""

FINALIZER: Final = "coplace.io/told"
"""On a Job whose end was not published to Coplace yet."""
CLAIM: Final = "coplace.io/claim"
"""Annotation of a Job, for its user to read: what became of its newest grant."""
STOP: Final = "coplace.io/stop"
"""Annotation of a Job, for its user to read: why its run was ended."""
OUTCOME: Final = "coplace.io/outcome"
"""Annotation of a Job, for its user to read: how it ended, or why it never ran."""
PROBLEM: Final = "coplace.io/problem"
"""Annotation of a Job, for its user to read: why Coplace cannot take it."""

MANAGED_BY: Final = "coplace.io/manager"
"""`spec.managedBy` of a Job that may run on other clusters: Coplace says how it goes there."""

COPY_OF: Final = "coplace.io/copy-of"
"""Label of a copy: the cluster where the Job that it runs for was submitted."""
RECORD: Final = "coplace.io/record"
"""Annotation of a copy: the name of the record, in that cluster, that says so."""

JOB_UID: Final = "coplace.io/job-uid"
"""Label of a record: as much of the uid of its Job as the id of that has."""

EXECUTOR: Final = "coplace.io/executor"
"""Label of a Job that an executor runs: its cluster, as the executor knows it."""
ASSIGNMENT: Final = "coplace.io/assignment"
"""Annotation of a Job that an executor runs: the uid of its assignment in the home cluster."""
