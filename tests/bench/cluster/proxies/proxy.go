package main

import (
	"context"
	"errors"
	"io"
	"math/rand"
	"sync/atomic"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	managerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

const (
	prefix     = "type.googleapis.com/envoy."
	clusters   = prefix + "config.cluster.v3.Cluster"
	endpoints  = prefix + "config.endpoint.v3.ClusterLoadAssignment"
	extensions = prefix + "config.core.v3.TypedExtensionConfig"
	listeners  = prefix + "config.listener.v3.Listener"
	routes     = prefix + "config.route.v3.RouteConfiguration"

	// As the bootstrap of pods says.
	firstPause   = 500 * time.Millisecond
	longestPause = 5 * time.Second
	window       = 16 << 20
)

// reference is a resource that another one names.
type reference struct{ kind, name string }

// held is a resource that a proxy has.
type held struct {
	version   string
	addresses []string
	needs     []reference
}

// proxy asks as Envoy does: clusters and listeners as a whole, everything else by the names that they have.
type proxy struct {
	mesh               *mesh
	node, uid, service string
	stop               context.CancelFunc
	connected          atomic.Bool
	has                map[reference]held
	asked              []string // types, in the order in which it began to ask for them
	named              map[string]map[string]bool
}

func newProxy(from *mesh, node, uid, service string, stop context.CancelFunc) *proxy {
	named := map[string]map[string]bool{endpoints: {from.Siblings: true}, routes: {}, extensions: {}}
	// Envoy asks for the endpoints of its static cluster, and for all clusters, before anything else.
	return &proxy{mesh: from, node: node, uid: uid, service: service, stop: stop,
		has: map[reference]held{}, asked: []string{endpoints, clusters}, named: named}
}

func (p *proxy) run(ctx context.Context) {
	token, longest := "", firstPause
	for ctx.Err() == nil {
		var err error
		if token == "" {
			token, err = p.mesh.cluster.tokenOf(ctx, p.mesh.settings, p.node, p.uid)
		}
		if err == nil {
			err = p.talk(ctx, token)
		}
		if p.connected.Swap(false) {
			longest = firstPause
		}
		if ctx.Err() != nil {
			return
		}
		p.mesh.fail(err)
		select {
		case <-time.After(time.Duration(rand.Int63n(int64(longest)))):
		case <-ctx.Done():
		}
		longest = min(2*longest, longestPause)
	}
}

// stream is one stream, and what it has sent.
type stream struct {
	discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	node *corev3.Node
}

func (s *stream) send(request *discovery.DeltaDiscoveryRequest) error {
	request.Node, s.node = s.node, nil
	return s.Send(request)
}

// talk lasts as long as a stream.
func (p *proxy) talk(ctx context.Context, token string) error {
	at := p.mesh.server()
	if at == "" {
		return errors.New("no server has written its address")
	}
	connection, err := grpc.NewClient("passthrough:///"+at, grpc.WithTransportCredentials(p.mesh.tls),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(256<<20)))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token))
	defer cancel()
	opened, err := discovery.NewAggregatedDiscoveryServiceClient(connection).DeltaAggregatedResources(ctx)
	if err != nil {
		return err
	}
	own := &stream{opened, &corev3.Node{Id: p.node, Cluster: p.service, UserAgentName: "envoy"}}
	for _, kind := range p.asked {
		if err := p.begin(own, kind); err != nil {
			return p.why(own, err)
		}
	}
	for {
		response, err := own.Recv()
		if err != nil {
			return err
		}
		if err := p.take(own, response); err != nil {
			return p.why(own, err)
		}
		p.connected.Store(true)
	}
}

// why is what a stream ended with. Sending says no more than that it has ended.
func (p *proxy) why(own *stream, err error) error {
	if errors.Is(err, io.EOF) {
		_, err = own.Recv()
	}
	return err
}

// begin asks for a type for the first time on a stream.
func (p *proxy) begin(own *stream, kind string) error {
	request := &discovery.DeltaDiscoveryRequest{TypeUrl: kind, InitialResourceVersions: map[string]string{}}
	for at, item := range p.has {
		if at.kind == kind {
			request.InitialResourceVersions[at.name] = item.version
		}
	}
	for name := range p.named[kind] {
		request.ResourceNamesSubscribe = append(request.ResourceNamesSubscribe, name)
	}
	return own.send(request)
}

// take applies a response, and acknowledges it.
func (p *proxy) take(own *stream, response *discovery.DeltaDiscoveryResponse) error {
	kind := response.TypeUrl
	changed := map[reference]*held{}
	for _, resource := range response.Resources {
		content := resource.Resource.GetValue()
		needs, err := needed(kind, content)
		if err != nil {
			return err
		}
		changed[reference{kind, resource.Name}] = &held{resource.Version, find(content), needs}
	}
	for _, name := range response.RemovedResources {
		changed[reference{kind, name}] = nil
	}
	if err := own.send(&discovery.DeltaDiscoveryRequest{TypeUrl: kind, ResponseNonce: response.Nonce}); err != nil {
		return err
	}
	p.replace(changed)
	p.mesh.mutex.Lock()
	p.mesh.answers++
	p.mesh.bytes += int64(proto.Size(response))
	p.mesh.mutex.Unlock()
	switch kind {
	case clusters:
		if err := p.want(own, endpoints, reference{endpoints, p.mesh.Siblings}); err != nil {
			return err
		}
		if len(p.asked) == 2 {
			p.asked = append(p.asked, listeners)
			return p.begin(own, listeners)
		}
	case listeners:
		if err := p.want(own, routes); err != nil {
			return err
		}
		return p.want(own, extensions)
	}
	return nil
}

// replace notes what the proxy has from now on; nil: no longer.
func (p *proxy) replace(changed map[reference]*held) {
	var came, went []string
	for at, item := range changed {
		went = append(went, p.has[at].addresses...)
		if item == nil {
			delete(p.has, at)
		} else {
			came = append(came, item.addresses...)
			p.has[at] = *item
		}
	}
	p.mesh.addresses.acknowledged(p.node, p.service, came, went, time.Now().UnixNano())
}

// want asks for the names of a type that the resources have, and for no others any more.
func (p *proxy) want(own *stream, kind string, always ...reference) error {
	names := map[string]bool{}
	for _, each := range always {
		names[each.name] = true
	}
	for _, item := range p.has {
		for _, each := range item.needs {
			if each.kind == kind {
				names[each.name] = true
			}
		}
	}
	before := p.named[kind]
	p.named[kind] = names
	begun := false
	for _, each := range p.asked {
		begun = begun || each == kind
	}
	if !begun {
		if len(names) == 0 {
			return nil
		}
		p.asked = append(p.asked, kind)
		return p.begin(own, kind)
	}
	request := &discovery.DeltaDiscoveryRequest{TypeUrl: kind}
	gone := map[reference]*held{}
	for name := range names {
		if !before[name] {
			request.ResourceNamesSubscribe = append(request.ResourceNamesSubscribe, name)
		}
	}
	for name := range before {
		if !names[name] {
			request.ResourceNamesUnsubscribe = append(request.ResourceNamesUnsubscribe, name)
			gone[reference{kind, name}] = nil
		}
	}
	if len(request.ResourceNamesSubscribe)+len(request.ResourceNamesUnsubscribe) == 0 {
		return nil
	}
	p.replace(gone)
	return own.send(request)
}

// needed finds the names that a resource has of others, which have to be asked for by name.
func needed(kind string, content []byte) ([]reference, error) {
	switch kind {
	case clusters:
		var found clusterv3.Cluster
		if err := proto.Unmarshal(content, &found); err != nil {
			return nil, err
		}
		if found.GetType() != clusterv3.Cluster_EDS {
			return nil, nil
		}
		if name := found.GetEdsClusterConfig().GetServiceName(); name != "" {
			return []reference{{endpoints, name}}, nil
		}
		return []reference{{endpoints, found.Name}}, nil
	case listeners:
		var found listenerv3.Listener
		if err := proto.Unmarshal(content, &found); err != nil {
			return nil, err
		}
		return ofListener(&found)
	}
	return nil, nil
}

func ofListener(listener *listenerv3.Listener) ([]reference, error) {
	var found []reference
	for _, filter := range listener.ListenerFilters {
		if filter.GetConfigDiscovery() != nil {
			found = append(found, reference{extensions, filter.Name})
		}
	}
	for _, chain := range append(listener.FilterChains, listener.DefaultFilterChain) {
		for _, filter := range chain.GetFilters() {
			if filter.GetConfigDiscovery() != nil {
				found = append(found, reference{extensions, filter.Name})
				continue
			}
			var manager managerv3.HttpConnectionManager
			if !filter.GetTypedConfig().MessageIs(&manager) {
				continue
			}
			if err := filter.GetTypedConfig().UnmarshalTo(&manager); err != nil {
				return nil, err
			}
			if rds := manager.GetRds(); rds != nil {
				found = append(found, reference{routes, rds.RouteConfigName})
			}
			for _, each := range manager.HttpFilters {
				if each.GetConfigDiscovery() != nil {
					found = append(found, reference{extensions, each.Name})
				}
			}
		}
	}
	return found, nil
}
