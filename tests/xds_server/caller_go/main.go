// A gRPC client without a proxy, configured by an xDS server, that calls without a pause.
//
//	xdscaller xds:///NAME WORKERS
//
// GRPC_XDS_BOOTSTRAP_CONFIG is in the environment. Each line of input is answered with one line of JSON: how often each
// answer or error came since the last line. The end of input ends the process.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/xds"
)

type raw struct{}

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (raw) Name() string { return "proto" }

const pause = time.Millisecond

func main() {
	workers, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	channel, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	var lock sync.Mutex
	counted := map[string]int{}
	for range workers {
		go func() {
			for {
				answer := call(channel)
				lock.Lock()
				counted[answer]++
				lock.Unlock()
				time.Sleep(pause)
			}
		}()
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		lock.Lock()
		said := counted
		counted = map[string]int{}
		lock.Unlock()
		text, err := json.Marshal(said)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(text))
	}
}

func call(channel *grpc.ClientConn) string {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	request, answer := []byte("hello"), []byte{}
	if err := channel.Invoke(ctx, "/test.Echo/Say", &request, &answer, grpc.ForceCodec(raw{})); err != nil {
		return err.Error()
	}
	return string(answer)
}
