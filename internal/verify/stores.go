package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// stores are the servers that Takt is tested on besides the one of `make test`; scripts/store gets them.
var stores = []string{"redis-7.0", "valkey-8.0"}

// storePackages have the contract of Takt with its store. The suite test-faults comes after them.
var storePackages = []string{
	"internal/redis", "internal/commit", "internal/stream", "internal/testenv", "lock", "limit", "jobstore", "jobcontrol", "sfc", "publisher", "task", "board/redisboard", "workflow",
}

// faultSuite stands for the suite test-faults among the parts of runStores.
const faultSuite = "test-faults"

// storeResult is how the tests of one package ended on one store.
type storeResult struct{ Passed, Failed, Skipped int }

// storeResults are by store and package.
type storeResults map[string]map[string]storeResult

const storesFile, storesDoc = "bin/results/stores.json", "docs/operations/stores.md"

// runStores runs the contract and fault tests, or only those parts, on each store, and writes the table of the documentation. A store that cannot be got is an error.
func runStores(root string, parts, flags []string, show io.Writer) error {
	if len(parts) == 0 {
		parts = append(slices.Clone(storePackages), faultSuite)
	}
	all, err := readStores(filepath.Join(root, storesFile))
	if err != nil {
		return err
	}
	modules, err := command(root, "scripts/modules")
	if err != nil {
		return err
	}
	var failed []error
	for _, store := range stores {
		out, err := command(root, "scripts/store", store)
		if err != nil {
			return fmt.Errorf("%s cannot be got: %w", store, err)
		}
		server := strings.TrimSpace(out)
		for name, value := range map[string]string{"TAKT_TEST_REDIS_SERVER": server, "PATH": filepath.Dir(server) + string(os.PathListSeparator) + os.Getenv("PATH")} {
			defer os.Setenv(name, os.Getenv(name))
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
		var steps []step
		for _, part := range parts {
			if part != faultSuite {
				steps = append(steps, step{".", []string{"./" + part}})
				continue
			}
			more, err := plan(root, faultSuite, strings.Fields(modules))
			if err != nil {
				return err
			}
			steps = append(steps, more...)
		}
		for _, s := range steps {
			fmt.Fprintf(show, "# %s: %s\n", store, strings.Join(s.args, " "))
			outcomes, err := runTests(root, s, flags, show)
			if err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", store, err))
			}
			all.put(store, outcomes)
			if err := all.write(root); err != nil {
				return err
			}
		}
	}
	return errors.Join(failed...)
}

func readStores(name string) (storeResults, error) {
	all := make(storeResults)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return all, nil
}

// put replaces the results of the packages that outcomes are of.
func (all storeResults) put(store string, outcomes []outcome) {
	if all[store] == nil {
		all[store] = make(map[string]storeResult)
	}
	fresh := make(map[string]storeResult)
	for _, o := range outcomes {
		if strings.Contains(o.Test, "/") { // subtests
			continue
		}
		r := fresh[o.Folder]
		switch o.Action {
		case "pass":
			r.Passed++
		case "fail":
			r.Failed++
		default:
			r.Skipped++
		}
		fresh[o.Folder] = r
	}
	for p, r := range fresh {
		all[store][p] = r
	}
}

func (all storeResults) write(root string) error {
	text, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(storesFile)), 0o755); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(root, storesFile), text, 0o644), os.WriteFile(filepath.Join(root, storesDoc), []byte(all.table()), 0o644))
}

// table is the page of the documentation.
func (all storeResults) table() string {
	var b strings.Builder
	b.WriteString("# Stores\n\nWritten by `make test-stores`: the tests of the contract with the store and those of faults, on each store. \"-\" was not run.\n\n| Package | " +
		strings.Join(stores, " | ") + " |\n|---" + strings.Repeat("|---", len(stores)) + "|\n")
	var packages []string
	for _, results := range all {
		for p := range results {
			if !slices.Contains(packages, p) {
				packages = append(packages, p)
			}
		}
	}
	slices.Sort(packages)
	for _, p := range packages {
		fmt.Fprintf(&b, "| `%s` |", p)
		for _, store := range stores {
			switch r, ok := all[store][p]; {
			case !ok:
				b.WriteString(" - |")
			case r.Failed+r.Skipped > 0:
				fmt.Fprintf(&b, " %d passed, **%d failed**, %d skipped |", r.Passed, r.Failed, r.Skipped)
			default:
				fmt.Fprintf(&b, " %d passed |", r.Passed)
			}
		}
		b.WriteByte('\n')
	}
	b.WriteString("\nWhat a store can do is found by asking it, never by its version: Valkey reports a version of Redis that it is compatible with.\n")
	return b.String()
}
