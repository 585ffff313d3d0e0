package stream

import (
	"fmt"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/testenv"
)

const never = "99999999999999" // ms; when a try of an acquisition is too late

// Each script by itself: what it answers when the worker, the holder or the entry is another one than the caller takes it for, and that it changes nothing then. In a running
// group these cases are moments between two commands.
func TestScriptsRefuse(t *testing.T) {
	srv := testenv.Redis(t)
	const entry = "5-1"
	type state struct {
		*env
		heart, holder, dead string
	}
	scripts := map[string]struct {
		script *script.Script
		keys   func(state) []string
		args   []string
	}{
		"ack":      {ackScript, func(s state) []string { return []string{s.heart, s.stream} }, []string{"token", "g", entry}},
		"begin":    {beginScript, func(s state) []string { return []string{s.heart, s.stream} }, []string{"token", "g", "me", entry, "7"}},
		"claim":    {claimScript, func(s state) []string { return []string{s.heart, s.holder, s.stream} }, []string{"token", "g", "me", "other", takeoverMark, "60000", "-", "10"}},
		"dead":     {deadScript, func(s state) []string { return []string{s.heart, s.stream, s.dead} }, []string{"token", "g", "me", entry, "why", "poison"}},
		"giveback": {giveBackScript, func(s state) []string { return []string{s.heart, s.stream} }, []string{"token", "g", "me", "me" + backMark, entry, "0"}},
		"leave":    {leaveScript, func(s state) []string { return []string{s.stream} }, []string{"g", "me"}},
		"acquire":  {acquireScript, func(s state) []string { return []string{s.heart} }, []string{"new", "60000", "0", takeoverMark, "", never}},
		"renew":    {renewScript, func(s state) []string { return []string{s.heart} }, []string{"token", "60000"}},
		"release":  {releaseScript, func(s state) []string { return []string{s.heart} }, []string{"token"}},
	}
	for _, c := range []struct {
		name  string
		given []string // commands, with the keys of the state
		want  map[string]string
	}{
		{"another token", []string{"SET HEART another"}, map[string]string{
			"ack": "lost", "begin": "lost", "claim": "lost", "dead": "lost", "giveback": "lost", "renew": "lost", "release": "lost", "acquire": "taken another",
		}},
		{"no token", []string{"DEL HEART"}, map[string]string{
			"ack": "lost", "begin": "lost", "claim": "lost", "dead": "lost", "giveback": "lost", "renew": "lost", "release": "lost",
		}},
		{"the entry is another's", []string{"XCLAIM STREAM g other 0 " + entry}, map[string]string{"begin": "gone", "dead": "gone", "giveback": "ok"}},
		{"the entry is settled", []string{"XACK STREAM g " + entry}, map[string]string{"begin": "gone", "dead": "gone", "giveback": "ok"}},
		{"the holder lives", []string{"XCLAIM STREAM g other 0 " + entry, "SET HOLDER alive"}, map[string]string{"claim": "alive"}},
		{"the dead letters are no stream", []string{"SET DEAD x"}, map[string]string{"dead": "WRONGTYPE DEAD is a string"}},
		{"it holds an entry", nil, map[string]string{"leave": "holds"}},
	} {
		for name, want := range c.want {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				s := state{env: newEnv(t, srv)}
				s.heart, s.holder, s.dead = s.keys.Worker("me"), s.keys.Worker("other"), s.keys.DeadLetter(s.stream)
				names := strings.NewReplacer("HEART", s.heart, "HOLDER", s.holder, "STREAM", s.stream, "DEAD", s.dead)
				do := func(command string) string {
					t.Helper()
					words := strings.Fields(names.Replace(command))
					reply, err := srv.Client.Do(t.Context(), srv.Client.B().Arbitrary(words...).Build()).ToAny()
					if err != nil && !strings.Contains(err.Error(), "nil") {
						t.Fatal(command, err)
					}
					return fmt.Sprint(reply)
				}
				for _, command := range append([]string{
					"XADD STREAM " + entry + " a b", "XGROUP CREATE STREAM g 0", "XREADGROUP GROUP g me streams STREAM >", "SET HEART token PX 50000",
				}, c.given...) {
					do(command)
				}
				held := func() string {
					all := do("XRANGE STREAM - +")
					for _, who := range []string{"me", "other", "me" + backMark} {
						all += "\n" + who + fmt.Sprint(pendingOf(t, s.env, who))
					}
					for _, key := range []string{s.heart, s.holder, s.dead} {
						all += "\n" + do("EXISTS "+key) + do("TYPE "+key)
					}
					return all + do("GET HEART") + do("GET HOLDER") + do("PEXPIRETIME HEART")
				}
				before := held()
				reply := scripts[name].script.Run(t.Context(), srv.Client, scripts[name].keys(s), scripts[name].args...)
				got, err := reply.AsStrSlice()
				text := strings.Join(got, " ")
				if err != nil {
					text = err.Error()
				}
				if want = names.Replace(want); text != want {
					t.Errorf("%q, want %q", text, want)
				}
				if after := held(); after != before {
					t.Errorf("it changed what was\n%s\nto\n%s", before, after)
				}
			})
		}
	}
}

// pendingOf is what a consumer holds, with how often it was delivered.
func pendingOf(t *testing.T, e *env, consumer string) []string {
	t.Helper()
	rdb := e.srv.Client
	rows, err := rdb.Do(t.Context(), rdb.B().Xpending().Key(e.stream).Group("g").Start("-").End("+").Count(10).Consumer(consumer).Build()).ToArray()
	testenv.Must(t, err)
	var all []string
	for _, row := range rows {
		fields, _ := row.ToArray()
		id, _ := fields[0].ToString()
		times, _ := fields[3].AsInt64()
		all = append(all, fmt.Sprint(id, " ", times))
	}
	return all
}

// What a dead worker held is taken over page by page: while some of it is left, the worker stays in the group, for its entries would go with it.
func TestScriptClaimLeavesTheRest(t *testing.T) {
	b := testenv.NewBed(t, testenv.Redis(t), "SET a token", "XADD c 5-1 a b", "XADD c 6-1 a b", "XGROUP CREATE c g 0", "XREADGROUP GROUP g other streams c >")
	for _, entry := range []string{"5-1", "6-1"} {
		if got := b.Run(claimScript, "a b c", "token", "g", "me", "other", takeoverMark, "60000", "-", "1"); !strings.HasPrefix(got, "ok "+entry+" ") {
			t.Errorf("%q, want %s", got, entry)
		}
	}
}
