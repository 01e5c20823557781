// Opens many streams to an xDS server, acknowledges whatever comes, and says when.
//
//	client -port P -streams N -connections C -variant sotw|delta -type URL
//
// Commands on stdin: `open` opens all streams; `next` waits for one more response on each. Either prints one line of
// JSON once each stream has acknowledged a response, or has failed, or time is up; `next` prints `armed` first.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

const service = "/envoy.service.discovery.v3.AggregatedDiscoveryService/"

var (
	port        = flag.Int("port", 0, "")
	streams     = flag.Int("streams", 2000, "")
	connections = flag.Int("connections", 20, "")
	variant     = flag.String("variant", "sotw", "")
	typeURL     = flag.String("type", "type.googleapis.com/envoy.config.cluster.v3.Cluster", "")
	patience    = flag.Duration("patience", 60*time.Second, "")
)

// The field numbers of both variants' messages.
var layout = map[string]struct {
	method                                 string
	typeField, nonceField, version, nodeID protowire.Number
}{
	"sotw":  {"StreamAggregatedResources", 4, 5, 1, 2},
	"delta": {"DeltaAggregatedResources", 2, 6, 0, 1},
}

// raw passes messages through as bytes: a client that parses every resource would be the bottleneck.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(message any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(message.([]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, message any) error {
	return message.(*response).read(data)
}

// response is what the client looks at.
type response struct {
	version, nonce   string
	bytes, resources int
}

func (r *response) read(data mem.BufferSlice) error {
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	rest := buffer.ReadOnlyData()
	r.bytes = len(rest)
	for len(rest) > 0 {
		number, kind, size := protowire.ConsumeTag(rest)
		if size < 0 {
			return protowire.ParseError(size)
		}
		rest = rest[size:]
		if kind != protowire.BytesType {
			if size = protowire.ConsumeFieldValue(number, kind, rest); size < 0 {
				return protowire.ParseError(size)
			}
			rest = rest[size:]
			continue
		}
		value, size := protowire.ConsumeBytes(rest)
		if size < 0 {
			return protowire.ParseError(size)
		}
		rest = rest[size:]
		switch number {
		case 1:
			r.version = string(value)
		case 2:
			r.resources++
		case 5:
			r.nonce = string(value)
		}
	}
	return nil
}

func field(to []byte, number protowire.Number, value []byte) []byte {
	if number == 0 || len(value) == 0 {
		return to
	}
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), value)
}

// event is an acknowledgement, or the end of a stream.
type event struct {
	at        int64
	bytes     int
	resources int
	failure   string
}

// report is one line of output.
type report struct {
	Started   int64    `json:"started"`
	At        []int64  `json:"at"`
	Lost      int      `json:"lost"`
	Bytes     int      `json:"bytes"`
	Resources []int    `json:"resources"`
	Failures  []string `json:"failures"`
}

func talk(connection *grpc.ClientConn, number int, events chan<- event) {
	shape := layout[*variant]
	fail := func(err error) { events <- event{failure: err.Error()} }
	stream, err := connection.NewStream(context.Background(),
		&grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, service+shape.method, grpc.ForceCodecV2(raw{}))
	if err != nil {
		fail(err)
		return
	}
	node := field(field(nil, 1, []byte(fmt.Sprintf("bench-%d", number))), 2, []byte("bench"))
	if err := stream.SendMsg(field(field(nil, shape.nodeID, node), shape.typeField, []byte(*typeURL))); err != nil {
		fail(err)
		return
	}
	for {
		var got response
		if err := stream.RecvMsg(&got); err != nil {
			fail(err)
			return
		}
		answer := field(nil, shape.version, []byte(got.version))
		answer = field(field(answer, shape.typeField, []byte(*typeURL)), shape.nonceField, []byte(got.nonce))
		if err := stream.SendMsg(answer); err != nil {
			fail(err)
			return
		}
		events <- event{at: time.Now().UnixNano(), bytes: got.bytes, resources: got.resources}
	}
}

func main() {
	flag.Parse()
	events := make(chan event, 2**streams)
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		started := time.Now().UnixNano()
		switch commands.Text() {
		case "open":
			open(events)
		case "next":
			fmt.Println("armed")
		default:
			fmt.Fprintln(os.Stderr, "no such command: "+commands.Text())
			os.Exit(1)
		}
		if err := json.NewEncoder(os.Stdout).Encode(collect(started, events)); err != nil {
			os.Exit(1)
		}
	}
}

func open(events chan event) {
	each := (*streams + *connections - 1) / *connections
	var ready sync.WaitGroup
	for number := 0; number < *streams; number += each {
		ready.Add(1)
		go func() {
			defer ready.Done()
			// Windows as Envoy has them by default, so that a response need not wait for the client in between.
			connection, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", *port),
				grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithInitialWindowSize(16<<20), grpc.WithInitialConnWindowSize(24<<20),
				grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(256<<20)))
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			for next := number; next < min(number+each, *streams); next++ {
				go talk(connection, next, events)
			}
		}()
	}
	ready.Wait()
}

func collect(started int64, events <-chan event) report {
	found := report{Started: started, At: []int64{}, Failures: []string{}}
	seen := map[int]bool{}
	deadline := time.After(*patience)
	for len(found.At)+len(found.Failures) < *streams {
		select {
		case next := <-events:
			if next.failure != "" {
				found.Failures = append(found.Failures, next.failure)
				continue
			}
			found.At = append(found.At, next.at)
			found.Bytes += next.bytes
			if !seen[next.resources] {
				seen[next.resources] = true
				found.Resources = append(found.Resources, next.resources)
			}
		case <-deadline:
			found.Lost = *streams - len(found.At)
			return found
		}
	}
	found.Lost = *streams - len(found.At)
	return found
}
