// Says what Istio makes of resources: the configuration of each proxy, as facts, and which documents it refuses.
//
// Reads one JSON document from the standard input (Request), and writes one JSON document to the standard output
// (Answer). Istio's own test server builds the configuration, in this process, without a cluster.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"istio.io/istio/pilot/pkg/config/kube/crd"
	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pilot/test/xds"
	"istio.io/istio/pkg/config"
	"istio.io/istio/pkg/config/mesh"
	"istio.io/istio/pkg/log"
	"istio.io/istio/pkg/test"
)

// Case is a mesh, and the proxies whose configuration is wanted.
type Case struct {
	Name       string  `json:"name"`
	Kubernetes string  `json:"kubernetes"`
	Istio      string  `json:"istio"`
	MeshConfig string  `json:"meshConfig"`
	Proxies    []Proxy `json:"proxies"`
}

// Proxy is the sidecar or the gateway of one pod.
type Proxy struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels"`
	IP        string            `json:"ip"`
	Gateway   bool              `json:"gateway"`
}

// Request is what this program reads.
type Request struct {
	Cases     []Case            `json:"cases"`
	Documents []json.RawMessage `json:"documents"`
}

// Answer has one entry for each case, and one for each document, in their order.
type Answer struct {
	Cases     []Result  `json:"cases"`
	Documents []Verdict `json:"documents"`
}

// Result has the facts of each proxy, by `namespace/name`, or the error that prevented them.
type Result struct {
	Name    string           `json:"name"`
	Proxies map[string]Facts `json:"proxies,omitempty"`
	Error   string           `json:"error,omitempty"`
}

// The proxies have the version of the module, and not the older one that the test server takes by default.
const proxyVersion = "1.31.0"

func main() {
	for _, scope := range log.Scopes() {
		scope.SetOutputLevel(log.NoneLevel)
	}
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(from io.Reader, to io.Writer) error {
	var request Request
	decoder := json.NewDecoder(from)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request); err != nil {
		return fmt.Errorf("the request cannot be read: %w", err)
	}
	answer := Answer{Cases: []Result{}, Documents: []Verdict{}}
	for _, asked := range request.Cases {
		answer.Cases = append(answer.Cases, result(asked))
	}
	for _, document := range request.Documents {
		answer.Documents = append(answer.Documents, verdict(document))
	}
	return json.NewEncoder(to).Encode(answer)
}

func result(asked Case) Result {
	made := Result{Name: asked.Name, Proxies: map[string]Facts{}}
	settings, err := mesh.ApplyMeshConfigDefaults(asked.MeshConfig)
	if err != nil {
		return Result{Name: asked.Name, Error: err.Error()}
	}
	written, err := resources(asked.Istio)
	if err != nil {
		return Result{Name: asked.Name, Error: err.Error()}
	}
	err = test.Wrap(func(t test.Failer) {
		server := xds.NewFakeDiscoveryServer(t, xds.FakeOptions{
			KubernetesObjectString: asked.Kubernetes,
			Configs:                written,
			MeshConfig:             settings,
		})
		for _, proxy := range asked.Proxies {
			made.Proxies[proxy.Namespace+"/"+proxy.Name] = factsOf(t, server, node(proxy))
		}
	})
	if err != nil {
		return Result{Name: asked.Name, Error: err.Error()}
	}
	return made
}

// resources reads what a cluster would store. In a cluster its domain is a part of each, by which short names are read.
func resources(text string) ([]config.Config, error) {
	made, unknown, err := crd.ParseInputs(text)
	if err != nil {
		return nil, err
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("%s is no kind of Istio", unknown[0].Kind)
	}
	for i := range made {
		made[i].Domain = "cluster.local"
		if made[i].Namespace == "" || made[i].CreationTimestamp.IsZero() {
			return nil, fmt.Errorf("%s %s lacks a namespace or a time of creation", made[i].GroupVersionKind.Kind, made[i].Name)
		}
	}
	return made, nil
}

func node(proxy Proxy) *model.Proxy {
	of := model.SidecarProxy
	if proxy.Gateway {
		of = model.Router
	}
	return &model.Proxy{
		ID:              proxy.Name + "." + proxy.Namespace,
		Type:            of,
		ConfigNamespace: proxy.Namespace,
		IPAddresses:     []string{proxy.IP},
		Labels:          proxy.Labels,
		Metadata: &model.NodeMetadata{
			Namespace:    proxy.Namespace,
			Labels:       proxy.Labels,
			IstioVersion: proxyVersion,
			ClusterID:    "Kubernetes",
		},
	}
}
