package mes_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
)

// TestFileMemory: the golden file, its mode, and the way there and back.
func TestFileMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mes.json")
	m := openMemory(t, file)
	ctx := context.Background()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	known, err := m.Load(ctx, scope)
	check(err)
	if known.Seq != 0 || len(known.Handed) != 0 {
		t.Errorf("%+v", known)
	}
	check(m.Handed(ctx, scope, "JO-2", mes.Receipt{JobResponseID: "JO-2-response", Digest: "22"}))
	check(m.Handed(ctx, scope, "JO-1", mes.Receipt{JobResponseID: "JO-1-response", Digest: "11"}))
	check(m.Handed(ctx, "cell-08", "Ä \"1\"", mes.Receipt{}))
	check(m.Settled(ctx, scope, 58, []isa95.JobOrderID{"JO-2", "JO-9"}))
	check(m.Settled(ctx, "cell-09", 3, nil))

	got, err := os.ReadFile(file)
	check(err)
	golden := filepath.Join("testdata", "memory.golden.json")
	if *update {
		check(os.WriteFile(golden, got, 0o644))
	}
	want, err := os.ReadFile(golden)
	check(err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(file)
	check(err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}

	again := openMemory(t, file)
	for _, sc := range []isa95.Scope{scope, "cell-08", "cell-09", "cell-10"} {
		a, err := m.Load(ctx, sc)
		check(err)
		b, err := again.Load(ctx, sc)
		check(err)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s: %s", sc, diff)
		}
	}
	// What Load gives is the caller's own.
	known, _ = again.Load(ctx, scope)
	known.Handed["JO-3"] = mes.Receipt{}
	if known, _ = again.Load(ctx, scope); len(known.Handed) != 1 {
		t.Error("Load gives its own map away")
	}
}

// TestFileMemoryAfterACrash: a half-written temporary file is of no interest.
func TestFileMemoryAfterACrash(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mes.json")
	m := openMemory(t, file)
	if err := m.Settled(context.Background(), scope, 5, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file+".tmp", []byte(`{"version":1,"sco`), 0o600); err != nil {
		t.Fatal(err)
	}
	again := openMemory(t, file)
	if known, _ := again.Load(context.Background(), scope); known.Seq != 5 {
		t.Error(known)
	}
	if err := again.Settled(context.Background(), scope, 6, nil); err != nil {
		t.Fatal(err)
	}
	if known, _ := openMemory(t, file).Load(context.Background(), scope); known.Seq != 6 {
		t.Error(known)
	}
}

func TestBadMemoryFiles(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"empty":          {"", "is no memory"},
		"torn":           {`{"version":1,"scopes":{"a`, "is no memory"},
		"other":          {`{"orders":[]}`, "is no memory"},
		"later version":  {`{"version":2,"scopes":{}}`, "version 2"},
		"no version":     {`{"scopes":{}}`, "version 0"},
		"scope is null":  {`{"version":1,"scopes":{"cell-07":null}}`, "has no content"},
		"seq is no text": {`{"version":1,"scopes":{"cell-07":{"seq":"5"}}}`, "is no memory"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "mes.json")
			if err := os.WriteFile(file, []byte(row.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := mes.OpenMemory(file)
			if err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), file) {
				t.Error(err)
			}
		})
	}
	if _, err := mes.OpenMemory(t.TempDir()); err == nil {
		t.Error("a folder")
	}
}

// TestFileMemoryWithoutItsFolder: a change that is not in the file is an error, and the next change takes it along.
func TestFileMemoryWithoutItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	file := filepath.Join(dir, "mes.json")
	m := openMemory(t, file)
	ctx := context.Background()
	if err := m.Handed(ctx, scope, "JO-1", mes.Receipt{}); err == nil {
		t.Fatal("no error")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := m.Handed(ctx, scope, "JO-2", mes.Receipt{}); err != nil {
		t.Fatal(err)
	}
	if known, _ := openMemory(t, file).Load(ctx, scope); len(known.Handed) != 2 {
		t.Error(known)
	}
}

// TestFileMemoryFromManySides: whatever comes together is in the file when its call returns.
func TestFileMemoryFromManySides(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mes.json")
	m := openMemory(t, file)
	ctx := context.Background()
	const n = 64
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			id := isa95.JobOrderID(fmt.Sprintf("JO-%d", i))
			if err := m.Handed(ctx, scope, id, mes.Receipt{Digest: string(id)}); err != nil {
				t.Error(err)
			}
			known, _ := openMemory(t, file).Load(ctx, scope)
			if known.Handed[id].Digest != string(id) {
				t.Errorf("%s is not in the file", id)
			}
		})
	}
	callers.Wait()
	if known, _ := openMemory(t, file).Load(ctx, scope); len(known.Handed) != n {
		t.Errorf("%d of %d", len(known.Handed), n)
	}
}
