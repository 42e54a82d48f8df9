"""Labels and annotations by which Coplace and Kubernetes refer to each other."""

from typing import Final

GRANT: Final = "coplace.io/grant"
"""Label of pods, and of a copied Job: the grant that they run under."""
FREQUENCY_GHZ: Final = "coplace.io/frequency-ghz"
"""Annotation of pods: the clock that was decided, for whoever sets it on the node."""
JOB_ID: Final = "coplace.io/job-id"
"""Annotation of pods and of what they are of: the id that Coplace knows the job by."""

HOSTNAME: Final = "kubernetes.io/hostname"
"""Label of a node by which pods ask for it."""
