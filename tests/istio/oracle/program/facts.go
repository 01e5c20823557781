package main

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	jwt "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpproxy "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tls "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	upstream "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pilot/test/xds"
	"istio.io/istio/pkg/test"
)

// Facts is what the configuration of a proxy holds of resources. A value that Istio has by itself is left out.
// Filters has the names of all filters that Istio does not add by itself, and the issuers of tokens.
type Facts struct {
	Inbound  []Chain            `json:"inbound,omitempty"`
	Outbound []Chain            `json:"outbound,omitempty"`
	Routes   []VirtualHost      `json:"routes,omitempty"`
	Clusters map[string]Cluster `json:"clusters,omitempty"`
	Filters  []string           `json:"filters,omitempty"`
}

// Chain is a filter chain of a listener. Those of outbound HTTP are left out: their routes say everything.
type Chain struct {
	Listener  string   `json:"listener,omitempty"`
	Port      uint32   `json:"port,omitempty"`
	Address   string   `json:"address,omitempty"`
	Names     []string `json:"names,omitempty"`
	Networks  []string `json:"networks,omitempty"`
	Transport string   `json:"transport,omitempty"`
	HTTP      bool     `json:"http,omitempty"`
	TLS       string   `json:"tls,omitempty"`
	Resource  string   `json:"resource,omitempty"`
	Clusters  []string `json:"clusters,omitempty"`
	Rules     []Rules  `json:"rules,omitempty"`
	filters   []string
}

// VirtualHost has the routes of one host and port.
type VirtualHost struct {
	Listener string  `json:"listener"`
	Name     string  `json:"name"`
	Routes   []Route `json:"routes,omitempty"`
}

// Route is one route, of a rule of a VirtualService or of a Service itself.
type Route struct {
	Resource string   `json:"resource,omitempty"`
	Name     string   `json:"name,omitempty"`
	Match    string   `json:"match,omitempty"`
	Clusters []string `json:"clusters,omitempty"`
	Timeout  string   `json:"timeout,omitempty"`
	Retries  *uint32  `json:"retries,omitempty"`
	Mirrors  []string `json:"mirrors,omitempty"`
	Action   string   `json:"action,omitempty"`
	Filters  []string `json:"filters,omitempty"`
	Hashes   int      `json:"hashes,omitempty"`
}

// Cluster has what a DestinationRule may set.
type Cluster struct {
	Resource    string `json:"resource,omitempty"`
	Subset      string `json:"subset,omitempty"`
	Connections uint32 `json:"connections,omitempty"`
	Pending     uint32 `json:"pending,omitempty"`
	Requests    uint32 `json:"requests,omitempty"`
	PerRequest  uint32 `json:"requestsPerConnection,omitempty"`
	Ejection    uint32 `json:"ejection,omitempty"`
	Balancing   string `json:"balancing,omitempty"`
	TLS         string `json:"tls,omitempty"`
}

const unlimited = ^uint32(0)

// Retries that Istio gives to each route.
const defaultRetries = 2

func factsOf(t test.Failer, server *xds.FakeDiscoveryServer, asked *model.Proxy) Facts {
	proxy := server.SetupProxy(asked)
	made := Facts{Clusters: map[string]Cluster{}}
	listeners := server.Listeners(proxy)
	// The order of listeners, and of filter chains for some ports, is another one in each run, and says nothing.
	sort.SliceStable(listeners, func(i, j int) bool { return listeners[i].Name < listeners[j].Name })
	filters := map[string]bool{}
	for _, one := range listeners {
		for _, chain := range chainsOf(t, one) {
			for _, name := range chain.filters {
				filters[name] = true
			}
			switch {
			case one.TrafficDirection == core.TrafficDirection_INBOUND:
				made.Inbound = append(made.Inbound, chain)
			case !chain.HTTP:
				made.Outbound = append(made.Outbound, chain)
			}
		}
	}
	for _, one := range server.RoutesFromListeners(proxy, listeners) {
		for _, host := range one.VirtualHosts {
			made.Routes = append(made.Routes, VirtualHost{Listener: one.Name, Name: host.Name, Routes: routesOf(host)})
		}
	}
	for _, one := range server.Clusters(proxy) {
		if strings.Contains(one.Name, "|") {
			made.Clusters[one.Name] = clusterOf(t, one)
		}
	}
	for name := range filters {
		made.Filters = append(made.Filters, name)
	}
	sort.Strings(made.Filters)
	sort.SliceStable(made.Inbound, func(i, j int) bool { return made.Inbound[i].key() < made.Inbound[j].key() })
	sort.SliceStable(made.Routes, func(i, j int) bool {
		a, b := made.Routes[i], made.Routes[j]
		return a.Listener < b.Listener || a.Listener == b.Listener && a.Name < b.Name
	})
	return made
}

func chainsOf(t test.Failer, of *listener.Listener) []Chain {
	chains := of.FilterChains
	if of.DefaultFilterChain != nil {
		chains = append(chains[:len(chains):len(chains)], of.DefaultFilterChain)
	}
	address := of.GetAddress().GetSocketAddress()
	var made []Chain
	for _, one := range chains {
		match := one.GetFilterChainMatch()
		chain := Chain{
			Listener:  of.Name,
			Port:      match.GetDestinationPort().GetValue(),
			Names:     match.GetServerNames(),
			Transport: match.GetTransportProtocol(),
			Resource:  resourceOf(one.Metadata),
			TLS:       terminatedTLS(t, one.TransportSocket),
		}
		if chain.Port != 0 && chain.Port == address.GetPortValue() {
			// Connections to the proxy itself are refused.
			continue
		}
		if of.TrafficDirection != core.TrafficDirection_INBOUND {
			chain.Port, chain.Address = address.GetPortValue(), address.GetAddress()
		} else if chain.Port == 0 && of.Name != model.VirtualInboundListenerName {
			chain.Port = address.GetPortValue()
		}
		for _, network := range match.GetPrefixRanges() {
			chain.Networks = append(chain.Networks, network.AddressPrefix+"/"+strconv.Itoa(int(network.PrefixLen.GetValue())))
		}
		for _, filter := range one.Filters {
			chain.add(t, filter.Name, filter.GetTypedConfig())
		}
		made = append(made, chain)
	}
	return made
}

func (chain *Chain) key() string {
	return fmt.Sprintf("%05d %s %t", chain.Port, chain.Transport, chain.HTTP)
}

func (chain *Chain) add(t test.Failer, name string, settings *anypb.Any) {
	switch filter := opened(t, settings).(type) {
	case *hcm.HttpConnectionManager:
		chain.HTTP = true
		for _, inner := range filter.HttpFilters {
			chain.add(t, inner.Name, inner.GetTypedConfig())
		}
	case *tcpproxy.TcpProxy:
		if filter.GetCluster() != "" {
			chain.Clusters = append(chain.Clusters, filter.GetCluster())
		}
		for _, weighted := range filter.GetWeightedClusters().GetClusters() {
			chain.Clusters = append(chain.Clusters, withWeight(weighted.Name, weighted.Weight))
		}
	case *jwt.JwtAuthentication:
		for _, provider := range filter.Providers {
			chain.filters = append(chain.filters, "issuer "+provider.Issuer)
		}
	default:
		if rules, ok := rulesOf(filter); ok {
			chain.Rules = append(chain.Rules, rules...)
		} else if !own[name] {
			chain.filters = append(chain.filters, name)
		}
	}
}

// The filters that Istio adds by itself.
var own = map[string]bool{
	"envoy.filters.http.cors": true, "envoy.filters.http.fault": true, "envoy.filters.http.grpc_stats": true,
	"envoy.filters.http.router": true, "istio.alpn": true, "istio.metadata_exchange": true, "istio.stats": true,
	"connect_authority": true,
}

func routesOf(host *route.VirtualHost) []Route {
	var made []Route
	for _, one := range host.Routes {
		current := Route{Resource: resourceOf(one.Metadata), Match: matchOf(one.Match)}
		if current.Resource != "" {
			current.Name = one.Name
		}
		for name := range one.TypedPerFilterConfig {
			current.Filters = append(current.Filters, name)
		}
		sort.Strings(current.Filters)
		switch action := one.Action.(type) {
		case *route.Route_Redirect:
			current.Action = "redirect"
		case *route.Route_DirectResponse:
			current.Action = "direct response " + strconv.Itoa(int(action.DirectResponse.Status))
		case *route.Route_Route:
			current.forward(action.Route)
		}
		made = append(made, current)
	}
	return made
}

func (current *Route) forward(action *route.RouteAction) {
	if name := action.GetCluster(); name != "" {
		current.Clusters = []string{name}
	}
	for _, weighted := range action.GetWeightedClusters().GetClusters() {
		current.Clusters = append(current.Clusters, withWeight(weighted.Name, weighted.Weight.GetValue()))
	}
	if seconds := action.GetTimeout().AsDuration(); seconds != 0 {
		current.Timeout = seconds.String()
	}
	if number := action.GetRetryPolicy().GetNumRetries().GetValue(); number != defaultRetries {
		current.Retries = &number
	}
	for _, mirror := range action.RequestMirrorPolicies {
		current.Mirrors = append(current.Mirrors, mirror.Cluster)
	}
	current.Hashes = len(action.HashPolicy)
}

func matchOf(match *route.RouteMatch) string {
	var made []string
	switch path := match.GetPathSpecifier().(type) {
	case *route.RouteMatch_Prefix:
		if path.Prefix != "/" {
			made = append(made, "prefix "+path.Prefix)
		}
	case *route.RouteMatch_Path:
		made = append(made, "path "+path.Path)
	case *route.RouteMatch_PathSeparatedPrefix:
		made = append(made, "prefix "+path.PathSeparatedPrefix)
	case *route.RouteMatch_SafeRegex:
		made = append(made, "regex "+path.SafeRegex.Regex)
	}
	for _, header := range match.GetHeaders() {
		made = append(made, "header "+header.Name)
	}
	return strings.Join(made, ", ")
}

func clusterOf(t test.Failer, of *cluster.Cluster) Cluster {
	made := Cluster{
		Resource: resourceOf(of.Metadata),
		Subset:   of.GetMetadata().GetFilterMetadata()["istio"].GetFields()["subset"].GetStringValue(),
		TLS:      originatedTLS(t, of),
		Ejection: of.GetOutlierDetection().GetConsecutive_5Xx().GetValue(),
	}
	for _, limits := range of.GetCircuitBreakers().GetThresholds() {
		made.Connections = limited(limits.GetMaxConnections().GetValue())
		made.Pending = limited(limits.GetMaxPendingRequests().GetValue())
		made.Requests = limited(limits.GetMaxRequests().GetValue())
	}
	if of.LbPolicy != cluster.Cluster_LEAST_REQUEST && of.LbPolicy != cluster.Cluster_CLUSTER_PROVIDED {
		made.Balancing = of.LbPolicy.String()
	}
	for _, settings := range of.TypedExtensionProtocolOptions {
		if options, ok := opened(t, settings).(*upstream.HttpProtocolOptions); ok {
			made.PerRequest = options.GetCommonHttpProtocolOptions().GetMaxRequestsPerConnection().GetValue()
		}
	}
	return made
}

func limited(number uint32) uint32 {
	if number == unlimited {
		return 0
	}
	return number
}

// originatedTLS is the TLS that the client begins: `auto` depends on each endpoint.
func originatedTLS(t test.Failer, of *cluster.Cluster) string {
	if len(of.TransportSocketMatches) > 0 {
		return "auto"
	}
	socket := of.GetTransportSocket()
	if socket == nil {
		return ""
	}
	context, ok := opened(t, socket.GetTypedConfig()).(*tls.UpstreamTlsContext)
	if !ok {
		return socket.Name
	}
	for _, secret := range context.GetCommonTlsContext().GetTlsCertificateSdsSecretConfigs() {
		if secret.Name == "default" {
			return "istio_mutual"
		}
		return "mutual"
	}
	return "simple"
}

// terminatedTLS is the TLS that a server ends.
func terminatedTLS(t test.Failer, socket *core.TransportSocket) string {
	if socket == nil {
		return ""
	}
	context, ok := opened(t, socket.GetTypedConfig()).(*tls.DownstreamTlsContext)
	if !ok {
		return socket.Name
	}
	if context.GetRequireClientCertificate().GetValue() {
		return "mutual"
	}
	return "simple"
}

// resourceOf is the resource that a part of the configuration comes from, as `kind namespace/name`.
func resourceOf(metadata *core.Metadata) string {
	path := metadata.GetFilterMetadata()["istio"].GetFields()["config"].GetStringValue()
	if path == "" {
		return ""
	}
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if len(parts) < 3 {
		return path
	}
	end := len(parts)
	return parts[end-2] + " " + parts[end-3] + "/" + parts[end-1]
}

func withWeight(name string, weight uint32) string {
	return strconv.Itoa(int(weight)) + "% " + name
}

// opened is the message inside of Any.
func opened(t test.Failer, of *anypb.Any) proto.Message {
	if of == nil {
		return nil
	}
	made, err := of.UnmarshalNew()
	if err != nil {
		t.Fatalf("%s cannot be read: %v", of.TypeUrl, err)
	}
	return made
}
