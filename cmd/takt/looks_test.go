package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/workflow"
)

// Every command that only looks runs with the rights to look, and Redis denies it nothing; with these rights nothing can be written.
func TestRightsToLook(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations/run.md")
	if err != nil || !strings.Contains(string(page), redis.Rights("takt", true)+"\n") || !strings.Contains(string(page), redis.Rights("takt", false)+"\n") {
		t.Error("docs/operations/run.md does not name the rights of Redis", err)
	}
	recipe, err := os.ReadFile("../../examples/gearbox-cover/recipe.json")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("recipe.json", recipe, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("station.yaml", []byte("scope: cell-07\nequipment: [press-1]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	srv, broker := testenv.Redis(t), testenv.Mosquitto(t)
	prefix, namespace := srv.Prefix(t), srv.Prefix(t)
	do := func(words ...string) rueidis.RedisResult {
		t.Helper()
		r := srv.Client.Do(t.Context(), srv.Client.B().Arbitrary(words...).Build())
		if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
			t.Fatalf("%q: %v", words, err)
		}
		return r
	}
	allow := func(user, rules string) {
		do(append(strings.Fields("ACL SETUSER "+user+" reset on >secret"), strings.Fields(rules)...)...)
	}
	watching := func(key string) string { return " (+set ~" + prefix + ":" + key + ")" }
	allow("worker", redis.Rights(prefix, false)+" "+redis.Rights(namespace, false))
	allow("viewer", redis.Rights(prefix, true)+" "+redis.Rights(namespace, true))
	allow("watcher", redis.Rights(prefix, true)+watching("tasks:watched")+watching("workflow:watched"))

	spaced := func(command string) []string { // ~ stands for a blank
		all := strings.Fields(command)
		for i := range all {
			all[i] = strings.ReplaceAll(all[i], "~", " ")
		}
		return all
	}
	on := func(user, command string) []string {
		args := append(spaced(command), "--redis", srv.URL, "--prefix", prefix, "--mqtt", broker.URL, "--redis-username", user, "--redis-password", "secret")
		if strings.HasPrefix(command, "board ") {
			args = append(args, "--board", srv.URL+"?namespace="+namespace)
		}
		return args
	}
	// What there is to look at, made with the rights to work.
	const uuid = "11111111-2222-3333-4444-555555555555"
	for _, command := range []string{"task submit test:Echo [1] --id order/17", "board post resize --uuid " + uuid, "schedule add nightly test:Echo every~1h"} {
		if code, out, errOut := takt(on("worker", command)...); code != exitOK {
			t.Fatalf("takt %s: exit status %d\n%s%s", command, code, out, errOut)
		}
	}
	storeOrder(t, jobstore.Options{URL: srv.URL, Prefix: prefix, Username: "worker", Password: "secret"}, isa95.State{Top: isa95.AllowedToStart, Sub: isa95.Ready})
	do("SET", "lock:mutex:job", "me")
	srv.Own("lock")
	do("HSET", prefix+":tasks:awaited", "gone", "nobody") // for takt task check to find
	client, err := workflow.Connect{URL: srv.URL, Username: "worker", Password: "secret"}.Open(t.Context(), workflow.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	start := workflow.Start{Instance: workflow.Instance{ID: "order-1", Execution: "x"}, Queue: "q", Name: "order", Event: workflow.Event{ID: "e", Type: "started", Time: time.Now()}}
	if err := client.Start(t.Context(), start); err != nil {
		t.Fatal(err)
	}

	shown := map[string]string{ // command -> its arguments, and behind | the exit status if it is not 0, or the user if it ends only when it is stopped
		"task list": "", "task show": "order/17", "task drain": "normal:medium --timeout 1ms|1", "task stats": "", "task workers": "", "task watch": "|watcher",
		"task group": "g|3", "task check": "|1", "task dead list": "", "task dead show": "order/17|3", "task config show": "",
		"lock list": "", "lock show": "lock:mutex:job", "schedule list": "",
		"workflow list": "", "workflow show": "order-1", "workflow history": "order-1", "workflow stats": "", "workflow watch": "|watcher", "workflow check": "",
		"workflow schedule list": "", "workflow schedule show": "none|3",
		"board list": "", "board show": uuid, "board watch": "|viewer", "board entities": "", "board stats": "", "board check": "",
		"job list": "", "job show": "JO-1", "job why": "JO-1", "job history": "JO-1", "job chart": "JO-1|1", "job replay": "JO-1 --recipe recipe.json|1", "job watch": "|viewer", "check": "|1",
		"station list": "", "station show": "cell-07", "station diff": "station.yaml|1", "recipe list": "", "recipe show": "WM-1|1",
	}
	names := make(map[string]bool)
	for _, leaf := range leaves(t) {
		path, _, _ := strings.Cut(strings.TrimPrefix(leaf.FullPath(), "takt "), " <")
		if !leaf.Tag.Has("looks") {
			continue
		}
		names[path] = true
		row, ok := shown[path]
		if !ok {
			t.Errorf("%s only looks, and is not tried", path)
			continue
		}
		args, how, _ := strings.Cut(row, "|")
		user := "viewer"
		t.Run(path, func(t *testing.T) {
			do("ACL", "LOG", "RESET")
			var code int
			var said string
			if strings.HasPrefix(how, "v") || strings.HasPrefix(how, "w") {
				user = how
				code, said = untilItWaits(t, srv.Client, user, on(user, path+" "+args))
				how = "0"
			} else {
				var out, errOut string
				code, out, errOut = takt(on(user, path+" "+args)...)
				said = out + errOut
			}
			if want := max(how, "0"); fmt.Sprint(code) != want || strings.Contains(said, "NOPERM") {
				t.Errorf("exit status %d, want %s\n%s", code, want, said)
			}
			denied, err := do("ACL", "LOG").ToArray()
			if err != nil {
				t.Error(err)
			}
			for _, entry := range denied {
				e, _ := entry.AsMap()
				object := e["object"]
				if o, _ := object.ToString(); !strings.HasSuffix(o, ":workflow:shards") && o != "publish" { // of other numbers of shards; what workers see a little later without it
					t.Errorf("Redis denied it %s", o)
				}
			}
		})
	}
	for path := range shown {
		if !names[path] {
			t.Errorf("%s is no command that only looks", path)
		}
	}

	// Whoever may only look is told which right is missing, and which rights there are; the exit status is the same for all causes.
	look, work := "to look, ACL SETUSER NAME "+redis.Rights(prefix, true), "to work, ACL SETUSER NAME "+redis.Rights(prefix, false)
	allow("reader", "~* &* +@read +@connection")
	allow("stranger", redis.Rights("other", true))
	for _, test := range []struct{ user, command, want, next string }{
		{"viewer", "task submit test:Echo [1]", "evalsha", work},
		{"viewer", "board post resize", "evalsha", strings.ReplaceAll(work, prefix, namespace)},
		{"viewer", "task group g --cancel", "evalsha", work},
		{"viewer", "task watch", "(+set ~" + prefix + ":tasks:watched)", look},
		{"viewer", "workflow watch", "(+set ~" + prefix + ":workflow:watched)", look},
		{"reader", "job list", "", look}, {"reader", "task stats", "'time' command", look}, {"reader", "task list", "", look},
		{"reader", "workflow show order-1", "'evalsha_ro' command", look}, {"reader", "lock list", "'evalsha_ro' command", look}, {"reader", "board list", "'time' command", strings.ReplaceAll(look, prefix, namespace)},
		{"stranger", "task stats", "one of the keys", look}, {"stranger", "board list", "one of the keys", strings.ReplaceAll(look, prefix, namespace)},
	} {
		code, out, errOut := takt(on(test.user, test.command)...)
		if test.want == "" && code == exitOK {
			continue // it needs no more
		}
		if code != exitNoAnswer || !strings.Contains(errOut, test.want) || !strings.Contains(errOut, test.next) {
			t.Errorf("takt %s as %s: exit status %d, want %d, %q and %q\n%s%s", test.command, test.user, code, exitNoAnswer, test.want, test.next, out, errOut)
		}
	}

	// No command writes, and no script.
	writing, err := do("COMMAND", "LIST", "FILTERBY", "ACLCAT", "write").AsStrSlice()
	if err != nil || len(writing) < 50 {
		t.Fatal(writing, err)
	}
	for _, command := range append(writing, "eval", "evalsha", "fcall", "fcall_ro", "publish", "config|set", "client|kill", "keys") {
		words := append([]string{"ACL", "DRYRUN", "viewer"}, strings.Split(command, "|")...)
		for len(words) < 12 { // more words than any command of a fixed number has
			said, err := srv.Client.Do(t.Context(), srv.Client.B().Arbitrary(append(words, "x")...).Build()).ToString()
			if words = append(words, "1"); err != nil { // not so many words
				continue
			}
			if !strings.Contains(said, "no permissions to run") {
				t.Errorf("%s: %s", command, said)
			}
			break
		}
	}
	viewer := srv.Connect(t, redis.Options{Username: "viewer", Password: "secret", Prefix: prefix, Looks: true})
	for _, words := range [][]string{{"EVAL_RO", "return redis.call('SET', KEYS[1], 'x')", "1", prefix + ":x"}, {"GET", "other:x"}} {
		if err := viewer.Do(t.Context(), viewer.B().Arbitrary(words...).Build()).Error(); err == nil || rueidis.IsRedisNil(err) {
			t.Errorf("%q is allowed: %v", words, err)
		}
	}
}

// untilItWaits runs a command until its connection waits for news, and then stops it.
func untilItWaits(t *testing.T, rdb rueidis.Client, user string, args []string) (code int, said string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var out, errOut bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		ended <- execute(args, strings.NewReader(""), &out, &errOut, func(_ *cli, a *app) error {
			a.kong.BindTo(ctx, (*context.Context)(nil))
			return a.kong.Run(a)
		})
	}()
	var err error
	testenv.Eventually(t, "it waits for nothing", func() bool {
		select {
		case err = <-ended:
			ended <- err
			return true
		default:
		}
		clients, _ := rdb.Do(ctx, rdb.B().ClientList().Build()).ToString()
		return slices.ContainsFunc(strings.Split(clients, "\n"), func(c string) bool {
			return strings.Contains(c, "user="+user) && (strings.Contains(c, " sub=1 ") || strings.Contains(c, "cmd=xread"))
		})
	})
	stop()
	if err = <-ended; err != nil {
		return exitFailed, out.String() + errOut.String() + err.Error()
	}
	return exitOK, out.String() + errOut.String()
}
