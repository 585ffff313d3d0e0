package publisher_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/taktworks/takt/isa95"
)

// Names that cannot be in a topic and documents that cannot be read, in the index, in the change stream and among the
// scopes. They become dead letters; everything else is published, now and after a restart.
func TestPoison(t *testing.T) {
	p := newPlant(t)
	i := p.start()
	p.fill()
	p.inSync()
	entry := func(scope, id string) {
		t.Helper()
		p.redisDo("XADD", p.keys.ChangesAll(), "*", "change_type", "Store", "job_order_id", id, "scope", scope, "ts", "x")
	}
	live, _ := p.redisDo("HGET", p.keys.PubIndex("m42"), "WAITS").ToString()
	for _, id := range []string{"list:m42", "a/b", "a+", "#", "", strings.Repeat("x", 200), "tab\there"} {
		p.redisDo("HSET", p.keys.PubIndex("m42"), id, live)
		entry("m42", id)
	}
	for _, scope := range []string{"_global", "equipment", "a/b", "+", ""} {
		p.redisDo("SADD", p.keys.ActiveScopes(), scope)
		entry(scope, "JO-1")
	}
	p.redisDo("XADD", p.keys.ChangesAll(), "*", "nothing", "known")

	p.redisDo("HSET", p.keys.PubIndex("m42"), "GARBAGE", "{", "NODOC", live, "CUT", live, "LIST", live, "FOREIGN", live)
	p.redisDo("SET", p.keys.JobOrder("CUT"), `{"JobOrder":`)
	p.redisDo("LPUSH", p.keys.JobOrder("LIST"), "x")
	p.move("elsewhere", "FOREIGN", isa95.Store)
	for _, id := range []string{"GARBAGE", "NODOC", "CUT", "LIST", "FOREIGN"} {
		entry("m42", id)
	}
	for _, scope := range []string{"badindex", "baddone", "badseq"} {
		p.move(isa95.Scope(scope), isa95.JobOrderID("JO-"+scope), isa95.Store)
	}
	p.redisDo("DEL", p.keys.PubIndex("badindex"))
	p.redisDo("SET", p.keys.PubIndex("badindex"), "x")
	p.redisDo("DEL", p.keys.PubDone("baddone"))
	p.redisDo("SET", p.keys.PubDone("baddone"), "x")
	p.redisDo("SET", p.keys.PubSeq("badseq"), "many")
	for _, scope := range []string{"badindex", "baddone", "badseq"} {
		entry(scope, "JO-"+scope)
	}

	good := func(id isa95.JobOrderID) {
		t.Helper()
		p.move(scope, id, isa95.Store)
		p.move("good", id+"-too", isa95.Store)
		p.eventually("good job orders published", func() error {
			has := p.retained()
			for _, topic := range []string{"m42/order/" + string(id), "good/order/" + string(id) + "-too", "elsewhere/order/FOREIGN"} {
				if _, ok := has[topic]; !ok {
					return fmt.Errorf("%s is missing", topic)
				}
			}
			return p.caughtUp()
		})
	}
	good("GOOD-1")
	letters, err := p.redisDo("XRANGE", p.keys.PublisherDeadLetter(), "-", "+").AsXRange()
	if err != nil || len(letters) < 17 {
		t.Errorf("%d dead letters, %v", len(letters), err)
	}
	for _, l := range letters {
		if l.FieldValues["reason"] == "" {
			t.Errorf("without a reason: %v", l.FieldValues)
		}
	}
	if s := i.Stats(); s.DeadLetters != int64(len(letters)) {
		t.Errorf("%d dead letters counted, %d written", s.DeadLetters, len(letters))
	}
	x := p.index(scope)
	for _, e := range x.Jobs {
		if _, err := isa95.ParseJobOrderID(e.JobOrderID); err != nil || e.JobOrderID == "GARBAGE" {
			t.Errorf("in the index: %q", e.JobOrderID)
		}
	}
	i.stop()
	p.start()
	good("GOOD-2")
	if err := p.check(); err == nil || !strings.Contains(err.Error(), "list:m42") || !strings.Contains(err.Error(), "NODOC") {
		t.Errorf("Check says %v", err)
	}
}

// Even a key of dead letters that is something else does not stop it.
func TestPoisonedDeadLetters(t *testing.T) {
	p := newPlant(t)
	p.redisDo("SET", p.keys.PublisherDeadLetter(), "x")
	p.start()
	p.move(scope, "JO-1", isa95.Store)
	p.redisDo("XADD", p.keys.ChangesAll(), "*", "nothing", "known")
	p.move(scope, "JO-2", isa95.Store)
	p.inSync()
}
