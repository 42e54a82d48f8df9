// Runs jobs as decided; these only sleep.
package main

import (
	"fmt"
	"sync/atomic"
	"time"

	pb "coplace.example/manager/coplace/v1"
)

const runUs = 1_000_000

var jobs, endsUs = map[string]*pb.JobSubmitted{}, map[string]*atomic.Int64{}

func obey(ingest pb.IngestServiceClient, d *pb.PlacementDecided, atUs int64) {
	grant, job := fmt.Sprint(d.JobId, d.Grant), jobs[d.JobId]
	switch end := endsUs[grant]; {
	case d.Verdict == pb.Verdict_VERDICT_START && end == nil && job != nil && (d.StartByUs == 0 || atUs <= d.StartByUs):
		endsUs[grant] = &atomic.Int64{}
		endsUs[grant].Store(atUs + runUs)
		go run(ingest, job, d, atUs, endsUs[grant])
	case d.Verdict == pb.Verdict_VERDICT_ACTION:
		go report(ingest, refused(d, "its jobs only sleep", atUs))
	case end == nil && d.Grant > 0:
		go report(ingest, declined(d, "it is too late", atUs))
	case end != nil && d.IsVoid:
		end.Store(0) // the run is not reported
	case end != nil && d.Verdict == pb.Verdict_VERDICT_CANCELLED:
		end.Store(min(end.Load(), atUs))
	}
}

func run(ingest pb.IngestServiceClient, job *pb.JobSubmitted, d *pb.PlacementDecided, atUs int64, end *atomic.Int64) {
	report(ingest, started(d, atUs))
	for time.Now().UnixMicro() < end.Load() {
		time.Sleep(50 * time.Millisecond)
	}
	if endUs := end.Load(); endUs == atUs+runUs {
		report(ingest, ended(job, d, atUs, endUs, pb.JobOutcome_JOB_OUTCOME_COMPLETED))
	} else if endUs > 0 {
		report(ingest, ended(job, d, atUs, endUs, pb.JobOutcome_JOB_OUTCOME_CANCELLED))
	}
	fmt.Fprintln(journal, "ended", d.JobId)
}
