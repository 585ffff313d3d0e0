package keys

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// Scope, source and id cannot be taken for others, wherever their colons stand.
func TestDedupeIsUnambiguous(t *testing.T) {
	k := New("p")
	seen := make(map[string]string)
	for _, of := range [][3]string{
		{"", "a", "b:c"}, {"", "a:b", "c"}, {"a", "b", "c"}, {"a:b", "c", ""}, {"a", "b:c", ""}, {"", "", "a:b:c"}, {"a", "bc", ""}, {"ab", "c", ""}, {"\x01a", "", ""}, {"", "\x01a", ""},
	} {
		key := k.Dedupe(of[0], of[1], of[2])
		if other, twice := seen[key]; twice {
			t.Errorf("%q and %s share %s", of, other, key)
		}
		seen[key] = strings.Join(of[:], " ")
	}
}

func TestPatternsOfThePersistencePage(t *testing.T) {
	k := New("microdcs")
	for got, want := range map[string]string{
		k.JobOrder("JO-7"):                 "microdcs:joborder:JO-7",
		k.JobOrderList("m42"):              "microdcs:joborder:list:m42",
		k.Changes("m42"):                   "microdcs:joborder:changes:m42",
		k.ChangesAll():                     "microdcs:joborder:changes:_global",
		k.ActiveScopes():                   "microdcs:active-scopes",
		k.JobResponse("JR-1"):              "microdcs:jobresponse:JR-1",
		k.JobResponseList("m42"):           "microdcs:jobresponse:list:m42",
		k.WorkMaster("WM-1"):               "microdcs:workmaster:WM-1",
		k.WorkMasterList("m42"):            "microdcs:workmaster:list:m42",
		k.ResourceList("equipment", "m42"): "microdcs:equipment:list:m42",
		k.JobAcceptance("m42"):             "microdcs:jobacceptance:m42",
		k.PubSeq("m42"):                    "microdcs:pubseq:m42",
		k.Cursors():                        "microdcs:publisher:stream-cursors",
		k.EventReceiver():                  "microdcs:event:receiver:list",
		k.SfcExecution("JO-7"):             "microdcs:sfc:execution:JO-7",
		k.SfcActiveJobs():                  "microdcs:sfc:active-jobs",
		New("{takt}").SfcWork():            "{takt}:sfc:work",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestTagged(t *testing.T) {
	for prefix, want := range map[string]bool{"takt": false, "{takt}": true, "{takt-3}": true, "a{b}c": true, "{}": false, "{takt": false} {
		if got := New(prefix).Tagged(); got != want {
			t.Errorf("Tagged(%q) = %v", prefix, got)
		}
	}
}

// Every method that makes a key has its row in All.
func TestEveryKeyIsListed(t *testing.T) {
	notKeys := map[string]bool{"Prefix": true, "Tagged": true, "Workflow": true, "Base": true, "Group": true, "AwaitChannel": true, "WatchChannel": true}
	twoKinds := map[string]bool{"Queue": true, "Held": true, "Outbox": true} // of tasks and of activities; and its dead letters
	methods := 0
	for _, name := range []string{"keys.go", "workflow.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil || !f.Name.IsExported() || notKeys[f.Name.Name] {
				continue
			}
			methods++
			if twoKinds[f.Name.Name] {
				methods++
			}
		}
	}
	lists := 0 // ResourceList makes five of the rows
	for _, p := range All() {
		switch {
		case p.Pattern == "" || p.Type == "" || p.Owner == "" || p.Lifetime == "" || p.Holds == "":
			t.Errorf("row %+v is not complete", p)
		case strings.HasSuffix(p.Pattern, ":list:{scope}") && p.Type == "set" && p.Pattern != "workmaster:list:{scope}":
			lists++
		}
	}
	if rows := len(All()) - lists + 1; rows != methods {
		t.Errorf("%d kinds of key are made, %d are listed", methods, rows)
	}
}

// Colons in names do not make two mailboxes one.
func TestMailboxesDoNotCollide(t *testing.T) {
	k := New("p")
	seen := make(map[string]string)
	for _, pair := range [][2]string{{"a:b", "c"}, {"a", "b:c"}, {"a%3Ab", "c"}, {"a", ":b:c"}, {"a:", "b:c"}, {"a:b:c", "d"}, {"a:b", "c:d"}} {
		key := k.SfcMailbox(pair[0], pair[1])
		if other, twice := seen[key]; twice {
			t.Errorf("%q and %s share %s", pair, other, key)
		}
		seen[key] = pair[0] + " " + pair[1]
	}
	if got := k.SfcMailbox("cell-07", "com.acme.v1"); got != "p:sfc:mailbox:cell-07:com.acme.v1" {
		t.Error(got)
	}
}

// Transactions have the keys of the original, and colons in names do not make two of them one.
func TestTransactionIsTheOriginals(t *testing.T) {
	k := New("p")
	for pair, want := range map[[2]string]string{
		{"plant-1", "tx-abc"}: "p:transdedupe:43e98e91d34d8736b5fad2ea79d607da",
		{"scope1", "tx-1"}:    "p:transdedupe:5db36c6251983bca5598a26672bba5bc",
	} {
		if got := k.Transaction(pair[0], pair[1]); got != want {
			t.Errorf("%q: %s, want %s", pair, got, want)
		}
	}
	if k.Transaction("a:b", "c") == k.Transaction("a", "b:c") {
		t.Error("two transactions share a key")
	}
}
