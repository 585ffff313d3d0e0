package interop_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/testenv"
)

func TestZooKeeper(t *testing.T) {
	t.Parallel()
	within(t, onZooKeeper(t), postings, claims, waiting, trash, siblings, conductors, kills)
}

func TestZooKeeperShared(t *testing.T) {
	t.Parallel()
	share(t, onZooKeeper(t))
}

var siblings = map[string]func(*world){
	"boards beside each other share their trash": func(w *world) {
		sibling := *w
		sibling.place = place{url: strings.Replace(w.url, "/jobs", "/others", 1), conf: maps.Clone(w.conf)}
		sibling.conf["path"] = strings.Replace(w.conf["path"].(string), "/jobs", "/others", 1)
		sibling.b = sibling.open()
		sibling.py = sibling.openIn(w.py.p)

		mine, theirs := w.post("one"), sibling.post("other")
		if mine.Ref != theirs.Ref {
			w.Fatalf("%s and %s do not collide", mine.Ref, theirs.Ref)
		}
		w.py.claim(mine, "python")
		w.must(w.py.finish("trash", mine, "python"))
		sibling.py.claim(theirs, "python")
		sibling.raises(sibling.py.finish("trash", theirs, "python"), "JobFailure")
		sibling.sees(theirs, board.Claimed, "python")
		sibling.must(sibling.b.Trash(w.ctx, theirs, "python"))

		sibling.sees(theirs, board.Trashed, "")
		rows, err := sibling.b.TrashList(w.ctx)
		w.must(err)
		if len(rows) != 2 {
			w.Fatalf("the trash has %+v", rows)
		}
		for _, r := range rows {
			for _, id := range []string{r.Ref, r.UUID} {
				if found := sibling.find(id); found.State != board.Trashed || found.Posting == nil || found.UUID != r.UUID {
					w.Errorf("%s: found %v %+v", id, found.State, found.Posting)
				}
			}
		}
		if rows, err := w.b.TrashList(w.ctx); err != nil || len(rows) != 1 || rows[0].UUID != mine.UUID {
			w.Errorf("the trash of the first board has %+v, %v", rows, err)
		}
		w.must(sibling.b.Restore(w.ctx, theirs.UUID))
		w.must(w.b.Restore(w.ctx, mine.UUID))
		w.same(w.find(mine.UUID), w.py.find(mine.UUID))
		sibling.same(sibling.find(theirs.UUID), sibling.py.find(theirs.UUID))
	},
}

func onZooKeeper(t *testing.T) kind {
	t.Helper()
	srv := testenv.SharedZooKeeper(t)
	return kind{name: "ZooKeeper", json: true, fresh: func(t *testing.T) place {
		parent := srv.Path(t)
		path := parent + "/jobs"
		return place{
			url:  "zookeeper://" + srv.Addr + path,
			conf: map[string]any{"board": "zookeeper", "hosts": srv.Addr, "path": path, "timeout": session.Seconds()},
			spoil: func(t *testing.T) string {
				t.Helper()
				made, err := srv.Client.Create(path+"/job", []byte("{"), zk.FlagSequence, zk.WorldACL(zk.PermAll))
				testenv.Must(t, err)
				return strings.TrimPrefix(made, path+"/")
			},
			nodes: func(t *testing.T, folder string) map[string]string {
				t.Helper()
				found := map[string]string{}
				names, _, err := srv.Client.Children(parent + "/" + folder)
				for _, name := range names {
					text, stat, e := srv.Client.Get(parent + "/" + folder + "/" + name)
					if e == nil && stat.EphemeralOwner != 0 {
						found[name] = string(text)
					}
				}
				if err != nil {
					t.Error(err)
				}
				return found
			},
		}
	}}
}
