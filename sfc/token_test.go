package sfc

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// outbox are the commands of the outbox.
func (s *steps) outbox() []recipe.Command {
	s.t.Helper()
	var all []recipe.Command
	for _, e := range s.entries(keys.New(s.prefix).SfcOutbox()) {
		var c recipe.Command
		s.must(json.Unmarshal([]byte(e["command"]), &c))
		all = append(all, c)
	}
	return all
}

// commanded sends the first command of the drill by i and returns it as it went out, and as the outbox has it.
func (s *steps) commanded(i *instance) (cloudevent.Event, recipe.Command) {
	s.t.Helper()
	s.running("JO")
	commands := s.outbox()
	if len(commands) != 1 || commands[0].Action != "drill" || commands[0].Token == "" {
		s.t.Fatalf("outbox: %v", commands)
	}
	return s.sent(i, commands[0]), commands[0]
}

// sent lets i send a command of the outbox.
func (s *steps) sent(i *instance, c recipe.Command) cloudevent.Event {
	s.t.Helper()
	s.must(i.dispatch(s.t.Context(), c))
	s.cell.mu.Lock()
	defer s.cell.mu.Unlock()
	return s.cell.sent[len(s.cell.sent)-1]
}

// repeat is a command as the outbox has it when it is sent again.
func repeat(c recipe.Command) recipe.Command {
	c.Again, c.Token = true, ""
	return c
}

// on is an answer to a command on a topic.
func on(topic, command, result string) cloudevent.Event {
	ev := answerTo(command, result)
	ev.Delivery.Topic = topic
	return ev
}

// document is the stored execution, byte for byte.
func (s *steps) document(job string) string {
	s.t.Helper()
	return string(s.load(job).Execution.Encode())
}

// An answer counts if its topic has the token of its command. Everything else that is sent there, by the bus or by Takt's own replies, changes nothing and is counted,
// whichever instance gets it; then the answer of the equipment counts.
func TestForgedAnswers(t *testing.T) {
	t.Parallel()
	s := newStepsWith(t, setup{random: true})
	command, c := s.commanded(s.a)
	topic := command.Delivery.ResponseTopic
	base, token := strings.TrimSuffix(topic, "/"+string(c.Token)), string(c.Token)
	if base != "plant/responses/a" {
		t.Fatalf("response topic without its token: %s", base)
	}
	flipped := []byte(token)
	flipped[31] ^= 1
	refusal := on(base, c.ID, "")
	refusal.ErrorKind = cloudevent.KindUnknownPayloadType
	byCorrelation := on(base, "", `{"depth":1}`)
	byCorrelation.Delivery.CorrelationData = command.Delivery.CorrelationData
	ours, others := on(topic, c.ID, `{"depth":1}`), on(topic, c.ID, `{"depth":1}`)
	ours.Source, others.Source = "urn:takt:a", "urn:takt:b"
	s.must(s.b.store.Enlist(t.Context(), map[string]string{"": "receiver,engine"}))
	s.must(s.a.store.Enlist(t.Context(), map[string]string{"": "receiver,engine"}))

	unreadable := on(base+"/"+string(flipped), c.ID, "\xff")
	unreadable.Delivery.Unreadable = cloudevent.Errorf(cloudevent.KindPayloadInvalid, "payload is not UTF-8")

	before := s.document("JO")
	for name, ev := range map[string]cloudevent.Event{
		"no token":                  on(base, c.ID, `{"depth":1}`),
		"no token, refusal":         refusal,
		"no token, by correlation":  byCorrelation,
		"no topic":                  on("", c.ID, `{"depth":1}`),
		"empty token":               on(base+"/", c.ID, `{"depth":1}`),
		"wrong token":               on(base+"/"+string(flipped), c.ID, `{"depth":1}`),
		"beginning of the token":    on(base+"/"+token[:31], c.ID, `{"depth":1}`),
		"more than the token":       on(topic+"0", c.ID, `{"depth":1}`),
		"wrong token, unreadable":   unreadable,
		"one level more":            on(topic+"/x", c.ID, `{"depth":1}`),
		"capitals":                  on(base+"/"+strings.ToUpper(token)+"A", c.ID, `{"depth":1}`),
		"token of the test's seed":  answerTo(c.ID, `{"depth":1}`),
		"token elsewhere":           on("plant/equipment/cell-07/"+token, c.ID, `{"depth":1}`),
		"from the instance itself":  ours,
		"from another of Takt":      others,
		"other prefix, right token": on("takt/responses/a/"+token, c.ID, `{"depth":1}`),
	} {
		for _, i := range []*instance{s.a, s.b} {
			forged := i.counts.of(OpActionState, Forged)
			s.must(i.Answer(t.Context(), ev))
			if after := s.document("JO"); after != before {
				t.Fatalf("%s: the execution changed at %s: %s", name, i.name, after)
			}
			if n := i.counts.of(OpActionState, Forged); n != forged+1 {
				t.Errorf("%s: counted %d times at %s", name, n-forged, i.name)
			}
		}
	}
	retained := on(topic, c.ID, `{"depth":1}`)
	retained.Delivery.Retained = true
	invalid := s.a.counts.of(OpActionState, Invalid)
	s.must(s.a.Answer(t.Context(), retained))
	if n := s.a.counts.of(OpActionState, Invalid) - invalid; n != 1 || s.document("JO") != before {
		t.Errorf("a retained answer is counted %d times, or changes the execution", n)
	}
	s.must(s.b.Answer(t.Context(), on("plant/responses/b/"+token, c.ID, `{"depth":7}`)))
	if got := string(s.load("JO").Execution.Action("drill").Result); got != `{"depth":7}` {
		t.Errorf("result %s, want that of the equipment", got)
	}
}

// A source that looks like a process of ours and is none may answer; what is learned of it is asked once.
func TestSourceOfAnswer(t *testing.T) {
	t.Parallel()
	s := newStepsWith(t, setup{random: true})
	command, c := s.commanded(s.a)
	ev := on(command.Delivery.ResponseTopic, c.ID, `{"depth":7}`)
	ev.Source = "urn:takt:station:cell-07"
	s.must(s.a.Answer(t.Context(), ev))
	if got := string(s.load("JO").Execution.Action("drill").Result); got != `{"depth":7}` {
		t.Errorf("result %s", got)
	}
	if seen, ok := s.a.sources.Get("station:cell-07"); !ok || seen.process || time.Since(seen.at) > sourceLasts {
		t.Errorf("remembered %+v, %t", seen, ok)
	}
}

// A command has one token: the same when it is sent again, by any instance, also by one that knows nothing of it. Two commands have two.
func TestTokenOfRepeats(t *testing.T) {
	t.Parallel()
	s := newStepsWith(t, setup{random: true})
	first, c := s.commanded(s.a)
	_, token := topics.Prefix("plant").AnsweredOn(first.Delivery.ResponseTopic)
	for _, i := range []*instance{s.a, s.b, s.start("c", setup{idle: true, random: true})} {
		again := s.sent(i, repeat(c))
		if want := "plant/responses/" + i.name + "/" + token; again.Delivery.ResponseTopic != want {
			t.Errorf("sent again by %s with another response topic", i.name)
		}
	}
	s.must(s.b.Answer(t.Context(), on(first.Delivery.ResponseTopic, c.ID, `{"depth":1}`)))
	s.must(s.b.Event(t.Context(), event07("probe.v1", "cell-07", "", `{"bore":1}`)))
	commands := s.outbox()
	if len(commands) != 2 || commands[1].Action != "release" || commands[1].Token == "" || commands[1].Token.Matches(c.Token) {
		t.Errorf("the next command has not a token of its own: %v", commands)
	}
}

// A job may be paused longer than the route of its command is kept. Its command then gets a new token when it is sent again, and one only.
func TestTokenAfterALongPause(t *testing.T) {
	t.Parallel()
	s := newStepsWith(t, setup{random: true})
	first, c := s.commanded(s.a)
	s.redis.Must(t, "DEL", keys.New(s.prefix).SfcCommand(c.ID))
	s.cell.mu.Lock()
	delete(s.cell.tokens, c.ID) // it checks that there is one
	s.cell.mu.Unlock()
	other := s.start("c", setup{idle: true, random: true})
	_, token := topics.Prefix("plant").AnsweredOn(s.sent(s.b, repeat(c)).Delivery.ResponseTopic)
	if _, same := topics.Prefix("plant").AnsweredOn(s.sent(other, repeat(c)).Delivery.ResponseTopic); same != token || token == "" {
		t.Error("two instances made two tokens")
	}
	before := s.document("JO")
	s.must(other.Answer(t.Context(), on(first.Delivery.ResponseTopic, c.ID, `{"depth":1}`)))
	if s.document("JO") != before {
		t.Error("the old token counts")
	}
	s.must(other.Answer(t.Context(), on("plant/responses/b/"+token, c.ID, `{"depth":7}`)))
	if got := string(s.load("JO").Execution.Action("drill").Result); got != `{"depth":7}` {
		t.Errorf("result %s", got)
	}
}

// A command that is sent again keeps its route: a day beyond the deadline that it has now.
func TestRouteIsKeptWithItsCommand(t *testing.T) {
	t.Parallel()
	s := newStepsWith(t, setup{random: true})
	_, c := s.commanded(s.a)
	key, ctx := keys.New(s.prefix).SfcCommand(c.ID), t.Context()
	s.redis.Must(t, "PEXPIRE", key, "60000")
	snap := s.load("JO")
	s.must(s.mes.Commit(ctx, snap, jobstore.Change{Execution: snap.Execution, Due: snap.Execution.Due(), Commands: []recipe.Command{repeat(c)}, Now: s.mes.Now()}))
	if again := s.outbox()[1]; !again.Again || again.ID != c.ID || again.Token != "" {
		t.Errorf("in the outbox: %v", again)
	}
	if left := s.redis.Number(t, "PTTL", key); time.Duration(left)*time.Millisecond < 23*time.Hour {
		t.Errorf("the route is kept for %d ms", left)
	}
}

// No token is logged, whatever happens to a command and its answers.
func TestTokensAreNotLogged(t *testing.T) {
	t.Parallel()
	var log testenv.Log
	loud := func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	s := newStepsWith(t, setup{random: true, engine: loud})
	command, c := s.commanded(s.a)
	topic, ctx := command.Delivery.ResponseTopic, t.Context()
	s.sent(s.b, repeat(c))
	s.must(s.a.Answer(ctx, on(topic, "", `{}`)))
	s.must(s.a.Answer(ctx, on(topic, "00000000-0000-5000-8000-000000000000", `{}`)))
	s.must(s.a.Answer(ctx, on(topic+"x", c.ID, `{}`)))
	ours := on(topic, c.ID, `{}`)
	ours.Source = s.a.opt.Source
	s.must(s.a.Answer(ctx, ours))
	s.must(s.a.Answer(ctx, on(topic, c.ID, `{"depth":`)))
	s.must(s.a.Answer(ctx, on(topic, c.ID, `{"depth":1}`)))
	s.must(s.b.dispatch(context.WithoutCancel(ctx), c))
	text := log.String()
	if !strings.Contains(text, c.ID) || !strings.Contains(text, "(token)") {
		t.Errorf("the log does not tell of the command: %s", text)
	}
	if strings.Contains(strings.ToLower(text), string(c.Token)[:12]) {
		t.Errorf("the log has the token: %s", text)
	}
}
