// Plays kubelet and Envoy of all pods that have an ADM: gets a token for each, asks the server that has written its
// address for configuration as Envoy does, acknowledges what comes, and notes which addresses it has.
//
//	proxies SETTINGS
//
// Each command on stdin is answered by one line of JSON on stdout:
//
//	status  how many pods and proxies there are
//	learn   remember which proxies have the addresses of which service: from now on these need its new addresses
//	take    the new addresses since the last time that all proxies have acknowledged which need them
package main

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// settings are read from a file of JSON.
type settings struct {
	API        string `json:"api"`
	APIToken   string `json:"api_token"`
	APICA      string `json:"api_ca"`
	Namespace  string `json:"namespace"`
	Account    string `json:"account"`
	Audience   string `json:"audience"`
	System     string `json:"system"`
	Slice      string `json:"slice"`
	Host       string `json:"host"`
	Authority  string `json:"authority"`
	ServerName string `json:"server_name"`
	Container  string `json:"container"`
	Siblings   string `json:"siblings"`
}

// mesh is everything that the proxies share.
type mesh struct {
	settings
	cluster   *cluster
	tls       credentials.TransportCredentials
	addresses *addresses

	mutex   sync.Mutex
	proxies map[string]*proxy
	pods    map[string]string // uid of each pod with an address -> the address
	port    int               // of the server
	failure string            // what a proxy met last
	bytes   int64
	answers int64
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	found := &mesh{addresses: newAddresses(), proxies: map[string]*proxy{}, pods: map[string]string{}}
	if err := json.Unmarshal(text, &found.settings); err != nil {
		return err
	}
	authority, err := os.ReadFile(found.Authority)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	found.tls = credentials.NewClientTLSFromCert(pool, found.ServerName)
	if found.cluster, err = newCluster(found.settings); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go found.follow(ctx, "/api/v1/namespaces/"+found.Namespace+"/pods", "", found.pod)
	go found.follow(ctx, "/apis/discovery.k8s.io/v1/namespaces/"+found.System+"/endpointslices",
		"metadata.name="+found.Slice, found.slice)
	return found.answer()
}

func (m *mesh) answer() error {
	commands, output := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for commands.Scan() {
		var answer any
		switch commands.Text() {
		case "status":
			answer = m.status()
		case "learn":
			answer = m.addresses.learn()
		case "take":
			answer = m.addresses.take()
		default:
			return fmt.Errorf("no such command: %s", commands.Text())
		}
		if err := output.Encode(answer); err != nil {
			return err
		}
	}
	return commands.Err()
}

func (m *mesh) status() map[string]any {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	connected := 0
	for _, each := range m.proxies {
		if each.connected.Load() {
			connected++
		}
	}
	return map[string]any{"pods": len(m.pods), "proxies": len(m.proxies), "connected": connected,
		"failure": m.failure, "bytes": m.bytes, "answers": m.answers}
}

func (m *mesh) fail(err error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.failure = err.Error()
}

// pod is called for each pod that the API server shows.
func (m *mesh) pod(kind string, item object) {
	now := time.Now().UnixNano()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	name, uid, service := item.Metadata.Name, item.Metadata.UID, item.Metadata.Labels["app"]
	if kind == "DELETED" {
		if at, known := m.pods[uid]; known {
			delete(m.pods, uid)
			m.addresses.gone(at)
		}
		if old := m.proxies[name]; old != nil {
			delete(m.proxies, name)
			old.stop()
			m.addresses.leave(name)
		}
		return
	}
	if item.Status.PodIP == "" || m.pods[uid] != "" {
		return
	}
	m.pods[uid] = item.Status.PodIP
	m.addresses.appeared(item.Status.PodIP, service, now)
	for _, container := range item.Spec.InitContainers {
		if container.Name == m.Container {
			ctx, stop := context.WithCancel(context.Background())
			made := newProxy(m, name, uid, service, stop)
			m.proxies[name] = made
			go made.run(ctx)
		}
	}
}

// slice is called for each state of the EndpointSlice in which the active server writes its address.
func (m *mesh) slice(kind string, item object) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.port = 0
	if kind != "DELETED" && len(item.Ports) > 0 {
		m.port = item.Ports[0].Port
	}
}

// server is where proxies connect, as the Service would lead them; empty before there is any.
func (m *mesh) server() string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.port == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d", m.Host, m.port)
}
