package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Load names the service to call, and the header of an answer to look for.
type Load struct {
	Address   string `json:"address"`
	Authority string `json:"authority"`
	Marker    string `json:"marker"`
}

// planned is one line of the schedule: microseconds after the start, path, and membership of the user (`-` for none).
type planned struct {
	after      time.Duration
	path       string
	membership string
}

// outcome is the result of one request. Both times count from the planned time of sending. So a stall of the generator
// or of the application is in the figures of all requests that it delayed.
type outcome struct {
	late   time.Duration
	took   time.Duration
	status string
	marked bool
}

const (
	setTimerSlack = 29  // PR_SET_TIMERSLACK, which the syscall package does not name
	mostOfBody    = 300 // bytes of an answer that is no success, to tell why
)

// load sends each request at its planned time, whether earlier ones are answered or not (an open loop).
func load(config Load, schedule string, start int64, out string) error {
	plan, err := readSchedule(schedule)
	if err != nil {
		return err
	}
	outcomes := make([]outcome, len(plan))
	client := &http.Client{Transport: transport(), Timeout: callSeconds}
	now := time.Now()
	zero := now.Add(time.Duration(start - now.UnixNano()))
	if time.Until(zero) < 0 {
		return fmt.Errorf("the start has passed %s ago", -time.Until(zero))
	}
	// The runtime's own timers are rounded up to a millisecond when a process is idle; the kernel's are not.
	runtime.LockOSThread()
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, 1, 0)
	var all sync.WaitGroup
	for index, call := range plan {
		intended := zero.Add(call.after)
		sleepUntil(intended)
		all.Add(1)
		go func() {
			defer all.Done()
			outcomes[index] = one(client, config, call, intended)
		}()
	}
	all.Wait()
	return write(out, outcomes)
}

func sleepUntil(when time.Time) {
	for left := time.Until(when); left > 0; left = time.Until(when) {
		rest := syscall.NsecToTimespec(int64(left))
		_ = syscall.Nanosleep(&rest, nil) // interrupted: the loop looks again
	}
}

func one(client *http.Client, config Load, call planned, intended time.Time) outcome {
	// A GET would be sent again by net/http itself where a kept connection turns out to be closed.
	request, err := http.NewRequest(http.MethodPost, "http://"+config.Address+call.path, nil)
	if err != nil {
		return outcome{status: inOneLine(err.Error())}
	}
	request.Host = config.Authority
	if call.membership != "-" {
		request.Header.Set(forwarded, call.membership)
	}
	late := time.Since(intended)
	response, err := client.Do(request)
	var body []byte
	if err == nil {
		defer response.Body.Close()
		body, err = io.ReadAll(response.Body)
	}
	took := time.Since(intended)
	if err != nil {
		return outcome{late: late, took: took, status: inOneLine(err.Error())}
	}
	status := strconv.Itoa(response.StatusCode)
	if response.StatusCode != http.StatusOK {
		status += ": " + inOneLine(string(body[:min(len(body), mostOfBody)]))
	}
	marked := config.Marker != "" && response.Header.Get(config.Marker) != ""
	return outcome{late, took, status, marked}
}

// inOneLine is a text without the separators of the file that it goes to.
func inOneLine(text string) string {
	return strings.Join(strings.Fields(text), " ")
}

func readSchedule(path string) ([]planned, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var plan []planned
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 {
			return nil, fmt.Errorf("line %d of the schedule has %d fields, not 3", len(plan)+1, len(fields))
		}
		after, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return nil, err
		}
		plan = append(plan, planned{time.Duration(after) * time.Microsecond, fields[1], fields[2]})
	}
	return plan, lines.Err()
}

func write(path string, outcomes []outcome) error {
	var text strings.Builder
	for _, call := range outcomes {
		fmt.Fprintf(&text, "%d\t%d\t%t\t%s\n", call.late.Nanoseconds(), call.took.Nanoseconds(), call.marked, call.status)
	}
	// A reader that waits for the file finds it whole.
	if err := os.WriteFile(path+".part", []byte(text.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}
