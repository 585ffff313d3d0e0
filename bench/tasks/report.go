package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/taktworks/takt/internal/bench"
)

// row is a line of the report.
type row struct{ key, title string }

var rows = []row{
	{"submit_1_per_s", "submit, 1 goroutine, tasks/s"},
	{"submit_64_per_s", "submit, 64 goroutines, tasks/s"},
	{"submit_batch_per_s", "submit, batches of 256, tasks/s"},
	{"process_per_s", "process, tasks/s"},
	{"process_go_cpu_us", "  CPU of the Go process, µs/task"},
	{"process_server_cpu_us", "  CPU of Redis, µs/task"},
	{"process_commands", "  Redis commands per task"},
	{"end_to_end_per_s", "end to end, batch submit, tasks/s"},
	{"end_to_end_go_cpu_us", "  CPU of the Go process, µs/task"},
	{"end_to_end_server_cpu_us", "  CPU of Redis, µs/task"},
	{"end_to_end_commands", "  Redis commands per task"},
	{"end_to_end_single_per_s", "end to end, 64 goroutines, tasks/s"},
	{"end_to_end_results_per_s", "end to end, results kept, tasks/s"},
	{"latency_idle_p50_ms", "latency at idle, p50, ms"},
	{"latency_idle_p99_ms", "latency at idle, p99, ms"},
	{"latency_rate_p50_ms", "latency at %d/s, p50, ms"},
	{"latency_rate_p99_ms", "latency at %d/s, p99, ms"},
	{"latency_rate_reached_per_s", "  rate reached, tasks/s"},
	{"memory_waiting_bytes", "memory of a waiting task, bytes"},
	{"memory_message_bytes", "  of that its encoded message"},
	{"memory_overhead_bytes", "  of that what the store adds"},
	{"memory_left_bytes", "  left of it when done"},
}

// brief is a run in a few words.
func brief(name string, f figures) string {
	for _, key := range []string{"_per_s", "_p50_ms", "_waiting_bytes"} {
		if v, ok := f[name+key]; ok {
			return strings.TrimSpace(bench.Number(v) + " " + map[string]string{"_per_s": "tasks/s", "_p50_ms": "ms (p50)", "_waiting_bytes": "bytes"}[key])
		}
	}
	return ""
}

// report is what is told of a benchmark.
type report struct {
	*comparison
	server *bench.Server
	AOF    bool
}

// cells are the lines of the report: the figures of each peer, and how many times better Takt is than the best setting of each other library.
func (r report) cells() (header []string, lines [][]string) {
	header = []string{""}
	for _, e := range r.entries {
		header = append(header, strings.ReplaceAll(e.Name, "_", " "))
	}
	rivals := r.rivals()
	for _, library := range rivals {
		header = append(header, "Takt : "+library)
	}
	for _, row := range rows {
		title := row.title
		if strings.Contains(title, "%d") {
			title = fmt.Sprintf(title, r.Rate)
		}
		line, known := []string{title}, false
		for _, e := range r.entries {
			v := r.found.value(e.Name, row.key)
			known = known || !math.IsNaN(v)
			line = append(line, bench.Number(v))
		}
		for _, library := range rivals {
			_, ratio := r.best(library, row.key)
			line = append(line, times(ratio))
		}
		if known {
			lines = append(lines, line)
		}
	}
	return header, lines
}

func times(ratio float64) string {
	if math.IsNaN(ratio) {
		return "-"
	}
	return bench.Number(ratio) + "x"
}

// rivals are the libraries that Takt is compared with.
func (r report) rivals() []string {
	if !uses(r.entries, taktName) {
		return nil
	}
	var all []string
	for _, e := range r.entries {
		if e.Library != taktName && !slices.Contains(all, e.Library) {
			all = append(all, e.Library)
		}
	}
	return all
}

// best is the setting of a library with which a figure comes out best, and how many times better Takt's is.
func (r report) best(library, key string) (peer string, ratio float64) {
	ratio = math.NaN()
	for _, e := range r.entries {
		if e.Library != library {
			continue
		}
		if v := r.found.ratio(e.Name, key); !math.IsNaN(v) && !(v >= ratio) {
			peer, ratio = e.Name, v
		}
	}
	return peer, ratio
}

// table writes the report for a person.
func (r report) table(w io.Writer) error {
	header, lines := r.cells()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	width := 0
	for _, line := range lines {
		width = max(width, len([]rune(line[0])))
	}
	for _, line := range append([][]string{header}, lines...) {
		first := line[0] + strings.Repeat(" ", width-len([]rune(line[0])))
		fmt.Fprintf(t, "%s\t%s\t\n", first, strings.Join(line[1:], "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(r.notes(), "\n"))
	return err
}

// markdown writes the report for a page.
func (r report) markdown(w io.Writer) error {
	header, lines := r.cells()
	fmt.Fprintf(w, "| %s |\n|---|%s\n", strings.Join(header, " | "), strings.Repeat("---:|", len(header)-1))
	for _, line := range lines {
		if title := strings.TrimLeft(line[0], " "); title != line[0] {
			line[0] = "– " + title
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | "))
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(r.notes(), "  \n"))
	return err
}

// notes say what the figures hold for.
func (r report) notes() []string {
	notes := []string{
		fmt.Sprintf("Medians of %d rounds of up to %s tasks with a payload of %d bytes and a handler that does nothing.", r.Rounds, bench.Thousands(float64(r.N)), payloadBytes),
	}
	if len(r.rivals()) > 0 {
		notes = append(notes, "Takt : x says how many times better Takt is than the best setting of x, by the runs next to each other.")
	}
	if uses(r.entries, taktName) && uses(r.entries, bareName) {
		notes = append(notes, "Takt : bare is the share of what Redis and its client can do here that is left to a task that is safe.")
	}
	notes = append(notes, r.machine()+".")
	for _, e := range r.entries {
		notes = append(notes, strings.ReplaceAll(e.Name, "_", " ")+": "+e.About+".")
	}
	return notes
}

func (r report) machine() string {
	parts := []string{fmt.Sprintf("%d CPUs", runtime.NumCPU()), runtime.Version()}
	if s := r.server; s != nil {
		kept := "in memory"
		if r.AOF {
			kept = "append-only file flushed every second"
		}
		parts = append(parts, s.Version+" ("+kept+")")
	}
	if v := moduleVersion("asynq"); v != "" && uses(r.entries, "asynq") {
		parts = append(parts, "asynq "+v)
	}
	return strings.Join(parts, ", ")
}

// moduleVersion is the version of a library in this program, "" if it was built without that.
func moduleVersion(library string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if strings.HasSuffix(m.Path, "/"+library) {
			return m.Version
		}
	}
	return ""
}

// object is all figures by name: <peer>_<figure>, and ratio_<peer>_<figure> with Takt before that peer.
func (r report) object() map[string]any {
	o := map[string]any{
		"n": r.N, "rounds": r.Rounds, "rate_per_s": r.Rate, "aof": r.AOF,
		"cpus": runtime.NumCPU(), "go": runtime.Version(),
	}
	put := func(key string, v float64) {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			o[key] = math.Round(v*1000) / 1000
		}
	}
	for _, e := range r.entries {
		for key := range r.found.values[e.Name] {
			put(e.Name+"_"+key, r.found.value(e.Name, key))
			put("ratio_"+e.Name+"_"+key, r.found.ratio(e.Name, key))
		}
		if v := moduleVersion(e.Library); v != "" {
			o[e.Library] = v
		}
	}
	if s := r.server; s != nil {
		o["redis"] = s.Version
	}
	return o
}

func (r report) json(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r.object())
}
