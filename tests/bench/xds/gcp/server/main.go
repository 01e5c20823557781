// Serves the states in the given files from go-control-plane's snapshot cache. A number on stdin publishes that state.
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

const group = "bench"

type oneGroup struct{}

func (oneGroup) ID(*core.Node) string { return group }

func main() {
	states := make([]map[resource.Type][]types.Resource, len(os.Args)-1)
	for number, path := range os.Args[1:] {
		states[number] = read(path)
	}
	snapshots := cache.NewSnapshotCache(true, oneGroup{}, nil)
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	grpcServer := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(grpcServer, server.NewServer(context.Background(), snapshots, nil))
	go func() { check(grpcServer.Serve(listener)) }()
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	commands := bufio.NewScanner(os.Stdin)
	for version := 1; commands.Scan(); version++ {
		snapshot := must(cache.NewSnapshot(strconv.Itoa(version), states[must(strconv.Atoi(commands.Text()))]))
		check(snapshots.SetSnapshot(context.Background(), group, snapshot))
		fmt.Println("published")
	}
}

// read takes the resources of a state: a file with the bytes of one response of state of the world.
func read(path string) map[resource.Type][]types.Resource {
	var state discovery.DiscoveryResponse
	check(proto.Unmarshal(must(os.ReadFile(path)), &state))
	resources := map[resource.Type][]types.Resource{}
	for _, packed := range state.Resources {
		resources[packed.TypeUrl] = append(resources[packed.TypeUrl], must(packed.UnmarshalNew()))
	}
	return resources
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
