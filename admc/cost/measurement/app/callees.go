package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Step is one call that a service makes before it answers: on every N-th request, as if a cache were missed then.
type Step struct {
	Protocol  string `json:"protocol"`
	Address   string `json:"address"`
	Authority string `json:"authority"`
	Path      string `json:"path"`
	Size      int    `json:"size"`
	Every     uint64 `json:"every"`
	// Headers go with every request; tcp has none.
	Headers map[string]string `json:"headers"`
}

const (
	callSeconds = 10 * time.Second
	mostBytes   = 1 << 20
	// The header that a service passes on from its caller to its callees, as applications pass on the context of a user.
	forwarded = "X-Membership"
)

type route struct {
	steps  []*step
	reply  []byte
	framed []byte
	seen   atomic.Uint64
}

type step struct {
	Step
	call func(membership string) error
}

// callees keeps connections: one transport for each protocol, one pool for each tcp address.
type callees struct {
	dialer *net.Dialer
	plain  *http.Transport
	grpc   *http.Transport
	pools  map[string]*pool
}

// newCallees opens connections from an address of this machine, or from any where `source` is empty.
func newCallees(source string) (*callees, error) {
	dialer := &net.Dialer{Timeout: callSeconds}
	if source != "" {
		address := net.ParseIP(source)
		if address == nil {
			return nil, fmt.Errorf("`%s` is no address", source)
		}
		dialer.LocalAddr = &net.TCPAddr{IP: address}
	}
	grpc := new(http.Protocols)
	grpc.SetUnencryptedHTTP2(true)
	plain := transport()
	plain.DialContext = dialer.DialContext
	return &callees{
		dialer: dialer,
		plain:  plain,
		grpc:   &http.Transport{Protocols: grpc, DisableCompression: true, DialContext: dialer.DialContext},
		pools:  map[string]*pool{},
	}, nil
}

func transport() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 4096, DisableCompression: true}
}

func newRoute(config Route, to *callees) (*route, error) {
	body := text(config.Reply)
	made := &route{reply: body, framed: frame(body)}
	for _, stepConfig := range config.Steps {
		one, err := newStep(stepConfig, to)
		if err != nil {
			return nil, err
		}
		made.steps = append(made.steps, one)
	}
	return made, nil
}

func newStep(config Step, to *callees) (*step, error) {
	body := text(config.Size)
	one := &step{Step: config}
	switch config.Protocol {
	case "http":
		one.call = func(membership string) error { return to.http(config, body, membership) }
	case "grpc":
		framed := frame(body)
		one.call = func(membership string) error { return to.unary(config, framed, membership) }
	case "tcp":
		if to.pools[config.Address] == nil {
			to.pools[config.Address] = &pool{address: config.Address, dialer: to.dialer}
		}
		kept := to.pools[config.Address]
		asks := question(body, config.Size)
		one.call = func(string) error { return kept.ask(asks, config.Size) }
	default:
		return nil, fmt.Errorf("`%s` is no protocol", config.Protocol)
	}
	return one, nil
}

// walk makes the calls of one request, one after another.
func (r *route) walk(from http.Header) error {
	turn := r.seen.Add(1)
	for _, one := range r.steps {
		if turn%one.Every != 0 {
			continue
		}
		if err := one.call(from.Get(forwarded)); err != nil {
			return fmt.Errorf("%s%s: %w", one.Authority, one.Path, err)
		}
	}
	return nil
}

func (c *callees) http(to Step, body []byte, membership string) error {
	response, err := send(c.plain, to, body, membership, nil)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}

func (c *callees) unary(to Step, framed []byte, membership string) error {
	response, err := send(c.grpc, to, framed, membership, http.Header{
		"Content-Type": {"application/grpc"},
		"Te":           {"trailers"},
	})
	if err != nil {
		return err
	}
	status := response.Trailer.Get("Grpc-Status")
	if status == "" {
		status = response.Header.Get("Grpc-Status")
	}
	if status != "0" {
		return fmt.Errorf("gRPC status `%s`, HTTP status %d", status, response.StatusCode)
	}
	return nil
}

// send makes one request and reads its answer to the end, so that the connection can be used again.
func send(by *http.Transport, to Step, body []byte, membership string, headers http.Header) (*http.Response, error) {
	request, err := http.NewRequest(http.MethodPost, "http://"+to.Address+to.Path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if headers != nil {
		request.Header = headers
	}
	for name, value := range to.Headers {
		request.Header.Set(name, value)
	}
	if membership != "" {
		request.Header.Set(forwarded, membership)
	}
	request.Host = to.Authority
	client := http.Client{Transport: by, Timeout: callSeconds}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return nil, err
	}
	return response, nil
}

// frame is a gRPC message: a flag, a length, and the bytes.
func frame(body []byte) []byte {
	head := make([]byte, 5, 5+len(body))
	binary.BigEndian.PutUint32(head[1:], uint32(len(body)))
	return append(head, body...)
}

// question is a request to a tcp service: how many bytes follow, how many the answer has, and the bytes.
func question(body []byte, want int) []byte {
	head := make([]byte, 8, 8+len(body))
	binary.BigEndian.PutUint32(head, uint32(len(body)))
	binary.BigEndian.PutUint32(head[4:], uint32(want))
	return append(head, body...)
}

func readQuestion(from io.Reader) (int, error) {
	var head [8]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return 0, err
	}
	size, want := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
	if size > mostBytes || want > mostBytes {
		return 0, fmt.Errorf("a question of %d bytes for %d is too long", size, want)
	}
	_, err := io.CopyN(io.Discard, from, int64(size))
	return int(want), err
}

// pool keeps the connections to one tcp service; the one that was used last is used next.
type pool struct {
	address string
	dialer  *net.Dialer
	lock    sync.Mutex
	idle    []net.Conn
}

func (p *pool) ask(asks []byte, want int) error {
	connection, err := p.take()
	if err != nil {
		return err
	}
	if err := exchange(connection, asks, want); err != nil {
		connection.Close()
		return err
	}
	p.lock.Lock()
	p.idle = append(p.idle, connection)
	p.lock.Unlock()
	return nil
}

func (p *pool) take() (net.Conn, error) {
	if connection := p.kept(); connection != nil {
		return connection, nil
	}
	return p.dialer.Dial("tcp", p.address)
}

func (p *pool) kept() net.Conn {
	p.lock.Lock()
	defer p.lock.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	connection := p.idle[last]
	p.idle = p.idle[:last]
	return connection
}

func exchange(connection net.Conn, asks []byte, want int) error {
	if err := connection.SetDeadline(time.Now().Add(callSeconds)); err != nil {
		return err
	}
	if _, err := connection.Write(asks); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, connection, int64(want))
	return err
}
