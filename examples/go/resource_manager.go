// Manages resources over gRPC alone; killed at any time, it goes on by the cursor in its journal.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	pb "coplace.example/manager/coplace/v1"
	"google.golang.org/protobuf/proto"
)

const site, cluster, source, file = "north", "example", "north/example", "resource_manager.journal"

var journal, _ = os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)

func main() {
	kept, _ := os.ReadFile(file)
	count, begunUs, waiting := 0, time.Now().UnixMicro(), []*pb.Envelope{}
	fmt.Sscan(os.Args[1], &count)
	fmt.Sscanf(string(kept), "begun %d", &begunUs)
	fmt.Fprintln(journal, "begun", begunUs)
	ingest := pb.NewIngestServiceClient(connect(os.Args[2]))
	report(ingest, declared(&pb.ClusterDeclared{
		Cluster: cluster, Site: site, NodeModel: "any", Nodes: 16, CoresPerNode: 8,
		PstatesGhz: []float64{2}, IdlePowerW: 100, PeakBandwidthGbps: 100,
	}, begunUs))
	for number := range count {
		id := fmt.Sprintf("%s/%d/%d", source, number, begunUs)
		jobs[id] = &pb.JobSubmitted{
			JobId: id, Attempt: 1, User: "ada", Account: "lab", Nodes: 1, WalltimeS: 60,
			ReferenceCluster: cluster, Clusters: []string{cluster}, SubmittedAtUs: begunUs,
		}
		waiting = append(waiting, submitted(jobs[id]))
	}
	go func() {
		for _, fact := range waiting {
			report(ingest, fact)
		}
	}()
	ofCluster := &pb.WatchedClusters{Site: site, Clusters: []string{cluster}}
	request := &pb.WatchDecisionsRequest{Watched: &pb.WatchDecisionsRequest_Clusters{Clusters: ofCluster}}
	for line := range strings.Lines(string(kept)) {
		var atUs, text = int64(0), []byte{}
		if n, _ := fmt.Sscanf(line, "obeyed %s %d %x", &request.Cursor, &atUs, &text); n == 3 {
			decision := &pb.PlacementDecided{}
			proto.Unmarshal(text, decision)
			obey(ingest, decision, atUs)
		}
	}
	request.FromEarliest = request.Cursor == ""
	follow(pb.NewWatchServiceClient(connect(os.Args[3])), request, func(decision *pb.PlacementDecided) {
		atUs := time.Now().UnixMicro()
		text, _ := proto.Marshal(decision)
		fmt.Fprintf(journal, "obeyed %s %d %x\n", request.Cursor, atUs, text)
		obey(ingest, decision, atUs)
	})
}
