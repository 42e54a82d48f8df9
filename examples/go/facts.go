// Facts of a resource manager. One that is reported again has the same id, and counts once.
package main

import (
	"fmt"

	pb "coplace.example/manager/coplace/v1"
)

func declared(declared *pb.ClusterDeclared, atUs int64) *pb.Envelope {
	id := fmt.Sprintf("%s/coplace.v1.ClusterDeclared/%s/%d", source, declared.Cluster, atUs)
	return &pb.Envelope{Id: id, Source: source, TimeUs: atUs, Payload: &pb.Envelope_ClusterDeclared{ClusterDeclared: declared}}
}

func submitted(job *pb.JobSubmitted) *pb.Envelope {
	id := fmt.Sprintf("%s/coplace.v1.JobSubmitted/%s/%d", source, job.JobId, job.Attempt)
	return &pb.Envelope{Id: id, Source: source, TimeUs: job.SubmittedAtUs, Payload: &pb.Envelope_JobSubmitted{JobSubmitted: job}}
}

func started(d *pb.PlacementDecided, atUs int64) *pb.Envelope {
	id := fmt.Sprintf("%s/coplace.v1.JobStarted/%s/%d", source, d.JobId, d.Attempt)
	started := &pb.JobStarted{JobId: d.JobId, Attempt: d.Attempt, Grant: d.Grant, Cluster: d.Cluster, FreqGhz: d.FreqGhz, StartedAtUs: atUs, NodeUnits: d.NodeUnits}
	for _, index := range d.NodeIndices {
		started.Nodes = append(started.Nodes, fmt.Sprintf("%s-%04d", d.Cluster, index))
	}
	return &pb.Envelope{Id: id, Source: source, TimeUs: atUs, Payload: &pb.Envelope_JobStarted{JobStarted: started}}
}

func ended(job *pb.JobSubmitted, d *pb.PlacementDecided, atUs, endUs int64, outcome pb.JobOutcome) *pb.Envelope {
	id := fmt.Sprintf("%s/coplace.v1.JobFinished/%s/%d", source, d.JobId, d.Attempt)
	return &pb.Envelope{Id: id, Source: source, TimeUs: endUs, Payload: &pb.Envelope_JobFinished{JobFinished: &pb.JobFinished{
		JobId: d.JobId, Attempt: d.Attempt, Grant: d.Grant, Cluster: d.Cluster, FreqGhz: d.FreqGhz, Outcome: outcome,
		User: job.User, Account: job.Account, AppId: job.AppId, Nodes: uint32(len(d.NodeIndices)), CoresPerNode: d.CoresPerNode,
		SubmittedAtUs: job.SubmittedAtUs, StartedAtUs: atUs, EndedAtUs: endUs,
	}}}
}

func declined(d *pb.PlacementDecided, reason string, atUs int64) *pb.Envelope {
	id := fmt.Sprintf("%s/coplace.v1.JobDeclined/%s/%d", source, d.JobId, d.Grant)
	return &pb.Envelope{Id: id, Source: source, TimeUs: atUs, Payload: &pb.Envelope_JobDeclined{JobDeclined: &pb.JobDeclined{
		JobId: d.JobId, Attempt: d.Attempt, Grant: d.Grant, Reason: reason, DeclinedAtUs: atUs,
	}}}
}

func refused(d *pb.PlacementDecided, reason string, atUs int64) *pb.Envelope {
	id := fmt.Sprintf("%s/coplace.v1.JobActionRefused/%s/%d/%d", source, d.JobId, d.Attempt, d.Action.Number)
	return &pb.Envelope{Id: id, Source: source, TimeUs: atUs, Payload: &pb.Envelope_JobActionRefused{JobActionRefused: &pb.JobActionRefused{
		JobId: d.JobId, Attempt: d.Attempt, Grant: d.Grant, Number: d.Action.Number, Reason: reason, RefusedAtUs: atUs,
	}}}
}
