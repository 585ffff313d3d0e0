package mes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/golden"
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
		testenv.Must(t, err)
	}
	known, err := m.Load(ctx, scope)
	check(err)
	if known.Seq != 0 || len(known.Handed) != 0 {
		t.Errorf("%+v", known)
	}
	check(m.Handed(ctx, scope, "JO-2", mes.Receipt{JobResponseID: "JO-2-response", Digest: "22"}))
	check(m.Handed(ctx, scope, "JO-1", mes.Receipt{JobResponseID: "JO-1-response", Digest: "11"}))
	check(m.Handed(ctx, "cell-08", "Ä \"1\"", mes.Receipt{}))
	check(m.Settled(ctx, scope, mes.Settlement{Seq: 58, Epoch: "e1", Gone: []isa95.JobOrderID{"JO-2", "JO-9"}}))
	check(m.Settled(ctx, "cell-09", mes.Settlement{Seq: 3}))

	got, err := os.ReadFile(file)
	check(err)
	got = regexp.MustCompile(`"since":\d{10}`).ReplaceAll(got, []byte(`"since":0`))
	golden.Check(t, "testdata/memory.golden.json", string(got))
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

// TestFileMemoryTorn: a crash tears the last append, at any byte or with bytes that never reached the disk. It was not durable: the
// changes before it count, and the memory goes on.
func TestFileMemoryTorn(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	file := filepath.Join(dir, "mes.json")
	m := openMemory(t, file)
	testenv.Must(t, m.Handed(ctx, scope, "JO-1", mes.Receipt{Digest: "1"}))
	whole, err := os.ReadFile(file)
	testenv.Must(t, err)
	testenv.Must(t, m.Handed(ctx, scope, "JO-2", mes.Receipt{Digest: "2"}))
	longer, err := os.ReadFile(file)
	if err != nil || len(longer) <= len(whole) {
		t.Fatal(err, len(longer), len(whole))
	}
	torn := [][]byte{append(bytes.Clone(whole), make([]byte, len(longer)-len(whole))...), append(bytes.Clone(longer[:len(longer)-3]), 0, 0, '\n')}
	for n := len(whole); n < len(longer); n++ {
		torn = append(torn, longer[:n])
	}
	for i, text := range torn {
		file := filepath.Join(dir, fmt.Sprintf("torn-%d.json", i))
		testenv.Must(t, os.WriteFile(file, text, 0o600))
		testenv.Must(t, openMemory(t, file).Handed(ctx, scope, "JO-3", mes.Receipt{Digest: "3"}))
		known, _ := openMemory(t, file).Load(ctx, scope)
		if len(known.Handed) != 2 || known.Handed["JO-1"].Digest != "1" || known.Handed["JO-3"].Digest != "3" {
			t.Errorf("%q: %v", text, known.Handed)
		}
	}
}

// TestMemoryOrders: the life of a job order in both memories, and over a restart of the file.
func TestMemoryOrders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mes.json")
	for name, m := range map[string]mes.Memory{"volatile": mes.NewMemory(), "file": openMemory(t, file)} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			check := func(err error) {
				t.Helper()
				testenv.Must(t, err)
			}
			reopened := func() mes.Memory { // what the file of a memory holds, or m if it has none
				if name == "volatile" {
					return m
				}
				return readMemory(t, file)
			}
			is := func(id isa95.JobOrderID, want mes.Order) {
				t.Helper()
				for _, m := range []mes.Memory{m, reopened()} {
					got, err := m.Order(ctx, scope, id)
					if diff := cmp.Diff(want, got); err != nil || diff != "" {
						t.Error(err, diff)
					}
				}
			}
			receipt := mes.Receipt{JobResponseID: "r", Digest: "d"}
			is("JO-1", mes.Order{})
			check(m.Settled(ctx, scope, mes.Settlement{Seq: 5, Epoch: "e"}))
			check(m.Accepted(ctx, scope, "JO-1"))
			is("JO-1", mes.Order{State: mes.OrderAccepted, Once: true})
			known, err := m.Load(ctx, scope)
			check(err)
			if diff := cmp.Diff(map[isa95.JobOrderID]mes.IndexNumber{"JO-1": {Seq: 5, Epoch: "e"}}, known.Accepted); diff != "" {
				t.Error(diff)
			}
			check(m.Lost(ctx, scope, "JO-1", true)) // it is not lost
			is("JO-1", mes.Order{State: mes.OrderAccepted, Once: true})
			for range 2 {
				check(m.Lost(ctx, scope, "JO-1", false))
				is("JO-1", mes.Order{State: mes.OrderLost, Once: true, Lost: 1})
			}
			if known, err = m.Load(ctx, scope); err != nil || len(known.Lost) != 1 || len(known.Accepted) != 0 {
				t.Error(err, known)
			}
			check(m.Accepted(ctx, scope, "JO-1")) // sent again before OnLost returned
			check(m.Lost(ctx, scope, "JO-1", true))
			is("JO-1", mes.Order{State: mes.OrderAccepted, Once: true, Lost: 1})
			check(m.Lost(ctx, scope, "JO-1", false))
			check(m.Lost(ctx, scope, "JO-1", true))
			is("JO-1", mes.Order{State: mes.OrderLost, Once: true, Lost: 2})
			if known, err = reopened().Load(ctx, scope); err != nil || len(known.Lost) != 0 {
				t.Error(err, known)
			}
			check(m.Accepted(ctx, scope, "JO-1"))
			check(m.Handed(ctx, scope, "JO-1", receipt))
			is("JO-1", mes.Order{State: mes.OrderHanded, Once: true, Lost: 2, Receipt: receipt})
			check(m.Accepted(ctx, scope, "JO-1")) // the answer comes after the result
			check(m.Settled(ctx, scope, mes.Settlement{Seq: 6, Gone: []isa95.JobOrderID{"JO-1", "JO-9"}}))
			check(m.Accepted(ctx, scope, "JO-1"))
			is("JO-1", mes.Order{State: mes.OrderGone, Once: true, Lost: 2, Receipt: receipt})
			is("JO-9", mes.Order{})
			check(m.Lost(ctx, scope, "JO-9", false))
			is("JO-9", mes.Order{})
		})
	}
}

// TestMemoryIsHeld: two processes with one memory would hand every result over and overwrite each other's notes. The second is refused until the first has closed it.
func TestMemoryIsHeld(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mes.json")
	first := openMemory(t, file)
	ctx := context.Background()
	testenv.Must(t, first.Handed(ctx, scope, "JO-1", mes.Receipt{Digest: "1"}))
	second, err := mes.OpenMemory(file)
	if !errors.Is(err, mes.ErrMemoryHeld) || second != nil || !strings.Contains(err.Error(), "memory "+file+": another process uses this memory: end that one, or give this one a file of its own") {
		t.Fatal(second, err)
	}
	var closing sync.WaitGroup
	results := make([]error, 20)
	for i := range results {
		closing.Go(func() {
			results[i] = first.Handed(ctx, scope, isa95.JobOrderID(fmt.Sprintf("JO-2%d", i)), mes.Receipt{Digest: "2"})
		})
	}
	for range 2 {
		testenv.Must(t, first.Close())
	}
	closing.Wait()
	if err := first.Handed(ctx, scope, "JO-3", mes.Receipt{Digest: "3"}); err == nil || !strings.Contains(err.Error(), "is closed") {
		t.Errorf("a change after Close: %v", err)
	}
	again := openMemory(t, file)
	known, err := again.Load(ctx, scope)
	if err != nil || known.Handed["JO-1"].Digest != "1" || known.Handed["JO-3"].Digest != "" {
		t.Errorf("%v, %v", known, err)
	}
	for i, err := range results { // what was reported as durable is in the file
		if _, there := known.Handed[isa95.JobOrderID(fmt.Sprintf("JO-2%d", i))]; err == nil && !there {
			t.Errorf("change %d is not in the file", i)
		}
	}
	// A file that cannot be read is not held.
	if err := os.WriteFile(file, []byte("not JSON"), 0o600); err != nil || again.Close() != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := mes.OpenMemory(file); err == nil || errors.Is(err, mes.ErrMemoryHeld) {
			t.Error(err)
		}
	}
}

// TestFileMemoryStaysSmall: what is out of date goes from the file when most of it is.
func TestFileMemoryStaysSmall(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mes.json")
	m, ctx := openMemory(t, file), context.Background()
	most := int64(0)
	for seq := range int64(3000) {
		testenv.Must(t, m.Settled(ctx, scope, mes.Settlement{Seq: seq + 1}))
		info, err := os.Stat(file)
		testenv.Must(t, err)
		most = max(most, info.Size())
	}
	if known, _ := openMemory(t, file).Load(ctx, scope); known.Seq != 3000 || most > 50_000 {
		t.Errorf("seq %d, the file had %d bytes", known.Seq, most)
	}
}

// TestFileMemoryAfterACrash: a half-written temporary file is of no interest.
func TestFileMemoryAfterACrash(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mes.json")
	m := openMemory(t, file)
	testenv.Must(t, m.Settled(context.Background(), scope, mes.Settlement{Seq: 5}))
	testenv.Must(t, os.WriteFile(file+".tmp", []byte(`{"version":2}`+"\n{\"sco"), 0o600))
	again := openMemory(t, file)
	if known, _ := again.Load(context.Background(), scope); known.Seq != 5 {
		t.Error(known)
	}
	testenv.Must(t, again.Settled(context.Background(), scope, mes.Settlement{Seq: 6}))
	if known, _ := openMemory(t, file).Load(context.Background(), scope); known.Seq != 6 {
		t.Error(known)
	}
}

func TestBadMemoryFiles(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"empty":         {"", "is no memory"},
		"torn":          {`{"vers`, "is no memory"},
		"other":         {`{"orders":[]}`, "is no memory"},
		"later version": {`{"version":3}`, "version 3"},
		"no line":       {"{\"version\":2}\n{\"scope\":\"cell-07\"}\n", "line 2: neither"},
		"odd line":      {"{\"version\":2}\n\n{\"scope\":\"cell-07\",\"seq\":5}\n", "line 2: "},
		"no version":    {`{}`, "version 0"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "mes.json")
			testenv.Must(t, os.WriteFile(file, []byte(row.text), 0o600))
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
	if _, err := mes.OpenMemory(file); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), file) {
		t.Fatal(err)
	}
	testenv.Must(t, os.Mkdir(dir, 0o700))
	m := openMemory(t, file)
	ctx := context.Background()
	testenv.Must(t, os.RemoveAll(dir))
	if err := m.Handed(ctx, scope, "JO-1", mes.Receipt{}); err == nil {
		t.Fatal("no error")
	}
	testenv.Must(t, os.Mkdir(dir, 0o700))
	testenv.Must(t, m.Handed(ctx, scope, "JO-2", mes.Receipt{}))
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
			known, _ := readMemory(t, file).Load(ctx, scope)
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
