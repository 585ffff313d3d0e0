package jobstore_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// stocked is a store that holds an order in each situation: waiting, running, finished and cleared, with configuration.
func stocked(t *testing.T) *shop {
	t.Helper()
	s := newShop(t)
	priority := 4
	s.move("m42", "JO-new", priority, isa95.State{Top: isa95.NotAllowedToStart, Sub: isa95.Ready})
	s.move("a:b", "JO:colon", 0, isa95.State{Top: isa95.NotAllowedToStart, Sub: isa95.Ready})
	s.run("m42", "JO-running")
	s.move("m42", "JO-done", 0, completed)
	s.move("m42", "JO-cleared", 0, completed)
	s.move("m42", "JO-cleared", 0, isa95.State{Top: isa95.EndState})
	if err := s.configure(jobstore.Configuration{Kind: isa95.ConfigEquipment, Scope: "m42", ID: "EQ-1"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Enlist(t.Context(), map[string]string{"": "engine", "answers": "engine,answers"}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *shop) check() []jobstore.Violation {
	s.t.Helper()
	found, err := s.Check(s.t.Context(), jobstore.CheckOptions{Grace: time.Hour, AnyScope: true})
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

func TestCheckOfHealthyStore(t *testing.T) {
	s := stocked(t)
	for _, v := range s.check() {
		t.Errorf("found in a healthy store: %v", v)
	}
}

// look is what a check with o finds, by the names that follow the prefix.
func (s *shop) look(o jobstore.CheckOptions) map[string]jobstore.Violation {
	s.t.Helper()
	found, err := s.Check(s.t.Context(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	all := make(map[string]jobstore.Violation)
	for _, v := range found {
		if v.Next == "" {
			s.t.Errorf("%v: no next step", v)
		}
		key := strings.TrimPrefix(v.Key, s.keys.Prefix()+":")
		v.Problem = all[key].Problem + v.Problem
		all[key] = v
	}
	return all
}

// problems are those that a check with o finds.
func (s *shop) problems(o jobstore.CheckOptions) map[string]string {
	s.t.Helper()
	o.Grace = time.Hour
	all := make(map[string]string)
	for key, v := range s.look(o) {
		all[key] = v.Problem
	}
	return all
}

// Orders for a station that was never configured, and orders that may start and that nothing starts, are sound documents of orders that will never end.
func TestCheckFindsOrdersThatWaitForNothing(t *testing.T) {
	s := newShop(t)
	s.move("m42", "JO-1", 0, ready)
	s.move("m42", "JO-2", 0, released)
	s.do("DEL", s.keys.SfcWork())
	idle := map[string]string{"joborder:JO-2": "is AllowedToStart_Ready and nothing will start it"}
	unconfigured := maps.Clone(idle)
	unconfigured["joborder:list:m42"] = "has 2 job orders, and scope m42 was never configured"
	if diff := cmp.Diff(unconfigured, s.problems(jobstore.CheckOptions{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(idle, s.problems(jobstore.CheckOptions{AnyScope: true})); diff != "" {
		t.Errorf("with any scope allowed: %s", diff)
	}
	s.do("SADD", s.keys.ConfiguredScopes(), "m42")
	if diff := cmp.Diff(idle, s.problems(jobstore.CheckOptions{})); diff != "" {
		t.Errorf("configured: %s", diff)
	}

	late := s.problems(jobstore.CheckOptions{Waiting: time.Nanosecond})
	if text := late["joborder:JO-2"]; len(late) != 1 || !strings.Contains(text, "is AllowedToStart") || !strings.Contains(text, "nothing starts it") {
		t.Errorf("%v, want JO-2 alone", late)
	}
}

// Each corruption is found under its key; no key that cannot be read hides what else is wrong.
func TestCheckFindsCorruption(t *testing.T) {
	s := stocked(t)
	healthy := s.dumps()
	for _, c := range []struct {
		name    string
		command string // below the prefix: @ stands for "prefix:"
		key     string
		problem string
	}{
		{"unknown key", "SET @junk 1", "junk", "is not a key of Takt"},
		{"unknown dead letters", "XADD @junk:dead * a b", "junk:dead", "is not a key of Takt"},
		{"list as mailbox", "RPUSH @sfc:mailbox:m42:com.acme.x a", "sfc:mailbox:m42:com.acme.x", "is a list, should be a string"},
		{"list as reply", "RPUSH @cededupe:abc a", "cededupe:abc", "is a list, should be a string"},
		{"string as timers", "SET @sfc:timers 1", "sfc:timers", "is a string, should be a zset"},
		{"string as job list", "SET @joborder:list:m42 1", "joborder:list:m42", "is a string, should be a zset"},
		{"string as job list of a new scope", "SET @joborder:list:s1 1", "joborder:list:s1", "is a string, should be a zset"},
		{"string as active jobs", "SET @sfc:active-jobs 1", "sfc:active-jobs", "is a string, should be a set"},
		{"string as scopes", "SET @active-scopes 1", "active-scopes", "is a string, should be a set"},
		{"string as retained topics", "SET @pubidx:m42 1", "pubidx:m42", "is a string, should be a hash"},
		{"string as work", "SET @sfc:work 1", "sfc:work", "is a string, should be a stream"},
		{"string as dead letters", "SET @sfc:work:dead 1", "sfc:work:dead", "is a string, should be a stream"},
		{"string as buried changes", "SET @publisher:deadletter 1", "publisher:deadletter", "is a string, should be a stream"},
		{"string as response list", "SET @jobresponse:list:m42 1", "jobresponse:list:m42", "is a string, should be a zset"},
		{"string as states", "SET @jrx:bystate:m42:Aborted 1", "jrx:bystate:m42:Aborted", "is a string, should be a set"},
		{"hash as job order", "HSET @joborder:JO-running a b", "joborder:JO-running", "is a hash, should be a string"},
		{"hash as execution", "HSET @sfc:execution:JO-running a b", "sfc:execution:JO-running", "is a hash, should be a string"},
		{"hash as response", "HSET @jobresponse:JO-done-response a b", "jobresponse:JO-done-response", "is a hash, should be a string"},
		{"broken job order", "SET @joborder:JO-new {", "joborder:JO-new", "cannot be read"},
		{"broken execution", "SET @sfc:execution:JO-running {", "sfc:execution:JO-running", "cannot be read"},
		{"orphan response", "SET @jobresponse:JO-lost-response {}", "jobresponse:JO-lost-response", "belongs to no job order"},
		{"orphan response with another name", "SET @jobresponse:lost {}", "jobresponse:lost", "belongs to no job order"},
		{"response of a cleared order stays", "PERSIST @jobresponse:JO-cleared-response", "jobresponse:JO-cleared-response", "never expires"},
		{"listed response is missing", "ZADD @jobresponse:list:m42 1 lost", "jobresponse:list:m42", "names lost, which has no document"},
		{"response of a state is missing", "SADD @jrx:bystate:m42:Aborted lost", "jrx:bystate:m42:Aborted", "names lost, which has no document"},
		{"cleared order stays", "PERSIST @joborder:JO-cleared", "joborder:JO-cleared", "never expires"},
		{"order without document", "ZADD @joborder:list:m42 1 lost", "joborder:list:m42", "names lost, which has no document"},
		{"string as history", "SET @jobhistory:JO-running 1", "jobhistory:JO-running", "is a string, should be a stream"},
		{"history of another state", `XADD @jobhistory:JO-running * e {"s":"Aborted"}`, "jobhistory:JO-running", "ends in Aborted, and the order is Running"},
		{"history of another run", `XADD @jobhistory:JO-running * e {"i":1,"x":{"c":"drill"}}`, "jobhistory:JO-running", "does not lead to the execution document"},
		{"broken entry of a history", "XADD @jobhistory:JO-running * e {", "jobhistory:JO-running", "cannot be read"},
		{"history of nothing", "XADD @jobhistory:JO-lost * e {}", "jobhistory:JO-lost", "belongs to no job order, and never expires"},
		{"missing timer", "DEL @sfc:timers", "sfc:execution:JO-running", "has no timer"},
		{"forgotten recipe", "DEL @sfc:active-jobs", "sfc:execution:JO-running", "runs, but is not in"},
		{"missing response", "DEL @jobresponse:JO-done-response", "jobresponse:JO-done-response", "is missing"},
		{"dead letter", "XADD @sfc:work:dead * a b", "sfc:work:dead", "1 dead letters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.t = t
			prefix := s.keys.Prefix() + ":"
			words := strings.Fields(strings.Replace(c.command, "@", prefix, 1))
			if words[0] != "PERSIST" && words[0] != "DEL" && strings.Contains(c.problem, "should be") {
				s.do("DEL", words[1])
			}
			s.do(words...)
			defer s.restore(healthy)
			found := s.check()
			hits := 0
			for _, v := range found {
				if v.Key == prefix+c.key && strings.Contains(v.Problem, c.problem) {
					hits++
				}
				if v.Next == "" {
					t.Errorf("%v says nothing of what to do", v)
				}
			}
			if hits != 1 {
				t.Errorf("not found once in %v", found)
			}
			if strings.Contains(c.problem, "should be") && len(found) != 1 {
				t.Errorf("a key of the wrong type makes %d findings: %v", len(found), found)
			}
		})
	}
	s.t = t
	if found := s.check(); len(found) != 0 {
		t.Errorf("not restored: %v", found)
	}
}

// restore makes what is stored equal to dumps, but for keys that expire.
func (s *shop) restore(dumps map[string]string) {
	s.t.Helper()
	for _, key := range s.stored() {
		key, _, _ = strings.Cut(key, " ")
		s.do("DEL", s.keys.Prefix()+":"+key)
	}
	for key, dump := range dumps {
		ttl := "0"
		if strings.Contains(key, "JO-cleared") {
			ttl = "3600000"
		}
		s.do("RESTORE", s.keys.Prefix()+":"+key, ttl, dump)
	}
}

// All at once: nothing hides anything, and the check itself changes nothing.
func TestCheckReadsOnAfterWrongTypes(t *testing.T) {
	s := stocked(t)
	p := s.keys.Prefix() + ":"
	for _, key := range []string{"sfc:timers", "sfc:active-jobs", "joborder:list:a:b", "sfc:outbox", "event:receiver:list"} {
		s.do("DEL", p+key)
		s.do("SET", p+key, "1")
	}
	s.do("SET", p+"junk", "1")
	s.do("ZADD", p+"jobresponse:list:m42", "1", "lost")
	before := s.dumps()
	found := s.check()
	if len(found) != 7 {
		t.Errorf("%d findings: %v", len(found), found)
	}
	if after := s.dumps(); !maps.Equal(after, before) {
		t.Error("the check changed what is stored")
	}
}

// A response that expires belongs to an order that was cleared, whose document may have gone first.
func TestCheckLetsResponsesExpire(t *testing.T) {
	s := stocked(t)
	s.do("DEL", s.keys.JobOrder("JO-cleared"))
	for _, v := range s.check() {
		t.Error(v)
	}
}

// What stands is the same in a later look, though its age and number have grown; what moved is not.
func TestCheckSameInTwoLooks(t *testing.T) {
	s := newShop(t)
	s.run("m42", "JO-1")
	s.do("XADD", s.keys.DeadLetter(s.keys.SfcWork()), "1000-1", "a", "b")
	s.do("DEL", s.keys.SfcOutbox())
	s.do("XADD", s.keys.SfcOutbox(), "1000-1", "a", "b")
	s.do("ZREM", s.keys.JobOrderList("m42"), "JO-1")
	before := s.look(jobstore.CheckOptions{Grace: time.Second})
	s.do("XADD", s.keys.DeadLetter(s.keys.SfcWork()), "2000-1", "a", "b")
	after := s.look(jobstore.CheckOptions{Grace: time.Second})
	for _, key := range []string{"sfc:work:dead", "sfc:outbox", "joborder:JO-1"} {
		if before[key].Problem == "" || !before[key].Same(after[key]) {
			t.Errorf("%s: %v is not the same as %v", key, before[key], after[key])
		}
	}
	if before["sfc:work:dead"].Problem == after["sfc:work:dead"].Problem {
		t.Errorf("%v does not count", after["sfc:work:dead"])
	}
	s.do("XDEL", s.keys.SfcOutbox(), "1000-1")
	s.do("XADD", s.keys.SfcOutbox(), "3000-1", "a", "b")
	if moved := s.look(jobstore.CheckOptions{Grace: time.Second}); moved["sfc:outbox"].Problem == "" || before["sfc:outbox"].Same(moved["sfc:outbox"]) {
		t.Errorf("%v, and %v is another entry", before["sfc:outbox"], moved["sfc:outbox"])
	}
}
