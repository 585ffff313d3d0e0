package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/taktworks/takt/board"
)

const factory = "interop_flows.note"

var conductors = map[string]func(*world){
	"run: a conductor of TaskFlow consumes what Takt posts": func(w *world) {
		noted := filepath.Join(w.TempDir(), "noted")
		want := map[string]string{} // what the flows note -> posting
		var first *board.Posting
		for i := range 5 {
			times := i + 1
			id := uuid.NewString()
			details := map[string]any{"store": map[string]any{"uuid": id}}
			flows := []flow{{Name: "only", UUID: uuid.NewString(), Factory: factory, Args: []any{noted, "only"}}}
			if i == 4 { // which of several is to run, the posting says
				flows = append(flows, flow{Name: "other", UUID: uuid.NewString(), Factory: factory, Args: []any{noted, "other"}})
				details["flow_uuid"] = flows[1].UUID
			}
			b := &board.Book{Name: "book", UUID: uuid.NewString()}
			w.must(writeBook(w.books, *b, flows, map[string]any{"times": times}))
			p, err := w.b.Post(w.ctx, board.Draft{Name: "to be run", UUID: id, Book: b, Details: details})
			w.must(err)
			want[fmt.Sprintf("%s %s %d", flows[len(flows)-1].Name, id, times)] = id
			if i == 0 {
				first = p
				w.readsBook(id, *b, flows)
			}
		}
		runs := w.py.start("conductor", map[string]any{"name": "python"})
		for range want {
			runs.event(w.T, "job_consumed", nil)
		}
		runs.tell(w.T, "stop")
		var finished map[string][]string
		w.must(runs.finish(w.T, &finished))
		got, ids := finished["job_consumed"], slices.Collect(maps.Values(want))
		slices.Sort(got)
		slices.Sort(ids)
		if !slices.Equal(got, ids) || len(finished["job_abandoned"]) != 0 {
			w.Errorf("consumed %q, abandoned %q, posted %q", got, finished["job_abandoned"], ids)
		}
		text, err := os.ReadFile(noted)
		w.must(err)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		slices.Sort(lines)
		if all := slices.Sorted(maps.Keys(want)); !slices.Equal(lines, all) {
			w.Errorf("the flows noted %q, want %q", lines, all)
		}
		state, err := w.b.State(w.ctx, first)
		if w.must(err); state != board.Complete {
			w.Errorf("state is %v", state)
		}
		w.sound()
	},

	"run: a conductor of Takt consumes what TaskFlow posts": func(w *world) {
		want := map[string]board.Book{}
		for i := range 5 {
			b := &board.Book{Name: fmt.Sprint("book ", i), UUID: uuid.NewString()}
			j := w.py.post(draft{
				Name: "to be run", Book: b, Details: map[string]any{"n": i},
				Flows: []flow{{Name: "only", UUID: uuid.NewString(), Factory: factory, Args: []any{"/dev/null", "only"}}},
			})
			want[j.UUID] = *b
		}
		var mu sync.Mutex
		got := map[string]board.Book{}
		c, err := w.b.Conductor(func(_ context.Context, c *board.Claim) error {
			mu.Lock()
			defer mu.Unlock()
			if got[c.Posting().UUID] = *c.Posting().Book; c.Posting().Details["n"] == nil {
				w.Errorf("details are %v", c.Posting().Details)
			}
			return nil
		}, board.ConductorOptions{MaxDispatches: len(want), MaxConcurrent: 2})
		w.must(err)
		w.must(c.Run(w.ctx))
		if !reflect.DeepEqual(got, want) {
			w.Errorf("consumed %v, posted %v", got, want)
		}
		w.py.count(0)
		w.sound()
	},

	"run: what a conductor of Takt gives back one of TaskFlow gets": func(w *world) {
		noted := filepath.Join(w.TempDir(), "noted")
		b := &board.Book{Name: "book", UUID: uuid.NewString()}
		flows := []flow{{Name: "only", UUID: uuid.NewString(), Factory: factory, Args: []any{noted, "only"}}}
		w.must(writeBook(w.books, *b, flows, map[string]any{"times": 1, "uuid": "x"}))
		p, err := w.b.Post(w.ctx, board.Draft{Name: "to be run", Book: b})
		w.must(err)
		c, err := w.b.Conductor(func(context.Context, *board.Claim) error { return board.AbandonWith(nil) }, board.ConductorOptions{MaxDispatches: 1})
		w.must(err)
		w.must(c.Run(w.ctx))
		runs := w.py.start("conductor", map[string]any{"name": "python"})
		state, err := w.b.WaitFor(w.ctx, p)
		if w.must(err); state != board.Complete {
			w.Errorf("state is %v", state)
		}
		runs.tell(w.T, "stop")
		w.must(runs.finish(w.T, nil))
		if text, err := os.ReadFile(noted); err != nil || string(text) != "only x 1\n" {
			w.Errorf("the flow noted %q, %v", text, err)
		}
	},

	"register_entity: both know each other's conductors": func(w *world) {
		if !w.json { // TaskFlow registers nothing on Redis, and what Takt registers does not disturb it
			_, err := w.b.RegisterEntity(w.ctx, board.Entity{Kind: "conductor", Name: "takt"})
			w.must(err)
			w.must(w.py.do("register", map[string]any{"name": "python", "metadata": map[string]any{}}, nil))
			all, err := w.b.Entities(w.ctx, "")
			if w.must(err); len(all) != 1 || all[0].Name != "takt" {
				w.Errorf("entities are %v", all)
			}
			w.py.count(0)
			return
		}
		runs := w.py.start("conductor", map[string]any{"name": "python"})
		p := w.post("without a book")
		w.py.find(p.UUID)
		runs.event(w.T, "job_abandoned", nil) // so it is registered
		all, err := w.b.Entities(w.ctx, "conductor")
		w.must(err)
		if len(all) != 1 || !strings.HasPrefix(all[0].Name, "python@") || all[0].Metadata["hostname"] == "" || all[0].Metadata["pid"] != int64(w.py.p.cmd.Process.Pid) {
			w.Errorf("Takt sees %+v", all)
		}
		runs.tell(w.T, "stop")
		w.must(runs.finish(w.T, nil))

		var mine, theirs map[string]any
		c, err := w.b.Conductor(func(context.Context, *board.Claim) error {
			for name, text := range w.nodes(w.T, ".entities/conductor") {
				into := &mine
				if strings.HasPrefix(name, "python@") {
					into = &theirs
				}
				w.must(json.Unmarshal([]byte(text), into))
				if (*into)["name"] != name || (*into)["kind"] != "conductor" {
					w.Errorf("node %s has %s", name, text)
				}
			}
			return nil
		}, board.ConductorOptions{Name: "takt", MaxDispatches: 1})
		w.must(err)
		w.must(c.Run(w.ctx))
		keys := func(v any) []string { m, _ := v.(map[string]any); return slices.Sorted(maps.Keys(m)) }
		if len(mine) == 0 || !slices.Equal(keys(mine), keys(theirs)) || !slices.Equal(keys(mine["metadata"]), keys(theirs["metadata"])) {
			w.Errorf("Takt registers %v, TaskFlow %v", mine, theirs)
		}
		w.sees(p, board.Complete, "")
	},
}

// readsBook expects TaskFlow to load a book that was written for it.
func (w *world) readsBook(id string, b board.Book, flows []flow) {
	w.Helper()
	var got struct {
		Name, UUID string
		Flows      []struct {
			Name, UUID string
			Meta       struct {
				Factory struct {
					Name string
					Args []any
				}
			}
		}
	}
	w.must(w.py.do("book", map[string]any{"uuid": id}, &got))
	if got.Name != b.Name || got.UUID != b.UUID || len(got.Flows) != len(flows) {
		w.Fatalf("TaskFlow reads the book %+v, want %+v with %+v", got, b, flows)
	}
	if f := got.Flows[0]; f.Name != flows[0].Name || f.UUID != flows[0].UUID || f.Meta.Factory.Name != factory || !reflect.DeepEqual(f.Meta.Factory.Args, flows[0].Args) {
		w.Errorf("TaskFlow reads the flow %+v, want %+v", f, flows[0])
	}
}

// writeBook writes a logbook into a directory of TaskFlow's persistence: a file for the book, and for each flow a file and a link. store is what all flows get.
func writeBook(dir string, b board.Book, flows []flow, store map[string]any) error {
	book := filepath.Join(dir, "books", b.UUID)
	if err := writeNode(book, map[string]any{"name": b.Name, "uuid": b.UUID, "meta": map[string]any{}, "created_at": nil, "updated_at": nil}); err != nil {
		return err
	}
	for _, f := range flows {
		node := filepath.Join(dir, "flow_details", f.UUID)
		err := writeNode(node, map[string]any{"name": f.Name, "uuid": f.UUID, "state": nil, "meta": map[string]any{
			"factory": map[string]any{"name": f.Factory, "args": f.Args, "kwargs": map[string]any{}}, "store": store,
		}})
		if err != nil {
			return err
		}
		if err := os.Symlink(node, filepath.Join(book, f.UUID)); err != nil {
			return err
		}
	}
	return nil
}

func writeNode(dir string, content map[string]any) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "metadata"), text, 0o644)
}
