"""Names by which Coplace, Kueue and Kubernetes refer to each other."""

from typing import Final

API_VERSION: Final = "kueue.x-k8s.io/v1beta2"
PLACEMENT_CHECK: Final = "coplace.io/placement"
"""Controller of the AdmissionChecks that Coplace answers."""
GRANTED_CHECK: Final = "coplace-granted"
"""Name of the AdmissionCheck, of the controller `coplace.io/granted`, that lets Jobs pass which
Coplace has granted nodes."""
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
"""Label of a Job: the LocalQueue of its namespace that it is in."""
MULTIKUEUE_CHECK: Final = "kueue.x-k8s.io/multikueue"
"""Controller of the AdmissionChecks whose Workloads Kueue sends to other clusters."""
ORIGIN: Final = "kueue.x-k8s.io/multikueue-origin"
"""Label of a Workload that MultiKueue has copied from its manager."""

RECALLED: Final = "coplace.io/recalled"
"""Annotation of a Workload: the newest grant that was recalled from a cluster."""
WORKLOAD: Final = "coplace.io/workload"
"""Label of pods: the uid of the Workload that they are of."""
POD_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
"""Label of pods that a user created: the group that they are, and its Workload."""
APP: Final = "coplace.io/app"
"""Label of pods: the application that they run, such as lu.C."""

ADMISSION_MANAGER: Final = "kueue-admission"
"""Field manager of what Kueue keeps of an admission, the nomination of clusters too."""
PLACEMENT_MANAGER: Final = "coplace-placement"
"""Field manager of the checks that Coplace answers."""
