package console

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// plant is a console with a Redis behind a proxy and a broker at which the test plays Takt.
type plant struct {
	*testing.T
	db      *jobstore.Store // past the proxy
	redis   *testenv.Proxy
	console *Console
	srv     *testenv.RedisServer
	prefix  string
	tasks   *task.Client // past the proxy, as the next
	flows   *workflow.Client
	board   *board.Board
	client  *http.Client
	change  []func(*plant, *Options) // of the console
	token   string                   // that requests carry; "" = none

	mu       sync.Mutex
	commands []string // that the console sent to Redis
	calls    []cloudevent.Event
	answer   string // to the next calls: the body of a reply
}

func newPlant(t *testing.T, change ...func(*plant, *Options)) *plant {
	t.Helper()
	srv, broker := testenv.Redis(t), testenv.Mosquitto(t)
	p := &plant{T: t, client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, answer: `{"ReturnStatus":1}`, change: change}
	prefix := srv.Prefix(t)
	p.srv, p.prefix = srv, prefix
	var err error
	p.db, err = jobstore.Open(t.Context(), jobstore.Options{URL: srv.URL, Prefix: prefix, Instance: "plant", Log: quiet})
	testenv.Must(t, err)
	t.Cleanup(p.db.Close)
	p.tasks, err = task.Open(t.Context(), srv.URL, task.Options{Prefix: prefix, LockPrefix: prefix + ":", Log: quiet})
	testenv.Must(t, err)
	t.Cleanup(p.tasks.Close)
	p.flows, err = workflow.Open(t.Context(), srv.URL, workflow.Options{Prefix: prefix, Log: quiet})
	testenv.Must(t, err)
	t.Cleanup(p.flows.Close)
	p.board, err = board.Open(t.Context(), srv.URL+"?namespace="+prefix+":board")
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, p.board.Close()) })
	p.redis = testenv.CountingProxy(t, srv.URL)
	p.redis.Tap(p.tap)
	p.playTakt(broker.URL)
	p.start(func(ctx context.Context) (*jobstore.Store, error) {
		return jobstore.Open(ctx, jobstore.Options{URL: p.redis.URL, Prefix: prefix, Instance: "console", Looks: true, Log: quiet})
	}, broker.URL)
	p.up("Redis", true)
	p.up("Broker", true)
	return p
}

// start runs a console.
func (p *plant) start(open func(ctx context.Context) (*jobstore.Store, error), broker string) {
	p.Helper()
	client, err := mes.New(mes.Options{MQTT: mqtt.Options{URL: broker, ClientID: "console", Log: quiet}, Log: quiet})
	testenv.Must(p, err)
	o := Options{Listen: "127.0.0.1:0", Hosts: []string{"plant.example:8420"}, Open: open, MES: client, Redis: "redis.example", Broker: "broker.example", Log: quiet}
	if p.redis != nil {
		o.Tasks = func(ctx context.Context) (*task.Client, error) {
			return task.Open(ctx, p.redis.URL, task.Options{Prefix: p.prefix, LockPrefix: p.prefix + ":", Log: quiet})
		}
		o.Workflows = func(ctx context.Context) (*workflow.Client, error) {
			return workflow.Open(ctx, p.redis.URL, workflow.Options{Prefix: p.prefix, Log: quiet})
		}
		o.Boards = []BoardOptions{{"main", "board.example", func(ctx context.Context) (*board.Board, error) {
			return board.Open(ctx, p.redis.URL+"?namespace="+p.prefix+":board")
		}}}
	}
	for _, change := range p.change {
		change(p, &o)
	}
	p.console, err = New(o)
	testenv.Must(p, err)
	testenv.Run(p, p.console.Run)
	p.Cleanup(p.client.CloseIdleConnections)
}

// playTakt answers job methods.
func (p *plant) playTakt(broker string) {
	p.Helper()
	conn := func(id string) *mqtt.Conn {
		c, err := mqtt.New(mqtt.Options{URL: broker, ClientID: id, Log: quiet})
		testenv.Must(p, err)
		return c
	}
	recv, pub := conn("takt"), conn("takt-pub")
	server, err := mqtt.NewServer(recv, pub, mqtt.ServerOptions{Filters: []string{"takt/+/commands"}, Handler: p, Log: quiet, Drain: time.Second})
	testenv.Must(p, err)
	for _, run := range []func(context.Context) error{recv.Run, pub.Run, server.Run} {
		testenv.Run(p, run)
	}
	testenv.Must(p, recv.Ready(testenv.Within(p)))
	testenv.Must(p, pub.Ready(testenv.Within(p)))
}

// Handle is Takt's side of a job method.
func (p *plant) Handle(_ context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, e)
	m, _ := isa95.MethodByTypeID(e.Type)
	reply := e.Reply([]byte(p.answer), m.ResponseSchema(), "urn:takt", time.Now())
	return &reply, nil
}

var commandName = regexp.MustCompile(`\*\d+\r\n\$\d+\r\n([A-Za-z]+)\r\n`)

// tap notes the commands of the console, but for those that wait for changes and those that keep a connection alive.
func (p *plant) tap(fromClient bool, data []byte) {
	if !fromClient {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range commandName.FindAllSubmatch(data, -1) {
		switch name := strings.ToUpper(string(m[1])); name {
		case "XREAD":
			if !strings.Contains(string(data), "BLOCK") {
				p.commands = append(p.commands, name)
			}
		case "PING", "HELLO", "CLIENT", "READONLY", "INFO":
		default:
			p.commands = append(p.commands, name)
		}
	}
}

// sent returns the commands since the last call.
func (p *plant) sent() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := p.commands
	p.commands = nil
	return sent
}

// up waits for what the console says of a server.
func (p *plant) up(name string, up bool) {
	p.Helper()
	testenv.Eventually(p, fmt.Sprintf("%s is up: %v", name, up), func() bool {
		for _, h := range p.overview().Servers {
			if h.Name == name {
				return h.Known && h.Up == up
			}
		}
		return false
	})
}

func (p *plant) overview() (o Overview) {
	p.Helper()
	p.json("/api/v1/overview", &o)
	return o
}

// request sends one; change may be nil.
func (p *plant) request(method, path string, form url.Values, change func(*http.Request)) (status int, header http.Header, body string) {
	p.Helper()
	r, err := http.NewRequestWithContext(testenv.Within(p), method, strings.TrimSuffix(p.console.URL(), "/")+path, strings.NewReader(form.Encode()))
	testenv.Must(p, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if p.token != "" {
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	if change != nil {
		change(r)
	}
	answer, err := p.client.Do(r)
	testenv.Must(p, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	testenv.Must(p, err)
	return answer.StatusCode, answer.Header, string(text)
}

func (p *plant) get(path string, want int) string {
	p.Helper()
	status, _, body := p.request(http.MethodGet, path, nil, nil)
	if status != want {
		p.Fatalf("GET %s: %d, want %d\n%.2000s", path, status, want, body)
	}
	return body
}

func (p *plant) json(path string, to any) {
	p.Helper()
	if err := json.Unmarshal([]byte(p.get(path, http.StatusOK)), to); err != nil {
		p.Fatalf("GET %s: %v", path, err)
	}
}

// commit decides c on what is stored of the order.
func (p *plant) commit(scope isa95.Scope, id string, c jobstore.Change) {
	p.Helper()
	snap, err := p.db.Load(p.Context(), jobstore.Query{JobOrderID: isa95.JobOrderID(id), Scope: scope})
	testenv.Must(p, err)
	c.Now = p.db.Now()
	testenv.Must(p, p.db.Commit(p.Context(), snap, c))
}

// store stores an order in a state.
func (p *plant) store(scope isa95.Scope, order *isa95.JobOrder, state isa95.State) {
	p.Helper()
	c := jobstore.Change{Transition: &jobstore.Transition{Method: isa95.Store, Order: order, State: state}, Source: "urn:mes"}
	if state.Clearable() {
		c.Response = jobstore.NewResponse(&jobstore.StoredOrder{JobOrder: order}, nil, state, p.db.Now())
	}
	p.commit(scope, order.JobOrderID, c)
}

var (
	ready   = isa95.State{Top: isa95.NotAllowedToStart, Sub: isa95.Ready}
	running = isa95.State{Top: isa95.Running}
)

// run stores an order and starts the recipe of the example for it.
func (p *plant) run(scope isa95.Scope, order *isa95.JobOrder) *recipe.Program {
	p.Helper()
	p.store(scope, order, isa95.State{Top: isa95.AllowedToStart, Sub: isa95.Ready})
	text, err := os.ReadFile("../examples/gearbox-cover/recipe.json")
	testenv.Must(p, err)
	program, err := recipe.Compile(text)
	testenv.Must(p, err)
	out := program.Start(recipe.Order{ID: order.JobOrderID}, "WM-1", "start", nil, p.db.InstallationTime())
	p.commit(scope, order.JobOrderID, jobstore.Change{
		Transition: &jobstore.Transition{Method: isa95.Run, State: running},
		Execution:  out.Docs.Execution, Due: out.Due, Recipe: text, Facts: out.Facts,
	})
	return program
}

// stream follows an event stream: the ids of its events.
func (p *plant) stream(path string, last string) <-chan string {
	p.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(p.console.URL(), "/")+path, nil)
	testenv.Must(p, err)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := p.client.Do(r)
	testenv.Must(p, err)
	ids := make(chan string, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(answer.Body)
		for lines.Scan() {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				ids <- id
			}
		}
	}()
	p.Cleanup(func() {
		cancel()
		answer.Body.Close()
		<-done
	})
	if got := answer.Header.Get("Content-Type"); got != "text/event-stream" {
		p.Errorf("content type %s", got)
	}
	return ids
}

var eventsAddress = regexp.MustCompile(`data-events="([^"]*)"`)

// eventsOf is the event stream that a page names.
func (p *plant) eventsOf(page string) string {
	p.Helper()
	m := eventsAddress.FindStringSubmatch(page)
	if m == nil || m[1] == "" {
		p.Fatalf("the page names no event stream:\n%.500s", page)
	}
	return strings.ReplaceAll(m[1], "&amp;", "&")
}

// Refuse answers what cannot be read.
func (p *plant) Refuse(_ context.Context, e cloudevent.Event, why *cloudevent.Error) *cloudevent.Event {
	answer := e.Refusal(why, "urn:takt", time.Now())
	return &answer
}
