//go:build browser

package console_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/taktworks/takt/internal/testenv"
)

var (
	update  = flag.Bool("update", false, "take the pictures of docs/console.md anew")
	look    = flag.String("look", "", "keep a picture of each page on each screen in this folder, for people to look at")
	measure = flag.Bool("measure", false, "measure the way from a commit to the screen, and what 100 open pages cost")
)

// pages are all pages of the console, in the order of docs/console.md.
var pages = []struct {
	name  string // of the picture; "" = none
	path  string // what is in braces is of plant.at
	shows []string
	fails bool // it answers with a problem
}{
	{"overview", "/", []string{"Dead letters of tasks: 3", "Job orders ended", "Workflow instances active", "Waiting longest", "Last changes", "line-1", "JO-7731"}, false},
	{"orders", "/orders", []string{"JO-7701", "Interrupted", "work master"}, false},
	{"", "/orders?state=Ended&sort=since", []string{"Show all", "JO-7701"}, false},
	{"", "/orders?id=nothing", []string{"No order matches."}, false},
	{"order", "/orders/JO-7731", []string{"Why it is in this state", "Resume", "Actions over time", "StoreAndStart"}, false},
	{"", "/orders/JO-7701", []string{"Ended", "torque_nm", "Clear…"}, false},
	{"", "/orders/JO-7724", []string{"Aborted", "force curve left its window"}, false},
	{"method", "/orders/JO-7731/abort", []string{"Abort JO-7731?", "cannot be taken back", "Leave it as it is"}, false},
	{"", "/orders/none", []string{"No job order none is stored"}, true},
	{"runs", "/runs", []string{"recipes in execution", "JO-7731"}, false},
	{"", "/runs?scope=cell-07", []string{"Show all stations"}, false},
	{"stations", "/stations", []string{"cell-07"}, false},
	{"station", "/stations/cell-07", []string{"press-07", "WM-GEARBOX-COVER-3"}, false},
	{"recipes", "/recipes", []string{"WM-GEARBOX-COVER-3", "cell-07"}, false},
	{"recipe", "/recipes/WM-GEARBOX-COVER-3", []string{"AwaitPallet", "cell-07"}, false},
	{"tasks", "/tasks", []string{"label:Print", "scan:Upload", "dead"}, false},
	{"task-list", "/tasks/list", []string{"archive:Pack"}, false},
	{"task", "/tasks/one?ref={delayed}", []string{"label:Print", "GB3-2647-0100", "Run now"}, false},
	{"", "/tasks/one?ref={task}", []string{"printed GB3-2647-0008"}, false},
	{"", "/tasks/one?ref={dead}", []string{"disk quota exceeded", "scan-0411.png"}, false},
	{"dead-letters", "/tasks/dead", []string{"scan:Upload", "disk quota exceeded", "Requeue"}, false},
	{"group", "/tasks/group?id={group}", []string{"2 of 3 done", "Tree"}, false},
	{"schedules", "/tasks/schedules", []string{"report:Shift", "0 6,14,22 * * *"}, false},
	{"locks", "/tasks/locks", []string{"oven-1"}, false},
	{"boards", "/boards", []string{"sheets", "namespace=sheets"}, false},
	{"board", "/boards/sheets", []string{"deburr", "press-line-3"}, false},
	{"posting", "/boards/sheets/{posting}", []string{"S-4400", "press-line-2", "thickness_mm"}, false},
	{"workflows", "/workflows", []string{"shipment-1", "shipment-3"}, false},
	{"workflow", "/workflows/{done}", []string{"shipment-1", "packParcel", "DHL"}, false},
	{"", "/workflows/{waiting}", []string{"shipment-3", "Send signal"}, false},
	{"", "/workflows/schedules", []string{"collect", "MON-FRI"}, false},
	{"system", "/system", []string{"Redis", "Check now", "line-1"}, false},
	{"", "/system/dead", []string{"dead"}, false},
	{"search", "/search?q=JO-770", []string{"JO-7701", "JO-7709"}, false},
	{"audit", "/audit", []string{"job.method", "JO-7731", "Pause was carried out.", "token:dashboard", "the press is cleaned"}, false},
	{"login", "/login", []string{"Log in", "Password"}, false},
}

// buttons are all actions of the console, each pressed once by an admin: its name in the audit, the page with the button, where it sends to, what the form is filled with, whether a page
// asks first, and what stands there afterwards.
var buttons = []struct {
	name, path, to string
	fill           map[string]string
	asks           bool
	then           string
}{
	{"job.method", "/orders/START-1", "/orders/START-1/start", nil, false, "Start was carried out."},
	{"system.check", "/system", "/system/check", nil, false, "The check has begun"},
	{"dead.delete", "/system/dead", "/system/dead/intake:dead/delete", nil, true, "1 dead letter was deleted"},
	{"dead.clear", "/system/dead", "/system/dead/intake:dead/clear", nil, true, "2 dead letters were deleted"},
	{"board.abandon", "/boards/sheets/{posting}", "/boards/sheets/-/abandon", nil, true, "The claim was ended: the posting can be claimed."},
	{"board.trash", "/boards/sheets/{posting2}", "/boards/sheets/-/trash", nil, true, "the posting is in the trash"},
	{"board.restore", "/boards/sheets/{posting2}", "/boards/sheets/-/restore", nil, false, "The posting is on the board again"},
	{"board.purge", "/boards/sheets/{trashed}", "/boards/sheets/-/purge", nil, true, "The posting is deleted."},
	{"workflow.signal", "/workflows/{waiting}", "/workflows/-/signal", map[string]string{"name": "remark", "arg": `"fragile"`}, false, "The signal is in its inbox."},
	{"workflow.pause", "/workflows/{waiting}", "/workflows/-/pause", nil, false, "It is paused"},
	{"workflow.resume", "/workflows/{waiting}", "/workflows/-/resume", nil, false, "It may run again."},
	{"workflow.cancel", "/workflows/{waiting}", "/workflows/-/cancel", nil, true, "It is asked to end."},
	{"workflow.terminate", "/workflows/{waiting2}", "/workflows/-/terminate", nil, true, "It is terminated."},
	{"workflow.remove", "/workflows/{done}", "/workflows/-/remove", nil, true, "It is removed, with its history."},
	{"workflow.queue.pause", "/workflows", "/workflows/queues/pause", nil, false, "No worker takes anything more from queue"},
	{"workflow.queue.resume", "/workflows", "/workflows/queues/resume", nil, false, "Workers take from queue"},
	{"workflow.schedule.run", "/workflows/schedules", "/workflows/schedules/run", nil, false, "What schedule collect starts was started."},
	{"workflow.schedule.pause", "/workflows/schedules", "/workflows/schedules/pause", nil, false, "Schedule collect is paused"},
	{"workflow.schedule.resume", "/workflows/schedules", "/workflows/schedules/resume", nil, false, "Schedule collect goes on with its next slot."},
	{"task.pause", "/tasks", "/tasks/queues/pause", nil, false, "is paused: what runs goes on"},
	{"task.resume", "/tasks", "/tasks/queues/resume", nil, false, "is resumed."},
	{"task.pausetype", "/tasks", "/tasks/types/pause", nil, false, "its tasks are delayed until it is resumed."},
	{"task.resumetype", "/tasks", "/tasks/types/resume", nil, false, "what was delayed runs within a minute."},
	{"task.rate", "/tasks", "/tasks/queues/rate", map[string]string{"rate": "2.5"}, false, "2.5"},
	{"task.run", "/tasks/one?ref={later}", "/tasks/one/run", nil, false, "is due now."},
	{"task.cancel", "/tasks/one?ref={delayed}", "/tasks/one/cancel", nil, true, "cancelled"},
	{"task.requeue", "/tasks/dead?type=scan:Upload", "/tasks/one/requeue", nil, false, "was requeued."},
	{"task.delete", "/tasks/one?ref={dead2}", "/tasks/one/delete", nil, true, "was deleted."},
	{"task.requeueall", "/tasks/dead", "/tasks/dead/all/requeue", nil, true, "2 dead letters were requeued."},
	{"task.cancelgroup", "/tasks/group?id={group}", "/tasks/group/cancel", nil, true, "that have not ended are cancelled."},
	{"schedule.run", "/tasks/schedules", "/tasks/schedules/run", nil, false, "Schedule report:Shift submits a task now"},
	{"schedule.pause", "/tasks/schedules", "/tasks/schedules/pause", nil, false, "Schedule report:Shift is paused"},
	{"schedule.resume", "/tasks/schedules", "/tasks/schedules/resume", nil, false, "Schedule report:Shift is resumed"},
	{"task.deleteall", "/tasks/dead", "/tasks/dead/all/delete", nil, true, "2 dead letters were deleted."},
	{"task.purge", "/tasks", "/tasks/queues/purge", nil, true, "cancelled"},
}

// screens are what each page is looked at on.
var screens = []struct {
	width, height int64
	colors        string
}{
	{1280, 900, "light"}, {1280, 900, "dark"}, {380, 800, "light"}, {3840, 2160, "light"},
}

// A person uses the console of a plant that works: each page on each screen, what changes while it is looked at, buttons, a restart of the console, and all of it without script.
func TestConsole(t *testing.T) {
	p, b := newPlant(t), newBrowser(t)
	base := "http://" + p.listen
	p.work()
	t.Run("sample", func(t *testing.T) { // the next one shows by itself
		tb := b.open(t, base)
		tb.visit("/")
		tb.shows("#verdict", "Dead letters of tasks: 3")
	})
	t.Run("pictures", func(t *testing.T) { p.pictures(t, b) })
	for _, page := range pages {
		path := p.address(page.path)
		t.Run("page "+path, func(t *testing.T) {
			tb := b.open(t, p.base(path))
			for _, s := range screens {
				tb.screen(s.width, s.height, s.colors)
				tb.visit(path)
				if page.fails {
					tb.complaints() // of the status
				}
				for _, text := range page.shows {
					if !strings.Contains(strings.ToLower(tb.text("body")), strings.ToLower(text)) {
						t.Errorf("%d px: %q is not there:\n%.2000s", s.width, text, tb.text("main"))
					}
				}
				if *look != "" {
					name := fmt.Sprintf("%s-%d-%s.png", strings.NewReplacer("/", "_", "?", "_").Replace(path), s.width, s.colors)
					testenv.Must(t, os.WriteFile(filepath.Join(*look, name), tb.picture(s.width, tallest, s.colors), 0o600))
				}
				tb.sound(fmt.Sprintf("%d px, %s: ", s.width, s.colors))
			}
		})
	}

	t.Run("buttons", func(t *testing.T) { p.buttons(t, b) })

	t.Run("live", func(t *testing.T) {
		p.order("JO-7702", "LIVE-1", p.mes.Store)
		tb := b.open(t, base)
		tb.visit("/orders/LIVE-1")
		tb.shows("#head", "NotAllowedToStart")
		tb.press("Start")
		tb.shows("#result", "Start was carried out.")
		tb.shows("#head", "Running")
		tb.shows("#gantt", "place_cover") // from here on all parts are there: they change, and the page stays
		eval[chromedp.Void](tb, "globalThis.stayed = true")
		const after = "✓ Tighten"
		if strings.Contains(tb.text("#chart"), after) {
			t.Error("the station is too fast to be watched")
		}
		tb.shows("#chart", after)
		tb.shows("#gantt", "tighten_cover")
		tb.shows("#head", "Ended")
		tb.shows("#response", "torque_nm")
		if !eval[bool](tb, "globalThis.stayed === true") {
			t.Error("the page was loaded anew")
		}
		tb.sound("")
	})

	t.Run("question", func(t *testing.T) {
		p.order("JO-7702", "ASK-1", p.mes.Store)
		tb := b.open(t, base)
		tb.visit("/orders/ASK-1")
		tb.press("Abort…")
		tb.press("Leave it as it is")
		tb.shows("#head", "NotAllowedToStart")
		tb.press("Abort…")
		run(tb, chromedp.SendKeys(chromedp.CSS("input[name=comment]"), "wrong lot"))
		tb.press("Abort ASK-1")
		tb.shows("#result", "Abort was carried out.")
		tb.shows("#head", "Aborted")
	})

	t.Run("restart", func(t *testing.T) {
		p.order("JO-7702", "BACK-1", p.mes.Store)
		tb := b.open(t, base)
		tb.visit("/orders/BACK-1")
		tb.shows("#head", "NotAllowedToStart")
		eval[chromedp.Void](tb, "globalThis.stayed = true")
		p.console.Kill()
		tb.shows("#lost", "The console does not answer.")
		_, err := p.mes.Abort(testenv.Within(t), cell, "BACK-1")
		testenv.Must(t, err)
		p.startConsole()
		tb.shows("#head", "Aborted")
		testenv.Eventually(t, "the note has gone", func() bool { return tb.text("#lost") == "" })
		if !eval[bool](tb, "globalThis.stayed === true") {
			t.Error("the page was loaded anew")
		}
		for _, f := range tb.complaints() {
			if !strings.Contains(f, "net::ERR_") { // of the time without a console
				t.Error(f)
			}
		}
	})

	t.Run("roles", func(t *testing.T) {
		for _, r := range []struct {
			user                 string
			aborts, purges, sees bool // what the visitor is offered, and whether the audit is shown
		}{
			{"viewer", false, false, false}, {"operator", true, false, false}, {"admin", true, true, true},
		} {
			t.Run(r.user, func(t *testing.T) {
				tb := b.open(t, p.base("/login"))
				tb.visit("/orders")
				tb.shows("h1", "Log in")
				tb.logIn(r.user, "not the password")
				tb.shows("main", "wrong")
				tb.complaints() // of the status
				tb.logIn(r.user, password)
				tb.shows("h1", "Orders")
				tb.shows("header", r.user)
				offers := func(text string) bool { return strings.Contains(tb.text("main"), text) }
				tb.visit("/tasks")
				if offers("Purge…") != r.purges {
					t.Errorf("%s is offered a purge: %v", r.user, !r.purges)
				}
				tb.visit("/orders/JO-7731")
				if offers("Abort…") != r.aborts {
					t.Errorf("%s is offered Abort: %v", r.user, !r.aborts)
				}
				for _, s := range screens {
					tb.screen(s.width, s.height, s.colors)
					tb.sound(fmt.Sprintf("%s, %d px, %s: ", r.user, s.width, s.colors))
				}
				tb.visit("/audit")
				if tb.text("h1") == "Audit" != r.sees {
					t.Errorf("%s sees %q at /audit", r.user, tb.text("h1"))
				}
				tb.complaints() // of the status
				run(tb, chromedp.Click(chromedp.CSS(`form[action="/logout"] button`)))
				tb.shows("h1", "Log in")
			})
		}
	})

	t.Run("no script", func(t *testing.T) {
		p.order("JO-7702", "PLAIN-1", p.mes.Store)
		tb := b.open(t, base)
		call(tb, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		tb.visit("/")
		run(tb, chromedp.Click(chromedp.CSS(`.top nav a[href="/orders"]`)))
		tb.shows("h1", "Orders")
		run(tb, chromedp.SendKeys(chromedp.CSS("input[name=id]"), "PLAIN"))
		tb.press("Show")
		tb.press("PLAIN-1")
		tb.shows("#head", "NotAllowedToStart")
		tb.press("Cancel…")
		tb.press("Cancel PLAIN-1")
		tb.shows("#result", "Cancel was carried out.")
	})

	if *measure {
		t.Run("measure", func(t *testing.T) { p.measure(t, b, base) })
	}
}

// buttons has an admin press each button, and a program with a token read in the audit that it was done.
func (p *plant) buttons(t *testing.T, b *browser) {
	p.spoil()
	var named, actions []string
	for _, m := range regexp.MustCompile(`"The action ([\w.]+)"`).FindAllStringSubmatch(p.get("/api/v1/openapi.json"), -1) {
		actions = append(actions, m[1])
	}
	tb := b.open(t, p.base("/login"))
	tb.visit("/login")
	tb.logIn("admin", password)
	tb.shows("h1", "Overview")
	for _, a := range buttons {
		named = append(named, a.name)
		t.Run(a.name, func(t *testing.T) {
			tb := b.open(t, p.base("/login")) // the session is of the browser
			tb.visit(p.address(a.path))
			if a.path == "/tasks/dead" { // what was requeued dies again
				tb.shows("main", "2 dead letters in all")
			}
			to := p.address(a.to)
			for field, value := range a.fill {
				run(tb, chromedp.SetValue(fmt.Sprintf(`//main//form[@action=%q]//input[@name=%q]`, to, field), value))
			}
			tb.sends(to)
			if a.asks {
				run(tb, chromedp.SetValue(chromedp.CSS("main input[name=reason]"), "why "+a.name))
				tb.press("Yes, do it")
			}
			tb.shows("#result", "UTC: ")
			if tb.text("#result .done") == "" || !strings.Contains(tb.text("#result"), a.then) {
				t.Errorf("got %q, want %q", tb.text("#result"), a.then)
			}
			t.Log(tb.text("#result"))
			_, text := p.program("/audit", p.token, nil)
			var audit struct {
				Entries []struct{ User, Action, Reason string }
			}
			testenv.Must(t, json.Unmarshal([]byte(text), &audit))
			if e := audit.Entries[0]; e.User != "admin" || e.Action != a.name || a.asks && e.Reason != "why "+a.name {
				t.Errorf("the audit has %+v", e)
			}
		})
	}
	run(tb, chromedp.Click(chromedp.CSS(`form[action="/logout"] button`)))
	tb.shows("h1", "Log in")
	slices.Sort(named)
	slices.Sort(actions)
	if actions = slices.Compact(actions); !slices.Equal(named, actions) {
		t.Errorf("the buttons are %q, the actions of the console are %q", named, actions)
	}
	for token, want := range map[string]int{p.token: http.StatusOK, p.token + "x": http.StatusUnauthorized, "": http.StatusUnauthorized} {
		if status, text := p.program("/overview", token, nil); status != want {
			t.Errorf("a program with the token %q gets %d, want %d: %.200s", token, status, want, text)
		}
	}
}

// logIn fills in the form of /login and sends it.
func (tb *tab) logIn(name, password string) {
	tb.Helper()
	run(tb, chromedp.SetValue(chromedp.CSS("main input[name=name]"), name))
	run(tb, chromedp.SendKeys(chromedp.CSS("main input[name=password]"), password))
	tb.press("Log in")
}

// address is a path with what it names in braces.
func (p *plant) address(path string) string {
	for name, value := range p.at {
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
	}
	return path
}
