//go:build browser

package console_test

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
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
	{"overview", "/", []string{"Waiting longest", "Last changes", "line-1", "JO-7731"}, false},
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
	{"", "/workflows/schedules", []string{"schedule"}, false},
	{"system", "/system", []string{"Redis", "Check now", "line-1"}, false},
	{"", "/system/dead", []string{"dead"}, false},
	{"search", "/search?q=JO-770", []string{"JO-7701", "JO-7709"}, false},
	{"audit", "/audit", []string{"job.method", "JO-7731", "Pause was carried out."}, false},
	{"login", "/login", []string{"Log in", "Password"}, false},
}

// buttons are what a visitor does by one press: on which page, what it is called, whether a page asks first, and what stands there afterwards.
var buttons = []struct {
	path, press string
	asks        bool
	then        string
}{
	{"/tasks/one?ref={later}", "Run now", false, "running"},
	{"/tasks/schedules", "Pause", false, "Resume"},
	{"/tasks/schedules", "Resume", false, "Pause"},
	{"/tasks", "Pause", false, "Resume"},
	{"/tasks", "Resume", false, "Pause"},
	{"/tasks/dead", "Requeue", false, ""},
	{"/boards/sheets/{posting}", "Give the claim back…", true, ""},
	{"/workflows/{waiting}", "Pause", false, "Resume"},
	{"/workflows/{waiting}", "Resume", false, "Pause"},
	{"/workflows/{waiting}", "Cancel…", true, ""},
	{"/system", "Check now", false, ""},
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

	for _, a := range buttons {
		t.Run("button "+a.press+" of "+a.path, func(t *testing.T) {
			tb := b.open(t, base)
			tb.visit(p.address(a.path))
			tb.press(a.press)
			if a.asks {
				tb.press("Yes, do it")
			}
			tb.shows("#result", "UTC: ")
			if tb.text("#result .done") == "" {
				t.Error(tb.text("#result"))
			}
			tb.shows("main", a.then)
			t.Log(tb.text("#result"))
		})
	}

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
				tb.sound(r.user + ": ")
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
