package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// leaves are the commands that do something.
func leaves(t *testing.T) []*kong.Node {
	t.Helper()
	parser, err := kong.New(&cli{}, kong.Name("takt"))
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model.Leaves(true)
}

// Every command says what it is for, every flag and argument what it means, and --help shows examples that can be typed in.
func TestHelp(t *testing.T) {
	t.Chdir("../..")                                   // the examples name files of the repository
	parses, parsed := parser(t), make(map[string]bool) // many commands share examples
	for _, leaf := range leaves(t) {
		path := strings.TrimPrefix(leaf.FullPath(), "takt ")
		path, _, _ = strings.Cut(path, " <")
		t.Run(path, func(t *testing.T) {
			code, out, errOut := takt(append(strings.Fields(path), "--help")...)
			if code != 0 || errOut != "" {
				t.Fatalf("exit status %d: %s", code, errOut)
			}
			if leaf.Help == "" {
				t.Error("no help")
			}
			for _, flag := range leaf.Flags {
				if flag.Help == "" {
					t.Errorf("--%s: no help", flag.Name)
				}
			}
			for _, argument := range leaf.Positional {
				if argument.Help == "" {
					t.Errorf("%s: no help", argument.Name)
				}
			}
			examples := examplesOf(out)
			if len(examples) == 0 {
				t.Fatalf("no examples:\n%s", out)
			}
			own := false
			for _, example := range examples {
				words := words(t, example)
				own = own || strings.HasPrefix(strings.Join(words, " "), path)
				if text := strings.Join(words, " "); !parsed[text] {
					parsed[text] = true
					parses(t, words)
				}
			}
			if !own && !strings.HasPrefix(path, "job ") { // the job commands share their help
				t.Errorf("no example of takt %s: %q", path, examples)
			}
		})
	}
}

// Help begins with the commands. The flags that all commands have are a line there, and whole under takt help connection.
func TestHelpBeginsWithCommands(t *testing.T) {
	for _, c := range []struct {
		args, begins string
		all          bool // flags of connections
	}{
		{"", "Commands:\n\nStart\n  demo ", false},
		{"--help", "Commands:\n\nStart\n  demo ", false},
		{"job --help", "Job orders\n  job store ", false},
		{"help job", "Job orders\n  job store ", false},
		{"help job show", "Shows a job order with its state", false},
		{"help connection", "Configuration\n  --config=FILE", true},
	} {
		code, out, errOut := takt(strings.Fields(c.args)...)
		if code != 0 || errOut != "" {
			t.Fatalf("%q: exit status %d: %s", c.args, code, errOut)
		}
		at := strings.Index(out, c.begins)
		if lines := strings.Count(out[:max(at, 0)], "\n"); at < 0 || lines > 8 {
			t.Errorf("%q: want %q in the first lines:\n%s", c.args, c.begins, out)
		}
		if strings.Contains(out, "--redis-ca") != c.all || strings.Contains(out, "takt help connection") == c.all {
			t.Errorf("%q: flags of connections:\n%s", c.args, out)
		}
	}
	if code, _, errOut := takt("help", "jbo"); code != exitUsage || !strings.Contains(errOut, "job") {
		t.Errorf("help of a command that is missing: exit status %d: %s", code, errOut)
	}
}

// examplesOf returns the lines of a help text under Examples.
func examplesOf(help string) (examples []string) {
	_, rest, found := strings.Cut(help, "Examples:")
	if !found {
		return nil
	}
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		if strings.HasSuffix(line, ":") {
			break
		}
		if _, command, ok := strings.Cut(line, "takt "); ok {
			examples = append(examples, command)
		}
	}
	return examples
}

// words splits a command as a shell does, up to what belongs to the shell.
func words(t *testing.T, command string) (all []string) {
	t.Helper()
	quoted := strings.Split(command, "'")
	if len(quoted)%2 == 0 {
		t.Fatalf("open quote: %s", command)
	}
	for i, part := range quoted {
		if i%2 == 1 {
			all = append(all, part)
			continue
		}
		for word := range strings.FieldsSeq(part) {
			if strings.ContainsAny(word[:1], "<>|#") {
				return all
			}
			all = append(all, word)
		}
	}
	return all
}

// parser returns a check that args are a command line. To make the parser takes far longer than to parse.
func parser(t *testing.T) (parses func(t *testing.T, args []string)) {
	t.Helper()
	parser, err := kong.New(&cli{}, kong.Name("takt"), kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, args []string) {
		t.Helper()
		for _, file := range []string{"station.jsonl"} { // made by the example
			if _, err := os.Stat(file); err == nil {
				t.Errorf("%s is in the repository", file)
			}
		}
		if _, err := parser.Parse(args); err != nil {
			t.Errorf("takt %s: %v", strings.Join(args, " "), err)
		}
	}
}

// What cannot be a queue is a usage error of every command that takes one, before it asks Redis for anything.
func TestQueueThatIsNone(t *testing.T) {
	commands := 0
	for _, leaf := range leaves(t) {
		if strings.HasPrefix(leaf.FullPath(), "takt workflow ") { // their queues are others: TestWorkflowNamesThatAreNone
			continue
		}
		flag := slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == "queue" })
		if !flag && !slices.ContainsFunc(leaf.Positional, func(p *kong.Value) bool { return p.Name == "queue" }) {
			continue
		}
		commands++
		for _, bad := range []string{"x", "normal", "urgent:small", "normal:", "normal:Line 3", ""} {
			args := strings.Fields(leaf.Path())
			if flag {
				args = append(args, "--queue", bad)
			}
			for _, p := range leaf.Positional {
				if p.Name == "queue" {
					args = append(args, bad)
				} else {
					args = append(args, "x")
				}
			}
			if code, out, errOut := takt(args...); code != exitUsage || !strings.Contains(errOut, fmt.Sprintf("queue %q", bad)) {
				t.Errorf("takt %q: exit status %d, want %d and the queue named\n%s%s", args, code, exitUsage, out, errOut)
			}
		}
	}
	if commands < 9 {
		t.Errorf("%d commands take a queue, there were 9", commands)
	}
}

// Whatever is asked of tasks, schedules, locks and workflows, programs can read the answer (7.4 of the task system's description).
func TestJSONForAll(t *testing.T) {
	for _, leaf := range leaves(t) {
		path := strings.Fields(leaf.FullPath())
		flag := func(name string) bool {
			return slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == name })
		}
		if slices.Contains([]string{"task", "schedule", "lock", "workflow"}, path[1]) && !flag("json") && !flag("lease") { // workers and schedulers have a lease, and a log
			t.Errorf("%s has no --json", leaf.FullPath())
		}
	}
}

func TestNoArgumentsIsHelp(t *testing.T) {
	code, out, _ := takt()
	if code != 0 || !strings.Contains(out, "takt demo") || !strings.Contains(out, "takt dev") {
		t.Errorf("exit status %d:\n%s", code, out)
	}
}

func TestUnknown(t *testing.T) {
	for args, want := range map[string]string{
		"frobnicate":                     "unexpected argument frobnicate\nsee: takt --help",
		"job frobnicate":                 "see: takt job --help",
		"job":                            "store-and-start",
		"job start":                      "takt job start --help",
		"job start JO-1":                 "--scope",
		"recipe check":                   "<file>",
		"station apply /nowhere/at.yaml": "no such file",
	} {
		code, _, errOut := takt(strings.Fields(args)...)
		if code != exitUsage || !strings.Contains(errOut, want) {
			t.Errorf("takt %s: exit status %d, said %q, want %d and %q", args, code, errOut, exitUsage, want)
		}
	}
}
