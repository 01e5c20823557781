package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
)

// Service is one replica: where it listens, and the steps before the answer at each path.
type Service struct {
	Listen []Listen         `json:"listen"`
	Routes map[string]Route `json:"routes"`
}

// Listen is a port of the pod, at one address or, where that is empty, at all of them.
type Listen struct {
	Address  string `json:"address"`
	Port     int    `json:"port"`
	Protocol string `json:"protocol"`
}

// Route is the work at one path: steps in sequence, then an answer of so many bytes.
type Route struct {
	Steps []Step `json:"steps"`
	Reply int    `json:"reply"`
}

const (
	unavailable   = "14"
	unimplemented = "12"
)

// serve says `ready` when everything listens, and answers until it is killed.
func serve(config Service) error {
	// A replica is small. On more cores the runtime would spend a quarter of its time looking for work on each of them.
	runtime.GOMAXPROCS(1)
	routes := make(map[string]*route, len(config.Routes))
	callees, err := newCallees("")
	if err != nil {
		return err
	}
	for path, routeConfig := range config.Routes {
		made, err := newRoute(routeConfig, callees)
		if err != nil {
			return err
		}
		routes[path] = made
	}
	failed := make(chan error)
	for _, listen := range config.Listen {
		listener, err := net.Listen("tcp", net.JoinHostPort(listen.Address, strconv.Itoa(listen.Port)))
		if err != nil {
			return err
		}
		switch listen.Protocol {
		case "tcp":
			go func() { failed <- serveTCP(listener) }()
		case "http":
			go func() { failed <- server(httpHandler(routes)).Serve(listener) }()
		case "grpc":
			go func() { failed <- server(grpcHandler(routes)).Serve(listener) }()
		default:
			return fmt.Errorf("`%s` is no protocol", listen.Protocol)
		}
	}
	fmt.Println("ready")
	return <-failed
}

func server(handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{Handler: handler, Protocols: protocols}
}

func httpHandler(routes map[string]*route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a caller who breaks off gets no answer anyway
		route, ok := routes[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if err := route.walk(r.Header); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_, _ = w.Write(route.reply)
	})
}

func grpcHandler(routes map[string]*route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/grpc")
		route, ok := routes[r.URL.Path]
		if !ok {
			w.Header().Set("Grpc-Status", unimplemented)
			return
		}
		if err := route.walk(r.Header); err != nil {
			w.Header().Set("Grpc-Status", unavailable)
			w.Header().Set("Grpc-Message", err.Error())
			return
		}
		_, _ = w.Write(route.framed)
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
}

// serveTCP answers each question (two lengths, then bytes) with as many bytes as it asks for.
func serveTCP(listener net.Listener) error {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer connection.Close()
			for {
				want, err := readQuestion(connection)
				if err != nil {
					return // the caller closed the connection
				}
				if _, err := connection.Write(bytes.Repeat([]byte{'x'}, want)); err != nil {
					return
				}
			}
		}()
	}
}
