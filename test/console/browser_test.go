//go:build browser

package console_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/test/rig"
)

// faultsJS says what is wrong with the layout of a page.
//
//go:embed faults.js
var faultsJS string

// axeRun has axe-core judge the page by WCAG 2.2 AA and its own rules of good practice.
const axeRun = `axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r =>
	r.violations.map(v => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + " " + n.failureSummary.replaceAll("\n", " ")).join("; ")))`

// browser is Debian's chromium, for all tests.
type browser struct {
	ctx context.Context
	axe string // the program
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath("/usr/bin/chromium"), chromedp.Flag("hide-scrollbars", true), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("ignore-certificate-errors", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // chromium has none for root
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	testenv.Must(t, chromedp.Do(ctx, chromedp.Navigate("about:blank")))
	axe, err := os.ReadFile(filepath.Join(rig.NPM(t, "../..", "test/console"), "node_modules/axe-core/axe.min.js"))
	testenv.Must(t, err)
	return &browser{ctx, string(axe)}
}

// tab is one page of the browser, and what it complained of.
type tab struct {
	*testing.T
	ctx  context.Context
	axe  string
	base string

	mu     sync.Mutex
	faults []string
}

// open opens a tab, which the end of the test closes. The test fails for everything that the browser complains of, unless it asks for the complaints itself.
func (b *browser) open(t *testing.T, base string) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(b.ctx)
	t.Cleanup(end)
	tb := &tab{T: t, ctx: ctx, axe: b.axe, base: base}
	testenv.Must(t, chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *log.EventEntryAdded:
			tb.note("log: %s %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
		case *runtime.EventExceptionThrown:
			tb.note("exception: %s", e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			for _, a := range e.Args {
				tb.note("console: %s %s %s", e.Type, a.Value, a.Description)
			}
		case *audits.EventIssueAdded:
			if g := e.Issue.Details.GenericIssueDetails; g != nil && g.ErrorType == audits.GenericIssueErrorTypeFormInputAssignedAutocompleteValueToIDOrNameAttributeError {
				return // a hint: a field may be called name
			}
			details, _ := json.Marshal(e.Issue.Details)
			tb.note("issue: %s %s", e.Issue.Code, details)
		}
	}))
	call(tb, log.Enable, cdp.Empty{})
	call(tb, runtime.Enable, cdp.Empty{})
	call(tb, audits.Enable, cdp.Empty{})
	call(tb, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `addEventListener("securitypolicyviolation", e => console.error("policy: " + e.violatedDirective + " " + e.blockedURI))`,
	})
	t.Cleanup(func() {
		for _, f := range tb.complaints() {
			t.Error(f)
		}
	})
	return tb
}

func (tb *tab) note(format string, args ...any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.faults = append(tb.faults, fmt.Sprintf(format, args...))
}

// complaints are those of the browser since the last call.
func (tb *tab) complaints() []string {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	all := tb.faults
	tb.faults = nil
	return all
}

// run carries out an action in the tab.
func run[R any](tb *tab, action chromedp.Action[R]) R {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, testenv.Patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		tb.Fatalf("%v\n%s", err, strings.Join(tb.complaints(), "\n"))
	}
	return value
}

// call sends a command to the tab.
func call[P, R any](tb *tab, command cdp.Command[P, R], params P) {
	tb.Helper()
	run(tb, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, command, params) })
}

// eval is the value of an expression, or of the promise that it is.
func eval[R any](tb *tab, expression string) R {
	tb.Helper()
	return run(tb, chromedp.Evaluate[R](expression, chromedp.EvalAwaitPromise))
}

// screen sets the size of the screen and its colors, light or dark.
func (tb *tab) screen(width, height int64, colors string) {
	tb.Helper()
	call(tb, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
	call(tb, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: colors}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

func (tb *tab) visit(path string) {
	tb.Helper()
	run(tb, chromedp.Navigate(tb.base+path))
}

// text is what a reader sees of an element; "" if it is not there or hidden.
func (tb *tab) text(selector string) string {
	tb.Helper()
	return eval[string](tb, fmt.Sprintf(`(e => e?.checkVisibility() ? e.innerText : "")(document.querySelector(%q))`, selector))
}

// shows waits until a reader sees text in an element.
func (tb *tab) shows(selector, text string) {
	tb.Helper()
	for end := time.Now().Add(testenv.Patience); !strings.Contains(tb.text(selector), text); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("%s: %s does not show %q:\n%.3000s", eval[string](tb, "location.href"), selector, text, tb.text("body"))
		}
	}
}

// press clicks the first button or link of the page's content with a text, and waits for the page that it leads to.
func (tb *tab) press(text string) {
	tb.Helper()
	tb.pressed(fmt.Sprintf(`//main//*[self::button or self::a][normalize-space()=%q]`, text))
}

// sends clicks the first button that sends something to an address, or the link that leads to its question.
func (tb *tab) sends(to string) {
	tb.Helper()
	tb.pressed(fmt.Sprintf(`//main//button[@formaction=%[1]q or not(@formaction) and ancestor::form/@action=%[1]q] | //main//a[starts-with(@href, %[1]q)]`, to))
}

func (tb *tab) pressed(xpath string) {
	tb.Helper()
	eval[chromedp.Void](tb, "globalThis.left = false")
	testenv.Eventually(tb, xpath+" stays until it is clicked", func() bool { // the page may replace it between a look and the click
		ctx, cancel := context.WithTimeout(tb.ctx, testenv.Patience)
		defer cancel()
		_, err := chromedp.Run(ctx, chromedp.Click(xpath))
		if err != nil && !strings.Contains(err.Error(), "Could not find node") {
			tb.Fatal(err)
		}
		return err == nil
	})
	testenv.Eventually(tb, xpath+" leads to a page", func() bool {
		there, err := chromedp.Run(tb.ctx, chromedp.Evaluate[bool](`globalThis.left === undefined && document.readyState === "complete"`))
		return err == nil && there // an error: the page is being left
	})
}

// sound fails the test for what is wrong with the page as it is shown, and says where.
func (tb *tab) sound(where string) {
	tb.Helper()
	for _, f := range eval[[]string](tb, faultsJS) {
		tb.Errorf("%slayout: %s", where, f)
	}
	for _, f := range tb.judged() {
		tb.Errorf("%saxe: %s", where, f)
	}
	for _, f := range tb.complaints() {
		tb.Errorf("%s%s", where, f)
	}
}

// judged is what axe-core finds on the page.
func (tb *tab) judged() []string {
	tb.Helper()
	eval[chromedp.Void](tb, tb.axe+";0")
	return eval[[]string](tb, axeRun)
}

// picture is the page as a PNG of its content, at most so high.
func (tb *tab) picture(width, most int64, colors string) []byte {
	tb.Helper()
	tb.screen(width, 600, colors)
	height := min(most, eval[int64](tb, "document.documentElement.scrollHeight"))
	tb.screen(width, height, colors)
	return run(tb, chromedp.CaptureScreenshot())
}
