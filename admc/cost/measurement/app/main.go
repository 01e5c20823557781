// Command app is both ends of a measurement: the processes of an application, and the load that it gets.
//
//	app serve CONFIG                     one replica of a service: answers, and calls its callees first
//	app measure [SOURCE]                 sends the load of each line of its input, and answers with a line of figures
//	app load CONFIG SCHEDULE START OUT   sends a schedule that was fixed in advance, from START (nanoseconds since 1970)
//
// Only the standard library is used: `net/http` speaks HTTP/2 without TLS since Go 1.24, and gRPC's framing is five
// bytes and a trailer.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	switch {
	case len(arguments) == 2 && arguments[0] == "serve":
		var config Service
		if err := read(arguments[1], &config); err != nil {
			return err
		}
		return serve(config)
	case len(arguments) == 5 && arguments[0] == "load":
		var config Load
		if err := read(arguments[1], &config); err != nil {
			return err
		}
		start, err := strconv.ParseInt(arguments[3], 10, 64)
		if err != nil {
			return fmt.Errorf("START is a number of nanoseconds: %w", err)
		}
		return load(config, arguments[2], start, arguments[4])
	case len(arguments) == 1 && arguments[0] == "measure":
		return measure("")
	case len(arguments) == 2 && arguments[0] == "measure":
		return measure(arguments[1])
	}
	return fmt.Errorf("usage: app serve CONFIG | app measure [SOURCE] | app load CONFIG SCHEDULE START OUT")
}

func read(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}
