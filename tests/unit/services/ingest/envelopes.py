"""Valid envelopes of every kind, and anything that a broken client may send."""

from coplace.v1.ingest_service_pb2 import Envelope
from google.protobuf.json_format import ParseDict
from hypothesis import strategies as st

NOW_US = 1_767_225_600_000_000
NOW_S = NOW_US / 1e6
JOB = {"jobId": "north/alpha/4711/1767225600", "attempt": 1}

PAYLOADS: dict[str, dict[str, object]] = {
    "jobSubmitted": {
        **JOB,
        "appId": "hpcg",
        "user": "ada",
        "account": "physics",
        "nodes": 4,
        "walltimeS": 3600,
        "referenceCluster": "alpha",
        "shareable": True,
        "submittedAtUs": NOW_US,
        "priority": 5,
        "memoryGib": 256,
        "architectures": ["x86_64"],
        "coresPerUnit": 12,
        "resourcesPerUnit": {"gpu": 1},
        "unitsPerNode": 2,
    },
    "jobStarted": {
        **JOB,
        "cluster": "alpha",
        "nodes": ["n1", "n2"],
        "freqGhz": 2.4,
        "startedAtUs": NOW_US,
        "nodeUnits": [2, 2],
    },
    "jobFinished": {
        **JOB,
        "outcome": "JOB_OUTCOME_COMPLETED",
        "cluster": "alpha",
        "user": "ada",
        "account": "physics",
        "nodes": 4,
        "coresPerNode": 48,
        "submittedAtUs": NOW_US,
        "startedAtUs": NOW_US,
        "endedAtUs": NOW_US,
        "energyJ": 1e6,
        "cores": 150,
        "resources": {"gpu": 4},
    },
    "jobRequeued": {**JOB, "reason": "node failure", "requeuedAtUs": NOW_US},
    "jobCancelled": {"jobId": JOB["jobId"], "reason": "no longer needed", "cancelledAtUs": NOW_US},
    "jobDeclined": {**JOB, "grant": 1, "reason": "too late", "declinedAtUs": NOW_US},
    "jobSeized": {**JOB, "grant": 1, "reason": "node room is dark", "seizedAtUs": NOW_US},
    "jobHeld": {"jobId": JOB["jobId"], "reason": "input is missing", "heldAtUs": NOW_US},
    "jobReleased": {"jobId": JOB["jobId"], "releasedAtUs": NOW_US},
    "signatureMeasured": {
        "appId": "hpcg",
        "nodeModel": "m0",
        "jobId": JOB["jobId"],
        "freqGhz": 2.4,
        "timeS": 10,
        "powerW": 300,
        "cpi": 0.7,
        "tpi": 0.01,
        "memGbps": 80,
        "tpiScale": "table1",
    },
    "nodeSamples": {
        "node": "n1",
        "cluster": "alpha",
        "nodeModel": "m0",
        "samples": [{"timeUs": NOW_US, "powerW": 250}, {"timeUs": NOW_US + 1, "powerW": 0}],
    },
    "shuttersMeasured": {
        **JOB,
        "coRunnerJobId": "north/alpha/4712/1767225660",
        "beganAtUs": NOW_US,
        "endedAtUs": NOW_US,
        "shutters": [{"ipcBefore": 1.0, "ipcDuring": 1.2, "ipcAfter": 1.0}],
    },
    "clusterDeclared": {
        "cluster": "alpha",
        "site": "north",
        "nodeModel": "m0",
        "nodes": 512,
        "coresPerNode": 48,
        "pstatesGhz": [1.2, 2.4],
        "idlePowerW": 100,
        "peakBandwidthGbps": 200,
        "memoryGibPerNode": 192,
        "architecture": "x86_64",
        "nodeClasses": [
            {"nodes": 448, "memoryGib": 192},
            {"nodes": 64, "memoryGib": 384, "resources": {"gpu": 2}},
        ],
    },
    "clusterLost": {"cluster": "alpha", "reason": "power cut", "lostAtUs": NOW_US},
    "clusterReturned": {"cluster": "alpha", "returnedAtUs": NOW_US},
    "limitsDeclared": {
        "subject": "LIMIT_SUBJECT_USER",
        "name": "ada",
        "mostRunningJobs": 2,
        "mostNodes": 8,
    },
    "powerCapDeclared": {
        "scope": "POWER_SCOPE_CLUSTER",
        "name": "alpha",
        "steps": [{"fromUs": NOW_US, "watts": 90_000}, {"fromUs": NOW_US + 3_600_000_000}],
        "reason": "cooling is serviced",
        "declaredAtUs": NOW_US,
    },
    "planProposed": {
        "round": 7,
        "basedAtUs": NOW_US - 30_000_000,
        "validUntilUs": NOW_US + 3_600_000_000,
        "items": [
            {
                **JOB,
                "cluster": "alpha",
                "freqGhz": 1.8,
                "walltimeS": 4000,
                "drawW": 500,
                "tier": 1,
                "notBeforeUs": NOW_US + 600_000_000,
            }
        ],
    },
}


def envelope(kind: str, **changes: object) -> Envelope:
    """A valid envelope of a kind, with some fields of its payload changed."""
    document = {
        "id": f"north/{kind}/4711/1",
        "source": "north",
        "timeUs": NOW_US,
        kind: PAYLOADS[kind] | changes,
    }
    return ParseDict(document, Envelope())


_NUMBERS = {
    "double": st.floats(),
    "uint32": st.integers(0, 2**32 - 1),
    "sint32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
}


@st.composite
def broken(draw: st.DrawFn) -> Envelope:
    """A valid envelope in which one number or string of the payload became anything."""
    kind = draw(st.sampled_from(sorted(PAYLOADS)))
    found = envelope(kind)
    payload = getattr(found, str(found.WhichOneof("payload")))
    field = draw(st.sampled_from([f for f in payload.DESCRIPTOR.fields if not f.is_repeated]))
    if field.type == field.TYPE_STRING:
        setattr(payload, field.name, draw(st.text(max_size=300)))
    elif field.type == field.TYPE_DOUBLE:
        setattr(payload, field.name, draw(_NUMBERS["double"]))
    elif field.type == field.TYPE_UINT32:
        setattr(payload, field.name, draw(_NUMBERS["uint32"]))
    elif field.type == field.TYPE_SINT32:
        setattr(payload, field.name, draw(_NUMBERS["sint32"]))
    elif field.type == field.TYPE_INT64:
        setattr(payload, field.name, draw(_NUMBERS["int64"]))
    return found
