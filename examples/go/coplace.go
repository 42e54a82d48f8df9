// Speaks to Coplace: hands it facts, and hears its decisions.
package main

import (
	"context"
	"log"
	"os"
	"time"

	pb "coplace.example/manager/coplace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// A connection that is silent is noticed. With TLS: credentials.NewTLS in place of insecure.
func connect(address string) *grpc.ClientConn {
	alive := grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second})
	connection, _ := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), alive)
	return connection // where the address is wrong each call says so
}

// persist tries again until it succeeds. What no second try changes ends the program.
func persist(try func() error) {
	for err := try(); err != nil; err = try() {
		log.Print(err)
		switch status.Code(err) {
		case codes.InvalidArgument, codes.OutOfRange, codes.PermissionDenied, codes.Unimplemented:
			os.Exit(1)
		}
		time.Sleep(time.Second)
	}
}

// report returns once Kafka has the fact.
func report(ingest pb.IngestServiceClient, fact *pb.Envelope) {
	persist(func() error {
		_, err := ingest.Publish(context.Background(), &pb.PublishRequest{Event: fact})
		return err
	})
}

// follow hands over decisions without end, and goes on behind the last one after a break.
func follow(watch pb.WatchServiceClient, request *pb.WatchDecisionsRequest, obey func(*pb.PlacementDecided)) {
	persist(func() error {
		stream, err := watch.WatchDecisions(context.Background(), request)
		for err == nil {
			var next *pb.WatchDecisionsResponse
			if next, err = stream.Recv(); err == nil {
				if request.Cursor, request.FromEarliest = next.Cursor, false; next.Decision != nil {
					obey(next.Decision)
				}
			}
		}
		return err
	})
}
