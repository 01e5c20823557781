package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"
)

const (
	tokenSeconds = 3600
	atOnce       = 8 // requests for tokens
	pause        = 200 * time.Millisecond
)

// object has the fields of pods and EndpointSlices that are needed here.
type object struct {
	Metadata struct {
		Name            string            `json:"name"`
		UID             string            `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		InitContainers []struct {
			Name string `json:"name"`
		} `json:"initContainers"`
	} `json:"spec"`
	Status struct {
		PodIP string `json:"podIP"`
	} `json:"status"`
	Ports []struct {
		Port int `json:"port"`
	} `json:"ports"`
}

// cluster makes requests to the API server.
type cluster struct {
	url, token string
	client     *http.Client
	turns      chan struct{}
}

func newCluster(given settings) (*cluster, error) {
	authority, err := os.ReadFile(given.APICA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: atOnce,
	}
	return &cluster{given.API, given.APIToken, &http.Client{Transport: transport}, make(chan struct{}, atOnce)}, nil
}

func (c *cluster) request(ctx context.Context, method, path string, query url.Values, body any) (io.ReadCloser, error) {
	content := []byte(nil)
	if body != nil {
		made, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = made
	}
	made, err := http.NewRequestWithContext(ctx, method, c.url+path+"?"+query.Encode(), bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	made.Header.Set("Authorization", "Bearer "+c.token)
	made.Header.Set("Content-Type", "application/json")
	answer, err := c.client.Do(made)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= 300 {
		defer answer.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 500))
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	return answer.Body, nil
}

// tokenOf asks for the token of a pod, as the kubelet does.
func (c *cluster) tokenOf(ctx context.Context, given settings, pod, uid string) (string, error) {
	c.turns <- struct{}{}
	defer func() { <-c.turns }()
	path := "/api/v1/namespaces/" + given.Namespace + "/serviceaccounts/" + given.Account + "/token"
	bound := map[string]any{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
	spec := map[string]any{
		"audiences": []string{given.Audience}, "expirationSeconds": tokenSeconds, "boundObjectRef": bound,
	}
	answer, err := c.request(ctx, http.MethodPost, path, nil, map[string]any{"spec": spec})
	if err != nil {
		return "", err
	}
	defer answer.Close()
	var found struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	err = json.NewDecoder(answer).Decode(&found)
	return found.Status.Token, err
}

// follow lists the objects of a path, and then watches them. What is there at the beginning counts as added.
func (m *mesh) follow(ctx context.Context, path, fields string, seen func(kind string, item object)) {
	version := ""
	for ctx.Err() == nil {
		var err error
		if version == "" {
			version, err = m.list(ctx, path, fields, seen)
		}
		if err == nil {
			version, err = m.watch(ctx, path, fields, version, seen)
		}
		if err != nil {
			m.fail(err)
			time.Sleep(pause)
		}
	}
}

func (m *mesh) list(ctx context.Context, path, fields string, seen func(kind string, item object)) (string, error) {
	answer, err := m.cluster.request(ctx, http.MethodGet, path, url.Values{"fieldSelector": {fields}}, nil)
	if err != nil {
		return "", err
	}
	defer answer.Close()
	var found struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Items []object `json:"items"`
	}
	if err := json.NewDecoder(answer).Decode(&found); err != nil {
		return "", err
	}
	for _, item := range found.Items {
		seen("ADDED", item)
	}
	return found.Metadata.ResourceVersion, nil
}

// watch returns the version from which the next one goes on; an empty one if that is not possible.
func (m *mesh) watch(
	ctx context.Context, path, fields, version string, seen func(kind string, item object),
) (string, error) {
	query := url.Values{
		"watch": {"true"}, "resourceVersion": {version}, "fieldSelector": {fields}, "timeoutSeconds": {"3600"},
	}
	answer, err := m.cluster.request(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return "", err
	}
	defer answer.Close()
	events := json.NewDecoder(answer)
	for {
		var event struct {
			Type   string `json:"type"`
			Object object `json:"object"`
		}
		if err := events.Decode(&event); err == io.EOF {
			return version, nil
		} else if err != nil {
			return version, err
		}
		if event.Type == "ERROR" {
			return "", fmt.Errorf("the watch of %s has ended with an error", path)
		}
		version = event.Object.Metadata.ResourceVersion
		seen(event.Type, event.Object)
	}
}
