//go:build browser

package console_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/workflow"
	"github.com/redis/rueidis"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/test/rig"
	"github.com/taktworks/takt/workflow/goworkflows"
)

const password = "correct horse battery"

const (
	example = "../../examples/gearbox-cover"
	cell    = isa95.Scope("cell-07")
	stuck   = "STUCK-1" // the press answers to neither of these orders
	slow    = "STUCK-2"
	slower  = 8 // times as long as the example does the station take, so that there is something to see
)

var quiet = slog.New(slog.DiscardHandler)

// plant is the real system: takt dev with the example's station, a console in a process of its own, an MES, and programs that use tasks, a board and workflows.
type plant struct {
	*testing.T
	redis, broker string
	takt          string   // path of the binary
	listen        string   // address of the console
	args          []string // of the console
	console       *rig.Process
	guarded       string // address of another console, which speaks TLS and whose users log in
	known         *http.Client
	token         string // of a program with the role admin there
	mes           *mes.Client
	orders        map[isa95.JobOrderID]isa95.JobOrder // of the example
	at            map[string]string                   // what the addresses of pages name in braces
}

func newPlant(t *testing.T) *plant {
	t.Helper()
	srv, err := embedded.StartRedis(t.Context(), embedded.RedisOptions{Dir: t.TempDir(), Persist: true})
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, srv.Stop()) })
	p := &plant{T: t, redis: srv.URL(), broker: testenv.Mosquitto(t).URL, at: make(map[string]string), orders: make(map[isa95.JobOrderID]isa95.JobOrder)}
	p.day()
	p.takt = filepath.Join(t.TempDir(), "takt")
	build := exec.Command("go", "build", "-o", p.takt, "./cmd/takt")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p.listen = fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t, "127.0.0.1"))
	p.args = []string{"console", "--listen", p.listen, "--redis", p.redis, "--mqtt", p.broker, "--board", p.redis + "?namespace=sheets"}

	dev := rig.StartCommand(t, rig.Command{Path: p.takt, Args: []string{"dev", "--instance", "line-1", "--redis", p.redis, "--mqtt", p.broker, "--example", p.station(), "--data", t.TempDir()}})
	dev.Await("Takt is up.")
	p.startConsole()
	p.startGuarded()
	p.mes, err = mes.New(mes.Options{MQTT: mqtt.Options{URL: p.broker, ClientID: "erp", Log: quiet}, Source: "urn:acme:erp", Log: quiet})
	testenv.Must(t, err)
	testenv.Run(t, p.mes.Run)
	lists, err := mes.LoadOrders(filepath.Join(example, "orders.json"))
	testenv.Must(t, err)
	for _, o := range lists[0].JobOrders {
		p.orders[isa95.JobOrderID(o.JobOrderID)] = o
	}
	return p
}

// station is the example with a station that takes its time.
func (p *plant) station() string {
	dir := p.TempDir()
	testenv.Must(p, os.CopyFS(dir, os.DirFS(example)))
	file := filepath.Join(dir, "equipment.yaml")
	text, err := os.ReadFile(file)
	testenv.Must(p, err)
	text = regexp.MustCompile(`(takes: )(\d+)ms\.\.(\d+)ms`).ReplaceAllFunc(text, func(takes []byte) []byte {
		var from, to int
		_, err := fmt.Sscanf(string(takes), "takes: %dms..%dms", &from, &to)
		testenv.Must(p, err)
		return fmt.Appendf(nil, "takes: %dms..%dms", slower*from, slower*to)
	})
	refusal := []byte("    cases:\n      # This cover is scrap")
	if !bytes.Contains(text, refusal) {
		p.Fatal("the press of the example has no cases")
	}
	text = bytes.Replace(text, refusal, append([]byte("    cases:\n      - orders: ["+stuck+", "+slow+"]\n        unanswered: 9999\n"), refusal[len("    cases:\n"):]...), 1)
	testenv.Must(p, os.WriteFile(file, text, 0o600))
	return dir
}

// startConsole starts the console, on the same address each time, and waits until it reaches Redis and the broker.
func (p *plant) startConsole() {
	p.Helper()
	p.console = rig.StartCommand(p, rig.Command{Path: p.takt, Args: p.args})
	p.console.AwaitThat("prints its address", func(out, _ string) bool { return strings.Contains(out, "http://") })
	testenv.Eventually(p, "the console reaches Redis and the broker", func() bool { return strings.Count(p.get("/api/v1/overview"), `"up":true`) == 2 })
}

// startGuarded starts a console with a user and a token of each role, over TLS.
func (p *plant) startGuarded() {
	p.Helper()
	p.guarded = fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(p, "127.0.0.1"))
	dir := p.TempDir()
	users, cert, key := filepath.Join(dir, "users"), filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	roots, certFile, keyFile := testenv.SelfSigned(p, "console.example")
	testenv.Must(p, os.WriteFile(cert, certFile, 0o600))
	testenv.Must(p, os.WriteFile(key, keyFile, 0o600))
	for _, role := range []string{"viewer", "operator", "admin"} {
		p.run(password+"\n", "console", "user", "add", role, "--role", role, "--users", users)
	}
	p.token = p.run("", "console", "token", "add", "dashboard", "--role", "admin", "--users", users)
	p.known = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	args := append(slices.Clone(p.args), "--listen", p.guarded, "--users", users, "--tls-cert", cert, "--tls-key", key)
	rig.StartCommand(p, rig.Command{Path: p.takt, Args: args}).AwaitThat("prints its address", func(out, _ string) bool { return strings.Contains(out, "https://") })
}

// run is what a command of takt prints.
func (p *plant) run(stdin string, args ...string) string {
	p.Helper()
	done := rig.RunCommand(p, rig.Command{Path: p.takt, Args: args, Stdin: stdin})
	if done.Code != 0 {
		p.Fatal(done.Stderr)
	}
	return strings.TrimSpace(done.Stdout)
}

// program is what the guarded console answers a program with a token: a page in JSON, or with a form what became of an action.
func (p *plant) program(path, token string, form url.Values) (status int, text string) {
	p.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(testenv.Within(p), method, "https://"+p.guarded+"/api/v1"+path, strings.NewReader(form.Encode()))
	testenv.Must(p, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := p.known.Do(r)
	testenv.Must(p, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	testenv.Must(p, err)
	return answer.StatusCode, string(body)
}

// base is the address of the console that shows a page: to all, or to users who log in.
func (p *plant) base(path string) string {
	if path == "/login" {
		return "https://" + p.guarded
	}
	return "http://" + p.listen
}

// get is a page of the console; "" while it does not answer.
func (p *plant) get(path string) string {
	answer, err := http.Get("http://" + p.listen + path)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body) // what is missing shows
	return string(text)
}

// day writes the samples of a day, as a process that has run for so long would have: two shifts, an hour in which nothing ran, a few failures.
func (p *plant) day() {
	p.Helper()
	rdb, err := redis.Connect(testenv.Within(p), redis.Options{URL: p.redis, Log: quiet})
	testenv.Must(p, err)
	defer rdb.Close()
	const minutes = 24 * 60
	now := time.Now().UTC()
	var ended, tasks float64
	var commands rueidis.Commands
	for i := range minutes {
		at := now.Add(time.Duration(i-minutes) * time.Minute)
		of := at.Hour()*60 + at.Minute()
		busy := max(0, math.Sin(float64((of-5*60)%(8*60))/(8*60)*math.Pi)) // of a shift, from 5 to 13 and to 21 o'clock
		if of < 5*60 || of >= 21*60 {
			busy = 0.05
		}
		before, died := ended, int64(of/200)
		ended, tasks = ended+0.7*busy, tasks+40*busy*(1+0.3*math.Sin(float64(of)/9))
		if of/60 == 3 {
			continue
		}
		wave := 1 + math.Sin(float64(of)/23)
		sample, err := json.Marshal(map[string]any{ // a sampling.Sample
			"by": "line-1", "instances": 1, "engines": 1, "recipes": int64(6 * busy),
			"orders": map[string]int64{isa95.NotAllowedToStart: 2, isa95.AllowedToStart: int64(8 * busy * wave), isa95.Running: int64(1 + 4*busy)},
			"ended":  int64(ended) - int64(before), "aborted": 1 - min(1, of%430), "waiting_ns": time.Duration(of%310) * time.Minute, "oldest": "JO-7690",
			"backlog":   map[string]any{"work": map[string]any{"entries": int64(5 * busy * wave), "oldest_ns": time.Second}},
			"tasks":     map[string]any{"done": int64(tasks), "failed": died, "waiting": map[string]int64{"background:large": int64(30 * busy * wave)}, "workers": 2},
			"workflows": map[string]int64{"active": int64(2 + 10*busy)},
		})
		testenv.Must(p, err)
		commands = append(commands, rdb.B().Xadd().Key(keys.New("takt").Samples()).Id(fmt.Sprintf("%d-0", at.UnixMilli())).FieldValue().FieldValue("s", string(sample)).Build())
	}
	for _, reply := range rdb.DoMulti(testenv.Within(p), commands...) {
		testenv.Must(p, reply.Error())
	}
}

// order sends an order of the example under an id of its own.
func (p *plant) order(like, id isa95.JobOrderID, send func(context.Context, isa95.Scope, *isa95.JobOrder) (isa95.ReturnStatus, error)) {
	p.Helper()
	o := p.orders[like]
	o.JobOrderID = string(id)
	_, err := send(testenv.Within(p), cell, &o)
	testenv.Must(p, err)
}

// state waits until an order is in a state.
func (p *plant) state(id isa95.JobOrderID, want string) {
	p.Helper()
	testenv.Eventually(p, fmt.Sprintf("%s is %s", id, want), func() bool { return strings.Contains(p.get("/api/v1/orders/"+string(id)), `"state":"`+want) })
}

// work gives the plant something to do, so that each page has something to show.
func (p *plant) work() {
	p.Helper()
	for id, o := range p.orders {
		if id < "JO-7713" || id == "JO-7724" { // one of these is scrap
			_, err := p.mes.StoreAndStart(testenv.Within(p), cell, &o)
			testenv.Must(p, err)
		}
	}
	p.order("JO-7730", "JO-7730", p.mes.Store)
	p.order("JO-7729", stuck, p.mes.StoreAndStart)
	p.order("JO-7731", "JO-7731", p.mes.StoreAndStart)
	testenv.Eventually(p, "JO-7731 is on the press", func() bool { return strings.Contains(p.get("/orders/JO-7731"), "press_bearings: command") })
	for _, deed := range []struct{ path, queue, rate, reason string }{ // by the console, whose audit has them
		{"/orders/JO-7731/pause", "", "", "the press is cleaned"},
		{"/tasks/queues/rate", "background:large", "5", "the archive is slow in the morning"},
		{"/system/check", "", "", ""},
	} {
		if status, text := p.program(deed.path, p.token, url.Values{"queue": {deed.queue}, "rate": {deed.rate}, "reason": {deed.reason}}); status != http.StatusOK {
			p.Fatalf("%s: %d %s", deed.path, status, text)
		}
	}
	p.state("JO-7731", "Interrupted")
	p.tasks()
	p.board()
	p.workflows()
	p.state("JO-7724", "Aborted")
	p.state("JO-7701", "Ended")
}

// spoil adds what only buttons need: an order that waits for its start, and two dead letters of job orders.
func (p *plant) spoil() {
	p.Helper()
	p.order("JO-7702", "START-1", p.mes.Store)
	rdb, err := redis.Connect(testenv.Within(p), redis.Options{URL: p.redis, Log: quiet})
	testenv.Must(p, err)
	defer rdb.Close()
	for range 3 {
		letter := rdb.B().Xadd().Key(keys.New("takt").IntakeDead()).Id("*").FieldValue().FieldValue("error", "the answer names no command").Build()
		testenv.Must(p, rdb.Do(testenv.Within(p), letter).Error())
	}
}

// Types of the tasks of the plant.
var (
	print   = task.Define[string, string]("label:Print", task.Small)
	upload  = task.Define[string, task.None]("scan:Upload", task.Retry(task.Backoff{Base: time.Millisecond, Retries: 1}))
	bake    = task.Define[int, int]("oven:Bake", task.ExclusiveBy(func(oven int) []string { return []string{fmt.Sprint("oven-", oven)} }))
	pack    = task.Define[string, task.None]("archive:Pack", task.Background) // no worker handles it
	shift   = task.Define[struct{}, task.None]("report:Shift", task.Cron("0 6,14,22 * * *"))
	inform  = task.Define[string, task.None]("report:Inform")
	errDown = errors.New("the archive server refused the scan: disk quota exceeded")
)

func (p *plant) tasks() {
	p.Helper()
	c, err := task.Open(testenv.Within(p), p.redis, task.Options{Log: quiet})
	testenv.Must(p, err)
	p.Cleanup(c.Close)
	none := func(context.Context, *task.Job[string]) (none task.None, _ error) { return }
	worker, err := c.Worker(task.WorkerOptions{},
		print.Handle(func(_ context.Context, j *task.Job[string]) (string, error) { return "printed " + j.Args, nil }),
		upload.Handle(func(context.Context, *task.Job[string]) (none task.None, _ error) { return none, errDown }),
		bake.Handle(func(ctx context.Context, _ *task.Job[int]) (int, error) { <-ctx.Done(); return 0, context.Cause(ctx) }),
		shift.Handle(func(context.Context, *task.Job[struct{}]) (none task.None, _ error) { return }), inform.Handle(none))
	testenv.Must(p, err)
	testenv.Run(p, worker.Run)
	scheduler, err := c.Scheduler(task.SchedulerOptions{}, shift)
	testenv.Must(p, err)
	testenv.Run(p, scheduler.Run)
	ctx := testenv.Within(p)
	var last *task.Handle[string]
	for i := range 8 {
		last, err = print.Submit(ctx, c, fmt.Sprintf("GB3-2647-%04d", i+1))
		testenv.Must(p, err)
	}
	dead, err := upload.SubmitMany(ctx, c, []string{"scan-0411.png", "scan-0412.png", "scan-0413.png"})
	testenv.Must(p, err)
	_, err = bake.SubmitMany(ctx, c, []int{1, 1, 2})
	testenv.Must(p, err)
	_, err = pack.SubmitMany(ctx, c, []string{"2026-10", "2026-11"})
	testenv.Must(p, err)
	later, err := print.Submit(ctx, c, "GB3-2647-0100", task.In(90*time.Minute))
	testenv.Must(p, err)
	third, err := bake.Submit(ctx, c, 3, task.In(90*time.Minute))
	testenv.Must(p, err)
	group, err := task.Spawn(ctx, c, []task.Pending{print.With("north"), print.With("south"), pack.With("2026-09")}, inform.With("all is packed"))
	testenv.Must(p, err)
	_, err = last.Await(ctx)
	testenv.Must(p, err)
	for _, d := range dead {
		if _, err := d.Await(ctx); err == nil {
			p.Fatal("a scan was uploaded")
		}
	}
	p.at["task"], p.at["delayed"], p.at["later"], p.at["dead"], p.at["dead2"], p.at["group"] = last.ID, later.ID, third.ID, dead[0].ID, dead[1].ID, group.ID
}

func (p *plant) board() {
	p.Helper()
	url := p.redis + "?namespace=sheets"
	b, err := board.Open(testenv.Within(p), url)
	testenv.Must(p, err)
	p.Cleanup(func() { testenv.Must(p, b.Close()) })
	ctx := testenv.Within(p)
	release, err := b.RegisterEntity(ctx, board.Entity{Kind: "conductor", Name: "press-line-2"})
	testenv.Must(p, err)
	p.Cleanup(func() { testenv.Must(p, release(context.WithoutCancel(ctx))) })
	var drafts []board.Draft
	for i := range 7 {
		drafts = append(drafts, board.Draft{Name: "deburr", Priority: []board.Priority{board.Normal, board.High}[i%2], Details: map[string]any{"sheet": fmt.Sprintf("S-%d", 4400+i), "thickness_mm": 2.5}})
	}
	all, err := b.PostBatch(ctx, drafts)
	testenv.Must(p, err)
	for i, posting := range all[:3] {
		claim, err := b.Claim(ctx, posting, []string{"press-line-2", "press-line-3", "inspection"}[i], board.ClaimOptions{})
		testenv.Must(p, err)
		if i == 2 {
			testenv.Must(p, claim.Trash(ctx))
		}
	}
	p.at["posting"], p.at["posting2"], p.at["trashed"] = all[0].UUID, all[1].UUID, all[2].UUID
}

// shipment packs, waits for the carrier, and ships.
func shipment(ctx workflow.Context, order string) (string, error) {
	parcel, err := workflow.ExecuteActivity[string](ctx, workflow.DefaultActivityOptions, packParcel, order).Get(ctx)
	if err != nil {
		return "", err
	}
	if err := workflow.Sleep(ctx, 400*time.Millisecond); err != nil {
		return "", err
	}
	carrier, _ := workflow.NewSignalChannel[string](ctx, "carrier").Receive(ctx)
	return workflow.ExecuteActivity[string](ctx, workflow.DefaultActivityOptions, ship, parcel, carrier).Get(ctx)
}

func packParcel(_ context.Context, order string) (string, error) { return "parcel of " + order, nil }

func ship(_ context.Context, parcel, carrier string) (string, error) {
	if carrier == "" {
		return "", workflow.NewPermanentError(errors.New("no carrier takes parcels of 40 kg"))
	}
	return parcel + " by " + carrier, nil
}

func (p *plant) workflows() {
	p.Helper()
	b, err := goworkflows.Open(testenv.Within(p), p.redis+"?prefix=takt", backend.WithLogger(quiet))
	testenv.Must(p, err)
	ctx, stop := context.WithCancel(context.Background())
	w := goworkflows.NewWorker(b, nil)
	testenv.Must(p, w.RegisterWorkflow(shipment))
	testenv.Must(p, w.RegisterActivity(packParcel))
	testenv.Must(p, w.RegisterActivity(ship))
	testenv.Must(p, w.Start(ctx))
	p.Cleanup(func() {
		stop() // first the worker, then what it works on
		testenv.Must(p, w.WaitForCompletion())
		testenv.Must(p, b.Close())
	})
	c := client.New(b)
	for i := range 4 {
		id := fmt.Sprint("shipment-", i+1)
		instance, err := c.CreateWorkflowInstance(ctx, client.WorkflowInstanceOptions{InstanceID: id}, shipment, fmt.Sprint("SO-88", i))
		testenv.Must(p, err)
		if i > 1 { // two go on waiting
			continue
		}
		testenv.Must(p, c.SignalWorkflow(ctx, id, "carrier", []string{"DHL", ""}[i]))
		testenv.Must(p, c.WaitForWorkflowInstance(ctx, instance, testenv.Patience))
	}
	p.at["done"], p.at["waiting"], p.at["waiting2"] = "shipment-1", "shipment-3", "shipment-4"
	_, err = c.CreateWorkflowInstance(ctx, client.WorkflowInstanceOptions{InstanceID: "shipment-5", Queue: "heavy"}, shipment, "SO-884") // no worker takes it
	testenv.Must(p, err)
	nightly := goworkflows.ScheduleOptions{}
	nightly.InstanceID = "collect"
	testenv.Must(p, b.Schedule(ctx, "cron TZ=Europe/Berlin 30 17 * * MON-FRI", nightly, shipment, "SO-all"))
}
