//go:build browser

package console_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/taktworks/takt/internal/testenv"
)

// measure prints how long a change takes to the screen, and what open pages cost that nothing changes. It judges nothing.
func (p *plant) measure(t *testing.T, b *browser, base string) {
	p.order("JO-7702", slow, p.mes.StoreAndStart)
	tb := b.open(t, base)
	tb.visit("/orders/" + slow)
	tb.shows("#gantt", "press_bearings") // from here on the page stays
	// When the screen shows a state, in ms since 1970, by the clock of this machine.
	eval[chromedp.Void](tb, `globalThis.seen = {}; new MutationObserver(() => requestAnimationFrame(() => {
		const state = document.querySelector("#head .chip").innerText.split("_")[0];
		globalThis.seen[state] ??= performance.timeOrigin + performance.now();
	})).observe(document.getElementById("head"), { childList: true, subtree: true })`)
	for _, apart := range []time.Duration{time.Second / 2, 0} {
		var command, reply []time.Duration
		for i := range 20 {
			time.Sleep(apart)
			send, state := p.mes.Pause, "Interrupted"
			if i%2 == 1 {
				send, state = p.mes.Resume, "Running"
			}
			eval[chromedp.Void](tb, "globalThis.seen = {}")
			sent := time.Now()
			_, err := send(testenv.Within(t), cell, slow)
			testenv.Must(t, err)
			answered := time.Now()
			tb.shows("#head", state)
			shown := p.shown(tb, state)
			command, reply = append(command, shown.Sub(sent)), append(reply, shown.Sub(answered))
		}
		t.Logf("%v apart, from the command of an MES to the screen: %s", apart, quantiles(command))
		t.Logf("%v apart, from its answer to the screen:            %s", apart, quantiles(reply))
	}
	var button []time.Duration
	for i := range 20 {
		press, state := "Pause", "Interrupted"
		if i%2 == 1 {
			press, state = "Resume", "Running"
		}
		pressed := time.Now()
		tb.press(press)
		tb.shows("#head", state)
		button = append(button, time.Since(pressed))
	}
	t.Logf("from a button to the screen: %s", quantiles(button))

	var bodies []func()
	for i := range 100 {
		page, err := http.Get(base + []string{"/", "/orders", "/orders/" + slow, "/runs"}[i%4])
		testenv.Must(t, err)
		text := new(strings.Builder)
		testenv.Must(t, page.Write(text))
		page.Body.Close()
		_, events, _ := strings.Cut(text.String(), `data-events="`)
		events, _, _ = strings.Cut(events, `"`)
		stream, err := http.Get(base + strings.ReplaceAll(events, "&amp;", "&"))
		testenv.Must(t, err)
		bodies = append(bodies, func() { stream.Body.Close() })
	}
	const watched = 30 * time.Second
	before := p.cpu()
	time.Sleep(watched)
	t.Logf("100 open pages that nothing changes: %.2f %% of a core", 100*(p.cpu()-before).Seconds()/watched.Seconds())
	for _, end := range bodies {
		end()
	}
}

// shown is when the screen showed a state.
func (p *plant) shown(tb *tab, state string) time.Time {
	tb.Helper()
	var ms float64
	testenv.Eventually(tb, "the screen shows "+state, func() bool {
		ms = eval[float64](tb, fmt.Sprintf("globalThis.seen[%q] ?? 0", state))
		return ms > 0
	})
	return time.UnixMicro(int64(ms * 1000))
}

// cpu is how long the console was at work, in ticks of 10 ms.
func (p *plant) cpu() time.Duration {
	p.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.console.PID()))
	testenv.Must(p, err)
	fields := strings.Fields(string(stat))
	user, _ := strconv.Atoi(fields[13])
	system, _ := strconv.Atoi(fields[14])
	return time.Duration(user+system) * 10 * time.Millisecond
}

func quantiles(all []time.Duration) string {
	slices.Sort(all)
	at := func(q float64) time.Duration { return all[int(q*float64(len(all)-1))].Round(time.Millisecond) }
	return fmt.Sprintf("p50 %v, p95 %v, worst %v of %d", at(0.5), at(0.95), at(1), len(all))
}
