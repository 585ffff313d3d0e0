// Command flaky reads the record of gotestsum --jsonfile on standard input. It lists tests that passed when they ran again, and fails where gotestsum forgives a fault: a package that
// fails without a failed test, a crash of a child process, a failed test that did not run again, a test skipped for want of a tool.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

var (
	crash = regexp.MustCompile(`(?m)^ *(err\| )?(panic: |fatal error: |WARNING: DATA RACE).*`)
	left  = regexp.MustCompile(`not (under -short|with -race): `) // out on purpose: packages long and testenv
	first = regexp.MustCompile(`(?m)^ +\S+\.go:\d+: .*`)          // message of a test, or ""
)

// judge returns the tests that failed and then passed, and the faults, each with a message.
func judge(record io.Reader) (flaky, faults []string) {
	output, failed, failures := map[string]string{}, map[string]string{}, map[string]int{} // failures counts those of a run of a package
	for events := json.NewDecoder(record); events.More(); {
		var e struct{ Action, Package, Test, Output string }
		if err := events.Decode(&e); err != nil {
			return flaky, append(faults, err.Error())
		}
		name := strings.TrimSpace(e.Package + " " + e.Test)
		switch {
		case e.Action == "start", e.Action == "run":
			output[name], failures[name] = "", 0
		case e.Action == "output":
			output[name] += e.Output
		case e.Action == "skip" && e.Test != "" && !left.MatchString(output[name]):
			faults = append(faults, "SKIPPED "+name+first.FindString(output[name]))
		case e.Action == "fail" && e.Test == "" && failures[name] == 0:
			faults = append(faults, "FAILED "+name+" without a failed test: "+output[name])
		case e.Action == "fail" && e.Test != "":
			failures[e.Package]++
			failed[name] = name + first.FindString(output[name])
			if text := crash.FindString(output[name]); text != "" {
				faults = append(faults, "CRASHED "+name+text)
			}
		case e.Action == "pass" && failed[name] != "":
			flaky = append(flaky, "FLAKY "+failed[name])
			delete(failed, name)
		}
	}
	for _, text := range failed {
		faults = append(faults, "FAILED "+text)
	}
	return flaky, faults
}

func main() {
	flaky, faults := judge(os.Stdin)
	fmt.Print(strings.Join(append(append(flaky, faults...), ""), "\n"))
	os.Exit(min(1, len(faults)))
}
