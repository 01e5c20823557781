// Command load sends requests without a pause: each of its callers sends the next one when the last is answered.
//
//	load VERSION CONTENT-TYPE ADDRESS AUTHORITY PATH SIZE CALLERS CONNECTIONS
//
// VERSION is the version of HTTP (1 or 2). Callers share the connections evenly; with HTTP/1 each needs its own. Each
// line of the input has a number of seconds, and is answered with a line: how many requests were answered and how many
// failed, with the last error. Connections are kept from one line to the next.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

type asked struct {
	content, address, authority, path string
	body                              []byte
}

type turn struct {
	Seconds float64 `json:"seconds"`
}

type answer struct {
	Answered int    `json:"answered"`
	Failed   int    `json:"failed"`
	Error    string `json:"error"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 8 {
		return fmt.Errorf("usage: load VERSION CONTENT-TYPE ADDRESS AUTHORITY PATH SIZE CALLERS CONNECTIONS")
	}
	numbers := make([]int, 3)
	for index, text := range arguments[5:] {
		number, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		numbers[index] = number
	}
	what := asked{arguments[1], arguments[2], arguments[3], arguments[4], bytes.Repeat([]byte{'x'}, numbers[0])}
	transports := make([]*http.Transport, numbers[2])
	for index := range transports {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(arguments[0] == "1")
		protocols.SetUnencryptedHTTP2(arguments[0] == "2")
		transports[index] = &http.Transport{Protocols: protocols, DisableCompression: true}
	}
	fmt.Println("ready")
	lines, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var line turn
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := out.Encode(all(what, transports, numbers[1], time.Duration(line.Seconds*1e9))); err != nil {
			return err
		}
	}
}

// all lets the callers run for some time, and waits for their last answers.
func all(what asked, transports []*http.Transport, callers int, lasts time.Duration) answer {
	var sum answer
	var lock sync.Mutex
	var group sync.WaitGroup
	until := time.Now().Add(lasts)
	for index := range callers {
		group.Add(1)
		go func() {
			defer group.Done()
			var own answer
			for time.Now().Before(until) {
				if err := one(what, transports[index%len(transports)]); err != nil {
					own.Failed, own.Error = own.Failed+1, err.Error()
				} else {
					own.Answered++
				}
			}
			lock.Lock()
			defer lock.Unlock()
			sum.Answered, sum.Failed = sum.Answered+own.Answered, sum.Failed+own.Failed
			if own.Error != "" {
				sum.Error = own.Error
			}
		}()
	}
	group.Wait()
	return sum
}

func one(what asked, by *http.Transport) error {
	request, err := http.NewRequest(http.MethodPost, "http://"+what.address+what.path, bytes.NewReader(what.body))
	if err != nil {
		return err
	}
	request.Host = what.authority
	request.Header.Set("Content-Type", what.content)
	response, err := by.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}
