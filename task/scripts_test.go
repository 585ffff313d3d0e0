package task

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/testenv"
)

// delivered: a worker with a token in a, and its entry 5-1 in b.
var delivered = []string{"SET a token", "XADD b 5-1 data m", "XGROUP CREATE b g 0", "XREADGROUP GROUP g me streams b >"}

const entry = "5-1"

// A key of another type fails each script before its first write, whichever key it is: Redis keeps what a failing script wrote. What is only overwritten or published to may be of any type.
func TestScriptsMeetOtherTypes(t *testing.T) {
	srv := testenv.Redis(t)
	for name, c := range map[string]struct {
		script *script.Script
		given  []string
		keys   string
		types  string // of the keys, "-" = any will do
		args   []string
	}{
		"block":   {blockScript, delivered, "a b c d e", "string stream zset hash hash", []string{"token", "g", "1", entry, "1", "f", "1", entry, "id", "0", "m"}},
		"finish":  {finishScript, delivered, "a b c d e f g h", "string stream zset hash hash hash zset -", []string{"token", "g", "n", "1", entry, "1", "f", "1", "1", entry, "id", "60000", "r", "1", entry, "0", "m", "1", entry, "id", "letter"}},
		"settle":  {settleScript, delivered, "a b c d e f g h b b", "string stream hash hash hash zset zset - - -", []string{"token", "g", entry, "id", "n", "ctl", "f1", "f2", "60000", "r", "letter"}},
		"cancel":  {cancelScript, delivered, "b c d e f g h", "stream zset hash zset hash hash string", []string{"id", entry, "m", "g", "0", "ctl", "60000", "f1", "f2", "60000", "r", "n"}},
		"gather":  {gatherScript, nil, "a b c d a", "zset hash stream - -", []string{"m", "col", "head", "tail", "q", "10", "60000", "0", "60000", "id", "60000", "name"}},
		"fire":    {fireScript, []string{"SET a token", "SET b 1"}, "a b c d c", "string string hash stream -", []string{"token", "1", "name", "", "new", "", "60000", "", "id", "m"}},
		"skip":    {fireScript, []string{"SET a token", "SET b 1", "SET e other"}, "a b c d e", "string string hash stream string", []string{"token", "1", "name", "", "new", "out", "60000", entry, "id", "m"}},
		"requeue": {requeueScript, []string{"HSET a id letter"}, "a b c d e f g c", "hash zset stream string zset hash hash -", []string{"id", script.SHA1("letter"), "m", "60000", "60000", "0"}},
		"unbury":  {unburyScript, []string{"HSET a id letter"}, "a b", "hash zset", []string{"id", ""}},
		"spawn":   {spawnScript, nil, "a b c d e f g", "hash set string string zset stream stream", []string{"1", "60000", "all", "rec", "cb", "1", "", "", "0", "", "1", "1", "", "m"}},
	} {
		keys := strings.Fields(c.keys)
		for i, want := range strings.Fields(c.types) {
			if want == "-" {
				continue
			}
			t.Run(name+"/"+keys[i], func(t *testing.T) {
				b := testenv.NewBed(t, srv, c.given...)
				b.Do("DEL " + keys[i])
				if want == "string" {
					b.Do("RPUSH " + keys[i] + " x")
				} else {
					b.Do("SET " + keys[i] + " x")
				}
				before := b.Dump()
				if got := b.Run(c.script, c.keys, c.args...); !strings.HasPrefix(got, "WRONGTYPE") {
					t.Errorf("%q", got)
				}
				if after := b.Dump(); !maps.Equal(before, after) {
					t.Errorf("changed: %q", testenv.Changed(before, after))
				}
			})
		}
		t.Run(name+"/right types", func(t *testing.T) {
			if got := testenv.NewBed(t, srv, c.given...).Run(c.script, c.keys, c.args...); strings.Contains(got, "ERR") || strings.Contains(got, "WRONG") {
				t.Errorf("%q", got)
			}
		})
	}
}

// What a script was asked about may be there, gone, or changed when it comes to Redis. It says so, and changes those keys only.
func TestScriptsComeTooLate(t *testing.T) {
	srv := testenv.Redis(t)
	cancel := func(entry, msg string) []string {
		return []string{"id", entry, msg, "g", "0", "ctl", "60000", "f1", "f2", "60000", "r", "n"}
	}
	collection := "HSET b queue q n 2 head h tail t 1 m1 2 m2"
	due, collect := []string{collection, "ZADD a 1 col"}, []string{"col", "q"}
	for name, c := range map[string]struct {
		script  *script.Script
		given   []string
		keys    string
		args    []string
		want    string
		changes string
	}{
		"cancel: the entry is settled":             {cancelScript, append(slices.Clone(delivered), "XDEL b 5-1"), "b c d e f g h", cancel(entry, "m"), "gone", ""},
		"cancel: it is not delayed":                {cancelScript, []string{"ZADD c 1 other"}, "b c d e f g h", cancel("", "m"), "gone", ""},
		"cancel: another life of it is blocked":    {cancelScript, []string{"ZADD c 1 m", "HSET d id other"}, "b c d e f g h", cancel("", "m"), "ended", "c f h"},
		"cancelgroup: no state":                    {cancelGroupScript, []string{"SET b 3"}, "a b c", []string{"mark", "ctl"}, "none", ""},
		"cancelgroup: no counter":                  {cancelGroupScript, []string{"HSET a total 3"}, "a b c", []string{"mark", "ctl"}, "none", ""},
		"cancelgroup: all have ended":              {cancelGroupScript, []string{"HSET a total 3", "SET b 0"}, "a b c", []string{"mark", "ctl"}, "ended", ""},
		"collect: another was quicker":             {collectScript, []string{collection}, "a b c", collect, "later", ""},
		"collect: not due":                         {collectScript, []string{collection, "ZADD a 99999999999 col"}, "a b c", collect, "later", ""},
		"collect: nothing is there":                {collectScript, []string{"ZADD a 1 col"}, "a b c", collect, "later", "a"},
		"collect: of another type":                 {collectScript, []string{"SET b x", "ZADD a 1 col"}, "a b c", collect, "broken", "a"},
		"collect: the stream is of another type":   {collectScript, append(slices.Clone(due), "SET c x"), "a b c", collect, "broken", "a"},
		"collect: of another queue":                {collectScript, append(slices.Clone(due), "HSET b queue other"), "a b c", collect, "broken", "a"},
		"collect: without a number":                {collectScript, append(slices.Clone(due), "HDEL b n"), "a b c", collect, "broken", "a"},
		"collect: without its head":                {collectScript, append(slices.Clone(due), "HDEL b head"), "a b c", collect, "broken", "a"},
		"collect: without its tail":                {collectScript, append(slices.Clone(due), "HDEL b tail"), "a b c", collect, "broken", "a"},
		"collect: a member is missing":             {collectScript, append(slices.Clone(due), "HDEL b 1"), "a b c", collect, "broken", "a"},
		"entries: one is gone":                     {entriesScript, []string{"XADD a 5-1 data m"}, "a", []string{"5-1", "6-1"}, "m ", ""},
		"peek: at both ends of both":               {peekScript, []string{"ZADD a 7 xid", "ZADD a 8 other", "XADD b 5-1 data idx", "XADD b 6-1 data other"}, "a b", []string{"id", "1", "9"}, "1 7 xid] [2 5-1 idx", ""},
		"peek: it is nowhere":                      {peekScript, []string{"ZADD a 7 xid"}, "a b", []string{"other", "9", "9"}, "", ""},
		"inner: one is no group":                   {innerScript, []string{"HSET a total 3 ok 1 failed 0 fired none"}, "a b", nil, "3 1 0 none] [   ", ""},
		"stats: no group, no stream":               {statsScript, []string{"XADD a 5-1 data m"}, "a b", []string{"g"}, "1 [] 5-1] [0 [] ", ""},
		"runnow: it is due":                        {runNowScript, []string{"ZADD a 5 m"}, "a", []string{"m"}, "ok", ""},
		"runnow: it is not delayed":                {runNowScript, []string{"ZADD a 99999999999 other"}, "a", []string{"m"}, "gone", ""},
		"start: another's key":                     {startScript, []string{"SET a other"}, "a", []string{"id"}, "other", ""},
		"start: a key of another type":             {startScript, []string{"RPUSH a x"}, "a", []string{"id"}, "other", ""},
		"submit: another has the unique key":       {submitScript, []string{"SET d other"}, "a b a d", []string{"m", "id", "", "0", "60000", "q", "name"}, "duplicate other", ""},
		"submit: known by its key":                 {submitScript, []string{"HSET c id other entry 5-1 due 7 queue q name n"}, "a b c a", []string{"m", "id", "", "60000", "0", "q", "name"}, "known other 5-1 7 q n", ""},
		"lead: it is free":                         {leadScript, nil, "a b", []string{"take", "x", "60000", "0", "ctl"}, "1 1", "a b"},
		"lead: the reply to the holder was lost":   {leadScript, []string{"SET a x PX 5000", "SET b 1"}, "a b", []string{"take", "x", "60000", "0", "ctl"}, "1 2", "a b"},
		"lead: held without a time to live":        {leadScript, []string{"SET a python"}, "a b", []string{"take", "x", "60000", "0", "ctl"}, "0 -1", ""},
		"lead: Redis has forgotten":                {leadScript, nil, "a b", []string{"take", "x", "60000", "3", "ctl"}, "1 4", "a b"},
		"lead: the holder keeps it":                {leadScript, []string{"SET a x PX 5000", "SET b 2"}, "a b", []string{"keep", "x", "60000", "2", "ctl"}, "1 2", "a"},
		"lead: an older term keeps it":             {leadScript, []string{"SET a x PX 5000", "SET b 2"}, "a b", []string{"keep", "x", "60000", "1", "ctl"}, "0 0", ""},
		"lead: another keeps it":                   {leadScript, []string{"SET a x PX 5000", "SET b 2"}, "a b", []string{"keep", "y", "60000", "2", "ctl"}, "0 0", ""},
		"lead: it is kept too late":                {leadScript, []string{"SET b 2"}, "a b", []string{"keep", "x", "60000", "2", "ctl"}, "0 0", ""},
		"lead: the holder gives it back":           {leadScript, []string{"SET a x PX 5000", "SET b 2"}, "a b", []string{"give", "x", "0", "2", "ctl"}, "1 2", "a"},
		"lead: another gives it back":              {leadScript, []string{"SET a x PX 5000", "SET b 2"}, "a b", []string{"give", "y", "0", "2", "ctl"}, "0 0", ""},
		"lead: it is given back twice":             {leadScript, []string{"SET b 2"}, "a b", []string{"give", "x", "0", "2", "ctl"}, "0 0", ""},
		"fire: another leads":                      {fireScript, []string{"SET a other", "SET b 7"}, "a b c c c", []string{"token", "7", "n", "", "one", "", "0", "", ""}, "lost", ""},
		"fire: in another term":                    {fireScript, []string{"SET a token", "SET b 7"}, "a b c c c", []string{"token", "6", "n", "", "one", "", "0", "", ""}, "lost", ""},
		"fire: it is registered":                   {fireScript, []string{"SET a token", "SET b 7"}, "a b c c c", []string{"token", "7", "n", "", "one", "", "0", "", ""}, "ok ", "c"},
		"fire: it is registered already":           {fireScript, []string{"SET a token", "SET b 7", "HSET c n one"}, "a b c c c", []string{"token", "7", "n", "", "one", "", "0", "", ""}, "conflict", ""},
		"fire: it has changed":                     {fireScript, []string{"SET a token", "SET b 7", "HSET c n one"}, "a b c d e", []string{"token", "7", "n", script.SHA1("two"), "new", "out", "60000", "", "id", "m"}, "conflict", ""},
		"fire: it is removed":                      {fireScript, []string{"SET a token", "SET b 7", "HSET c n one"}, "a b c c c", []string{"token", "7", "n", script.SHA1("one"), "", "", "0", "", ""}, "ok ", "c"},
		"swap: it is there already":                {swapScript, []string{"HSET a f new"}, "a", []string{"f", "", "mine", "ctl"}, "0", ""},
		"swap: it is gone":                         {swapScript, nil, "a", []string{"f", script.SHA1("old"), "mine", "ctl"}, "0", ""},
		"swap: it is new":                          {swapScript, nil, "a", []string{"f", "", "mine", "ctl"}, "1", "a"},
		"swap: it is as read":                      {swapScript, []string{"HSET a f old"}, "a", []string{"f", script.SHA1("old"), "mine", "ctl"}, "1", "a"},
		"swap: it is deleted":                      {swapScript, []string{"HSET a f old"}, "a", []string{"f", script.SHA1("old"), "", "ctl"}, "1", "a"},
		"swap: it has changed":                     {swapScript, []string{"HSET a f new"}, "a", []string{"f", script.SHA1("old"), "mine", "ctl"}, "0", ""},
		"unbury: another letter":                   {unburyScript, []string{"HSET a id new", "ZADD b 1 id"}, "a b", []string{"id", script.SHA1("old")}, "0", ""},
		"requeue: it died again":                   {requeueScript, []string{"HSET a id new"}, "a b c d e f g c", []string{"id", script.SHA1("old"), "m", "60000", "60000", "0"}, "changed", ""},
		"requeue: another has the unique key":      {requeueScript, []string{"HSET a id letter", "SET h other"}, "a b c d e f g h", []string{"id", script.SHA1("letter"), "m", "60000", "60000", "0"}, "duplicate other", ""},
		"tidy: the worker lives":                   {tidyScript, []string{"HSET a w record", "SET b token"}, "a b", []string{"w"}, "0", ""},
		"fire: the task that holds the key ended":  {fireScript, []string{"SET a token", "SET b 1", "SET e other PX 5000000"}, "a b c d e", []string{"token", "1", "name", "", "new", "out", "900000000", entry, "id", "m"}, "skipped other", "c"},
		"spawn: another group of this id":          {spawnScript, []string{"HSET a total 7 sent 0 ttl 60000"}, "a b c d e f", []string{"1", "60000", "all", "rec", "cb", "1", "", "", "0", "", "1", "1", "", "m"}, "other 7", ""},
		"spawn: in another place":                  {spawnScript, []string{"HSET a total 1 sent 0 ttl 60000 outer x"}, "a b c d e f", []string{"1", "60000", "all", "rec", "cb", "1", "", "", "0", "y", "1", "1", "", "m"}, "other 1", ""},
		"spawn: it has expired":                    {spawnScript, nil, "a b c d e f", []string{"2", "60000", "all", "", "cb", "1", "", "", "1", "", "1", "1", "", "m"}, "gone", ""},
		"spawn: pages are missing":                 {spawnScript, []string{"HSET a total 3 sent 1 ttl 60000"}, "a b c d e f", []string{"3", "60000", "all", "", "cb", "1", "", "", "2", "", "1", "1", "", "m"}, "gap 1", ""},
		"spawn: a page that was sent":              {spawnScript, []string{"HSET a total 2 sent 2 ttl 60000"}, "a b c d e f", []string{"2", "60000", "all", "", "cb", "1", "", "", "0", "", "1", "1", "", "m"}, "had 2", "a"},
		"requeue: a repetition":                    {requeueScript, []string{"HSET a id letter", "HSET g entry 9-1"}, "a b c d e f g c", []string{"id", script.SHA1("letter"), "m", "60000", "60000", "0"}, "ok 9-1", "a"},
		"requeue: a repetition, and it died again": {requeueScript, []string{"HSET a id new", "HSET g entry 9-1"}, "a b c d e f g c", []string{"id", script.SHA1("letter"), "m", "60000", "60000", "1"}, "ok 9-1", ""},
		"promote: the stream is of another type":   {promoteScript, []string{"ZADD a 1 m", "SET e x"}, "a b c d e", []string{"1", "m", "", ""}, "0 1", "a"},
		"gather: known by its key":                 {gatherScript, []string{"HSET e id other entry 5-1 due 7 queue q name n"}, "a b c d e", []string{"m", "col", "head", "tail", "q", "10", "60000", "0", "60000", "id", "60000", "name"}, "known other 5-1 7 q n", ""},
		"promote: another was quicker":             {promoteScript, nil, "a b c d e", []string{"1", "m", "", ""}, "0 0", ""},
		"promote: put off meanwhile":               {promoteScript, []string{"ZADD a 99999999999 m"}, "a b c d e", []string{"1", "m", "", ""}, "0 0", ""},
		"promote: another life of it is blocked":   {promoteScript, []string{"ZADD a 1 m", "HSET d id other"}, "a b c d e", []string{"1", "m", "id", ""}, "1 0", "a e"},
		"settle: it had ended":                     {settleScript, append(slices.Clone(delivered), "XACK b g 5-1", "XDEL b 5-1"), "a b c d e f g h b b", []string{"token", "g", entry, "id", "n", "ctl", "f1", "f2", "60000", "r", "letter"}, "ok 0", ""},
		"settle: the keys are another's": {settleScript, append(slices.Clone(delivered), "SET i other", "SET j other"), "a b c d e f g h i j",
			[]string{"token", "g", entry, "id", "n", "ctl", "f1", "f2", "60000", "", ""}, "ok 1 ", "b d"},
		"settle: the keys are of another type": {settleScript, append(slices.Clone(delivered), "RPUSH i x", "RPUSH j x"), "a b c d e f g h i j",
			[]string{"token", "g", entry, "id", "n", "ctl", "f1", "f2", "60000", "", ""}, "ok 1 ", "b d"},
		"finish: one of two had ended": {finishScript, append(slices.Clone(delivered), "XADD b 6-1 data m", "XREADGROUP GROUP g me streams b >", "XACK b g 5-1", "XDEL b 5-1"), "a b c d e f g h",
			[]string{"token", "g", "n", "2", entry, "6-1", "0", "1", entry, "id", "60000", "r", "1", entry, "0", "m", "1", entry, "id", "letter"}, "ok 1", "b"},
		"block: one of two had ended": {blockScript, append(slices.Clone(delivered), "XADD b 6-1 data m", "XREADGROUP GROUP g me streams b >", "XACK b g 5-1", "XDEL b 5-1"), "a b c d e",
			[]string{"token", "g", "2", entry, "6-1", "0", entry, "id", "0", "m"}, "ok 1", "b"},
		"finish: it had ended":  {finishScript, append(slices.Clone(delivered), "XACK b g 5-1", "XDEL b 5-1"), "a b c d e f g", []string{"token", "g", "n", "1", entry, "1", "f", "1", "0", "0", "0"}, "ok 0", ""},
		"block: it had ended":   {blockScript, append(slices.Clone(delivered), "XACK b g 5-1", "XDEL b 5-1"), "a b c d e", []string{"token", "g", "1", entry, "1", "f", "1", entry, "id", "0", "m"}, "ok 0", ""},
		"block: another token":  {blockScript, append(slices.Clone(delivered), "SET a other"), "a b c d e", []string{"token", "g", "1", entry, "0", entry, "id", "0", "m"}, "lost", ""},
		"settle: another token": {settleScript, append(slices.Clone(delivered), "SET a other"), "a b c d e f g h b b", []string{"token", "g", entry, "id", "n", "ctl", "f1", "f2", "60000", "r", ""}, "lost", ""},
		"finish: another token": {finishScript, append(slices.Clone(delivered), "SET a other"), "a b c d e f g", []string{"token", "g", "n", "1", entry, "0", "0", "0", "0"}, "lost", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := testenv.NewBed(t, srv, c.given...)
			before := b.Dump()
			if got := b.Run(c.script, c.keys, c.args...); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if got := strings.Join(testenv.Changed(before, b.Dump()), " "); got != c.changes {
				t.Errorf("changed: %q, want %q", got, c.changes)
			}
		})
	}
}

// A task ends whatever became of its group; only a group that is one, and in which its slot has not ended yet, is changed. What follows a group has its stream before anything is written.
func TestScriptSettleLooksAtTheGroup(t *testing.T) {
	srv := testenv.Redis(t)
	const keys = "a b c d e f g h b b state done left callback result q1 q2 q3 q4 q5 q6 q7 q8 q9"
	settle := func(done, callback, queue string) []string {
		return []string{"token", "g", entry, "id", "n", "ctl", "f1", "f2", "60000", "", "", "0", done, "r", "mark", callback, queue, ""}
	}
	const state = "HSET state ttl 5000 policy all"
	for name, c := range map[string]struct {
		given   []string
		args    []string
		want    string
		changes string
	}{
		"it is counted":                           {[]string{state, "SET left 2"}, settle("1", "", ""), "ok 1 counted", "b d done left result state"},
		"a peer's is counted":                     {[]string{"SET left 2"}, settle("1", "", ""), "ok 1 counted", "b d done left result"},
		"a peer's is followed":                    {[]string{"SET left 1"}, settle("1", "cb", "1"), "ok 1 last", "b d done left q1 result"},
		"it has expired":                          {[]string{state}, settle("1", "", ""), "ok 1 gone", "b d"},
		"the slot had ended":                      {[]string{state, "SET left 2", "SADD done 0"}, settle("1", "", ""), "ok 1 again", "b d"},
		"a peer does not count failures":          {[]string{"SET left 2"}, settle("0", "", ""), "ok 1 uncounted", "b d"},
		"the state is of another type":            {[]string{"SET state x", "SET left 2"}, settle("1", "", ""), "ok 1 broken", "b d"},
		"the slots are of another type":           {[]string{state, "SET left 2", "SET done x"}, settle("1", "", ""), "ok 1 broken", "b d"},
		"the number left is of another type":      {[]string{state, "RPUSH left x"}, settle("1", "", ""), "ok 1 broken", "b d"},
		"the number left is none":                 {[]string{state, "SET left x"}, settle("1", "", ""), "ok 1 broken", "b d"},
		"the time to live is no number":           {[]string{"HSET state ttl x policy all", "SET left 2"}, settle("1", "", ""), "ok 1 broken", "b d"},
		"the stream of the callback is not named": {[]string{"SET left 1"}, settle("1", "cb", "pool"), "queue pool", ""},
		"the stream of the callback is no stream": {[]string{"SET left 1", "SET q1 x"}, settle("1", "cb", "1"), "WRONGTYPE q1 is a string", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := testenv.NewBed(t, srv, append(slices.Clone(delivered), c.given...)...)
			before := b.Dump()
			if got := b.Run(settleScript, keys, c.args...); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if got := strings.Join(testenv.Changed(before, b.Dump()), " "); got != c.changes {
				t.Errorf("changed: %q, want %q", got, c.changes)
			}
		})
	}
}
