package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Slice is one line of the input: load for a short time, and the processes whose CPU is measured meanwhile.
type Slice struct {
	Streams []Stream `json:"streams"`
	// Requests are sent for Warm seconds first, which do not count, and then for Seconds.
	Warm      float64 `json:"warm"`
	Seconds   float64 `json:"seconds"`
	Processes []int   `json:"processes"`
}

// Stream is one kind of request, sent at even distances.
type Stream struct {
	Step
	Rate float64 `json:"rate"`
}

// Measured is the line that answers a Slice.
type Measured struct {
	Streams []Streamed `json:"streams"`
	// Seconds between the two readings of the CPU times.
	Seconds float64 `json:"seconds"`
	// CPU is seconds by process; a process that cannot be read is missing.
	CPU map[string]float64 `json:"cpu"`
}

// Streamed is the result of one Stream. Times are microseconds from the planned time of sending.
type Streamed struct {
	Sent    int     `json:"sent"`
	Failed  int     `json:"failed"`
	Error   string  `json:"error"`
	Latency float64 `json:"latency"`
	Late    float64 `json:"late"`
}

const (
	settle       = time.Millisecond // what a proxy still does after its answer has arrived
	mostRequests = 1 << 20
)

// measure answers slices until the input ends. Connections are kept from one slice to the next.
func measure(source string) error {
	callees, err := newCallees(source)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, 1, 0)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, mostBytes)
	out := json.NewEncoder(os.Stdout)
	fmt.Println("ready")
	for lines.Scan() {
		var asked Slice
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			return err
		}
		measured, err := oneSlice(asked, callees)
		if err != nil {
			return err
		}
		if err := out.Encode(measured); err != nil {
			return err
		}
	}
	return lines.Err()
}

// sent is one request of a window.
type sent struct {
	stream int
	after  time.Duration
	late   time.Duration
	took   time.Duration
	err    error
}

func oneSlice(asked Slice, callees *callees) (Measured, error) {
	steps := make([]*step, len(asked.Streams))
	for index, stream := range asked.Streams {
		made, err := newStep(stream.Step, callees)
		if err != nil {
			return Measured{}, err
		}
		steps[index] = made
	}
	if asked.Warm > 0 {
		window(planWindow(asked.Streams, asked.Warm), steps)
	}
	runtime.GC() // outside the window, since its work grows with what was sent
	time.Sleep(settle)
	before := cpuOf(asked.Processes)
	began := time.Now()
	plan := planWindow(asked.Streams, asked.Seconds)
	if len(plan) > mostRequests {
		return Measured{}, fmt.Errorf("%d requests are too many for one slice", len(plan))
	}
	window(plan, steps)
	if left := time.Duration(asked.Seconds*1e9) - time.Since(began); left > 0 {
		time.Sleep(left)
	}
	time.Sleep(settle)
	seconds := time.Since(began).Seconds()
	return Measured{summary(plan, len(steps)), seconds, spentBetween(before, cpuOf(asked.Processes))}, nil
}

// planWindow has the requests of all streams in the order of time; streams begin at different moments.
func planWindow(streams []Stream, seconds float64) []sent {
	var plan []sent
	for index, stream := range streams {
		number := max(1, int(stream.Rate*seconds+0.5))
		for turn := range number {
			at := (float64(turn) + float64(index)/float64(len(streams))) / stream.Rate
			plan = append(plan, sent{stream: index, after: time.Duration(at * 1e9)})
		}
	}
	slices.SortStableFunc(plan, func(a, b sent) int { return int(a.after - b.after) })
	return plan
}

// window sends the planned requests, and waits for all answers.
func window(plan []sent, steps []*step) {
	zero := time.Now().Add(settle)
	var all sync.WaitGroup
	for index := range plan {
		request := &plan[index]
		intended := zero.Add(request.after)
		sleepUntil(intended)
		all.Add(1)
		go func() {
			defer all.Done()
			request.late = time.Since(intended)
			request.err = steps[request.stream].call("")
			request.took = time.Since(intended)
		}()
	}
	all.Wait()
}

func summary(plan []sent, streams int) []Streamed {
	streamed := make([]Streamed, streams)
	for index := range streamed {
		var took, late []time.Duration
		for _, request := range plan {
			if request.stream != index {
				continue
			}
			streamed[index].Sent++
			if request.err != nil {
				streamed[index].Failed++
				streamed[index].Error = inOneLine(request.err.Error())
				continue
			}
			took, late = append(took, request.took), append(late, request.late)
		}
		streamed[index].Latency, streamed[index].Late = median(took), median(late)
	}
	return streamed
}

// median is in microseconds; 0 for nothing.
func median(values []time.Duration) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return float64(values[middle].Nanoseconds()) / 1e3
	}
	return float64((values[middle-1] + values[middle]).Nanoseconds()) / 2e3
}

// cpuOf has nanoseconds of CPU by process and thread, since `/proc/PID/schedstat` has those of the first thread alone.
func cpuOf(processes []int) map[string]int64 {
	times := map[string]int64{}
	for _, process := range processes {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", process))
		for _, file := range files {
			content, err := os.ReadFile(file)
			if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
				continue // the thread has ended
			}
			fields := strings.Fields(string(content))
			if err != nil || len(fields) != 3 {
				continue
			}
			value, err := strconv.ParseInt(fields[0], 10, 64)
			if err == nil {
				times[file] = value
			}
		}
	}
	return times
}

// spentBetween has seconds of CPU by process. A thread that is missing before began at zero.
func spentBetween(before, after map[string]int64) map[string]float64 {
	spent := map[string]float64{}
	for file, value := range after {
		spent[strings.Split(file, "/")[2]] += float64(value-before[file]) / 1e9
	}
	return spent
}
