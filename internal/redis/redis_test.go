package redis_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, testenv.LibraryGoroutines()...) }

func connect(t *testing.T, o redis.Options) (rueidis.Client, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	rdb, err := redis.Connect(ctx, o)
	if err == nil {
		t.Cleanup(rdb.Close)
	}
	return rdb, err
}

func TestConnectLeavesNothingBehind(t *testing.T) {
	srv := testenv.Redis(t)
	for _, o := range []redis.Options{{}, {RESP2: true}, {Prefix: "takt"}, {Prefix: "{takt}"}} {
		o.URL = srv.URL
		if _, err := connect(t, o); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if keys, err := srv.AllKeys(t.Context()); err != nil || len(keys) != 0 {
		t.Errorf("keys left: %q, %v", keys, err)
	}
}

// More who block at once than the library allows for if nothing is said: each has a connection to itself, and none waits for another's.
func TestManyDedicatedConnections(t *testing.T) {
	long.Test(t, "opens a thousand connections")
	srv := testenv.Redis(t)
	rdb, err := connect(t, redis.Options{URL: srv.URL, DialTimeout: testenv.Patience}) // a thousand at once take their time
	testenv.Must(t, err)
	const n = rueidis.DefaultPoolSize + 10
	all := make(chan error, n)
	hold := make(chan struct{})
	var held sync.WaitGroup
	for range n {
		held.Go(func() {
			conn, release := rdb.Dedicate()
			defer release()
			err := conn.Do(t.Context(), rdb.B().Ping().Build()).Error()
			for redis.Away(err) && t.Context().Err() == nil { // so many at once take longer than one answer may
				err = conn.Do(t.Context(), rdb.B().Ping().Build()).Error()
			}
			all <- err
			<-hold
		})
	}
	late := time.After(testenv.Patience)
	for i := range n {
		select {
		case err := <-all:
			if err != nil {
				t.Errorf("connection %d: %v", i, err)
			}
		case <-late:
			close(hold)
			t.Fatalf("%d of %d have a connection, the others wait", i, n)
		}
	}
	close(hold)
	held.Wait()
}

// A Redis without a port, in a bubble: its clock is that of the bubble, and keys expire by it.
func TestConnectPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, stop := embedded.Pipe()
		t.Cleanup(stop)
		rdb, err := connect(t, redis.Options{URL: "redis://pipe", Embedded: true, Dial: dial})
		testenv.Must(t, err)
		testenv.Must(t, rdb.Do(t.Context(), rdb.B().Set().Key("k").Value("v").Px(time.Hour).Build()).Error())
		for _, exists := range []bool{true, false} {
			n, err := rdb.Do(t.Context(), rdb.B().Exists().Key("k").Build()).AsBool()
			now, failed := redis.ServerTime(t.Context(), rdb)
			if err != nil || n != exists || failed != nil || !now.Equal(time.Now()) {
				t.Errorf("at %v the server says %v, %v, %v, %v", time.Now(), now, failed, n, err)
			}
			time.Sleep(time.Hour)
		}
	})
	refused := errors.New("no more pipes")
	if _, err := connect(t, redis.Options{URL: "redis://pipe", Embedded: true, Dial: func() (net.Conn, error) { return nil, refused }}); !errors.Is(err, refused) {
		t.Errorf("%v, want %v", err, refused)
	}
}

func TestDatabaseNumber(t *testing.T) {
	srv := testenv.Redis(t)
	rdb, err := connect(t, redis.Options{URL: srv.URL + "/3"})
	testenv.Must(t, err)
	testenv.Must(t, rdb.Do(t.Context(), rdb.B().Set().Key("elsewhere").Value("v").Build()).Error())
	if keys, err := srv.AllKeys(t.Context()); err != nil || len(keys) != 0 {
		t.Errorf("database 0 holds %q, %v", keys, err)
	}
}

func TestUnixSocket(t *testing.T) {
	s, err := embedded.StartRedis(t.Context(), embedded.RedisOptions{Socket: true})
	testenv.Must(t, err)
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	if _, err := connect(t, redis.Options{URL: s.URL()}); err != nil {
		t.Error(err)
	}
}

// Every refusal names the server and the next step, and none names the password.
func TestRefusals(t *testing.T) {
	long.Test(t, "runs a cluster")
	secured := testenv.StartRedis(t, embedded.RedisOptions{Password: "hunter2"})
	cluster := testenv.RedisCluster(t).URL
	down, err := embedded.StartRedis(t.Context(), embedded.RedisOptions{Dir: t.TempDir(), Config: []string{"cluster-enabled yes"}}) // it has no slots
	testenv.Must(t, err)
	t.Cleanup(func() {
		if err := down.Stop(); err != nil {
			t.Error(err)
		}
	})
	replica := testenv.Redis(t)
	testenv.Must(t, replica.Client.Do(t.Context(), replica.Client.B().Replicaof().Host("127.0.0.1").Port(1).Build()).Error())
	denied := testenv.Redis(t)
	for _, user := range [][]string{{"part", "on", ">hunter2", "~*", "+@all", "-xclaim"}, {"none", "on", ">hunter2", "~*", "-@all", "+exists"}} {
		testenv.Must(t, denied.Client.Do(t.Context(), denied.Client.B().AclSetuser().Username(user[0]).Rule(user[1:]...).Build()).Error())
	}
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	for name, c := range map[string]struct {
		o    redis.Options
		says []string
	}{
		"nobody listens":     {redis.Options{URL: "redis://u:hunter2@127.0.0.1:1"}, []string{"127.0.0.1:1", "nothing listens", "--redis"}},
		"no Redis":           {redis.Options{URL: "redis://u:hunter2@" + web.Listener.Addr().String()}, []string{"does not answer as Redis"}},
		"no such socket":     {redis.Options{URL: "unix:///nowhere/redis.sock"}, []string{"/nowhere/redis.sock", "nothing listens"}},
		"no such host":       {redis.Options{URL: "redis://u:hunter2@no-such-host.invalid"}, []string{"no-such-host.invalid", "does not resolve"}},
		"wrong password":     {redis.Options{URL: "redis://:hunter2x@" + secured.Addr}, []string{secured.Addr, "refuses the user name or password"}},
		"no password":        {redis.Options{URL: "redis://" + secured.Addr}, []string{"refuses the user name or password"}},
		"unknown user":       {redis.Options{URL: "redis://nobody:hunter2@" + denied.Addr}, []string{"refuses the user name or password"}},
		"no such database":   {redis.Options{URL: denied.URL + "/99"}, []string{"no database of that number"}},
		"cluster, no prefix": {redis.Options{URL: cluster}, []string{"cluster", "{takt}"}},
		"cluster, untagged":  {redis.Options{URL: cluster, Prefix: "plant"}, []string{`"plant"`, "hash tag", "{plant}"}},
		"cluster, database":  {redis.Options{URL: cluster + "/2", Prefix: "{takt}"}, []string{"database"}},
		"cluster, down":      {redis.Options{URL: down.URL(), Prefix: "{takt}"}, []string{"cluster that is down", "CLUSTERDOWN", "start again"}},
		"replica":            {redis.Options{URL: replica.URL}, []string{"replica", "master"}},
		"command denied":     {redis.Options{URL: "redis://part:hunter2@" + denied.Addr, Prefix: "p"}, []string{"XCLAIM", "ACL SETUSER", "p:*"}},
		"scripts denied":     {redis.Options{URL: "redis://none:hunter2@" + denied.Addr}, []string{"denies", "+@all"}},
		"TLS expected":       {redis.Options{URL: "rediss://:hunter2@" + denied.Addr, DialTimeout: 100 * time.Millisecond}, []string{"in time", "redis://"}},
		"no sentinel":        {redis.Options{URL: "redis+sentinel://:hunter2@127.0.0.1:1/mymaster"}, []string{"mymaster", "nothing listens"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := connect(t, c.o)
			if err == nil {
				t.Fatal("connected")
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
			if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, "hunter2") {
				t.Errorf("the password is in %q", text)
			}
			var e *redis.Error
			if !errors.As(err, &e) || e.Fix == "" || e.Server == "" {
				t.Errorf("%#v is no *Error with a next step", err)
			}
		})
	}
}

func TestClusterWithTag(t *testing.T) {
	long.Test(t, "runs a cluster")
	rdb, err := connect(t, redis.Options{URL: testenv.RedisCluster(t).URL, Prefix: "{takt}"})
	testenv.Must(t, err)
	if rdb.Mode() != rueidis.ClientModeCluster {
		t.Errorf("mode %s", rdb.Mode())
	}
	one := script.New("test/one", "return KEYS[1] .. KEYS[2]")
	if s, err := one.Run(t.Context(), rdb, []string{"{takt}:a", "{takt}:b"}).ToString(); err != nil || s != "{takt}:a{takt}:b" {
		t.Errorf("%q, %v", s, err)
	}
	if err := one.Run(t.Context(), rdb, []string{"{takt}:a", "b"}).Error(); !errors.Is(err, script.ErrCrossSlot) {
		t.Errorf("two slots: %v, want ErrCrossSlot", err)
	}
}

// Any one node is enough to find the one that has the keys of a prefix.
func TestClusterOfThree(t *testing.T) {
	long.Test(t, "runs a cluster")
	c := testenv.RedisCluster(t)
	for _, prefix := range []string{"{a}", "{b}", "{c}"} { // slots 15495, 3300, 7365: one of each third
		for node := range c.Client.Nodes() {
			rdb, err := connect(t, redis.Options{URL: "redis://" + node, Prefix: prefix})
			testenv.Must(t, err)
			if err := rdb.Do(t.Context(), rdb.B().Exists().Key(prefix+":a", prefix+":b").Build()).Error(); err != nil {
				t.Error(err)
			}
		}
	}
}

// A script the server has forgotten is sent again.
func TestScriptAfterFlush(t *testing.T) {
	srv := testenv.Redis(t)
	p := testenv.CountingProxy(t, srv.URL)
	rdb := srv.Connect(t, redis.Options{URL: p.URL})
	s := script.New("test/args", "return {KEYS[1], ARGV[1]}")
	run := func(trips int) {
		t.Helper()
		p.Reset()
		got, err := s.Run(t.Context(), rdb, []string{"k"}, "v").AsStrSlice()
		if err != nil || len(got) != 2 || got[0] != "k" || got[1] != "v" {
			t.Errorf("%q, %v", got, err)
		}
		if p.Trips() != trips {
			t.Errorf("%d round trips, want %d", p.Trips(), trips)
		}
	}
	run(2)
	run(1)
	testenv.Must(t, rdb.Do(t.Context(), rdb.B().ScriptFlush().Build()).Error())
	run(2)
	if s.Name() != "test/args" || s.Source() == "" {
		t.Error("name or source lost")
	}
}

// Many runs of a script that the server does not know take one round trip more than those of one that it knows. On a cluster all nodes learn it.
func TestManyRunsOfAnUnknownScript(t *testing.T) {
	long.Test(t, "runs a cluster")
	srv := testenv.Redis(t)
	p := testenv.CountingProxy(t, srv.URL)
	rdb := srv.Connect(t, redis.Options{URL: p.URL})
	s := script.New("test/many", "return {KEYS[1], ARGV[1]}")
	run := func(rdb rueidis.Client) {
		t.Helper()
		var calls []script.Call
		for i := range 100 {
			calls = append(calls, script.Call{Keys: []string{fmt.Sprintf("{%c}", 'a'+i%3)}, Args: []string{strconv.Itoa(i)}})
		}
		for i, r := range s.RunMulti(t.Context(), rdb, calls) {
			if got, err := r.AsStrSlice(); err != nil || !slices.Equal(got, []string{calls[i].Keys[0], calls[i].Args[0]}) {
				t.Errorf("run %d: %q, %v", i, got, err)
			}
		}
	}
	for _, want := range []int{2, 1} {
		p.Reset()
		if run(rdb); p.Trips() != want {
			t.Errorf("%d round trips, want %d", p.Trips(), want)
		}
	}
	run(testenv.RedisCluster(t).Client) // slots 15495, 3300, 7365: one of each third
}

func TestWaitsForLoading(t *testing.T) {
	long.Test(t, "waits for Redis to load its data")
	srv := testenv.StartRedis(t, embedded.RedisOptions{Persist: true, Config: []string{"enable-debug-command yes", "key-load-delay 500", "loading-process-events-interval-bytes 1024"}})
	prefix := srv.Prefix(t)
	for i := range 2000 {
		testenv.Must(t, srv.Client.Do(t.Context(), srv.Client.B().Set().Key(fmt.Sprintf("%s:%d", prefix, i)).Value("v").Build()).Error())
	}
	done := srv.Server.Done()
	if err := srv.Client.Do(t.Context(), srv.Client.B().Shutdown().Build()).Error(); err == nil {
		t.Fatal("an answer to SHUTDOWN")
	}
	<-done // with all its data on disk, which a kill does not promise
	restarted := make(chan error, 1)
	go func() { restarted <- srv.Server.Restart(t.Context()) }()
	var rdb rueidis.Client
	for { // refused until it listens, then loading: Connect waits only for the latter
		var err error
		if rdb, err = connect(t, redis.Options{URL: srv.URL}); err == nil {
			break
		}
		if !redis.Away(err) {
			t.Fatal(err)
		}
	}
	if n, err := rdb.Do(t.Context(), rdb.B().Dbsize().Build()).AsInt64(); err != nil || n != 2000 {
		t.Errorf("%d keys, %v", n, err)
	}
	if err := <-restarted; err != nil {
		t.Error(err)
	}
}

func TestAway(t *testing.T) {
	srv := testenv.Redis(t)
	p := testenv.CountingProxy(t, srv.URL)
	rdb := srv.Connect(t, redis.Options{URL: p.URL})
	do := func(ctx context.Context) error { return rdb.Do(ctx, rdb.B().Get().Key("k").Build()).Error() }

	p.LoseReplies(1)
	if err := do(t.Context()); !redis.Away(err) {
		t.Errorf("connection cut: %v", err)
	}
	p.Stall(true)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := do(ctx); !redis.Away(err) {
		t.Errorf("no answer: %v", err)
	}
	p.Stall(false)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := do(ctx); err == nil || redis.Away(err) {
		t.Errorf("the caller gave up: %v", err)
	}
	testenv.Must(t, srv.Server.Kill())
	if err := do(t.Context()); !redis.Away(err) {
		t.Errorf("server killed: %v", err)
	}
	if !redis.Away(fmt.Errorf("turning to another master: %w", rueidis.ErrClosing)) {
		t.Error("a connection that the library gave up is away, too")
	}
	for _, err := range []error{nil, errors.New("other"), rueidis.Nil} {
		if redis.Away(err) {
			t.Errorf("%v is not away", err)
		}
	}
}

func TestTLS(t *testing.T) {
	srv := testenv.Redis(t)
	ca, cert, key, addr := tlsFront(t, srv.Addr)
	for name, c := range map[string]struct {
		o    redis.Options
		says string // "" = connects
	}{
		"with CA and certificate": {redis.Options{CAFile: ca, CertFile: cert, KeyFile: key}, ""},
		"unknown authority":       {redis.Options{CertFile: cert, KeyFile: key}, "CA file"},
		"other name":              {redis.Options{CAFile: ca, CertFile: cert, KeyFile: key, ServerName: "elsewhere"}, "another name"},
		"certificate without key": {redis.Options{CAFile: ca, CertFile: cert}, "both files"},
		"missing CA file":         {redis.Options{CAFile: "/nowhere.pem"}, "/nowhere.pem"},
		"key as CA":               {redis.Options{CAFile: key}, "no PEM certificate"},
		"no client certificate":   {redis.Options{CAFile: ca}, "client certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.URL = "rediss://" + addr
			_, err := connect(t, c.o)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
	if _, err := connect(t, redis.Options{URL: "redis://" + addr}); err == nil || !strings.Contains(err.Error(), "rediss://") {
		t.Errorf("plain client: %v", err)
	}
	if _, err := connect(t, redis.Options{URL: srv.URL, CAFile: ca}); err == nil || !strings.Contains(err.Error(), "rediss://") {
		t.Errorf("files without TLS: %v", err)
	}
}

// tlsFront speaks TLS for a server that does not, and asks clients for a certificate.
func tlsFront(t *testing.T, target string) (caFile, certFile, keyFile, addr string) {
	t.Helper()
	a := newAuthority(t)
	certFile, keyFile = a.pair(t, "127.0.0.1")
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	testenv.Must(t, err)
	ca, err := os.ReadFile(a.file)
	testenv.Must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})
	testenv.Must(t, err)
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if c.(*tls.Conn).HandshakeContext(t.Context()) != nil {
					return
				}
				s, err := net.Dial("tcp", target)
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(s, c); s.Close() }()
				_, _ = io.Copy(c, s)
			}()
		}
	}()
	return a.file, certFile, keyFile, l.Addr().String()
}

// Scan finds what begins with a prefix, letters of patterns in it included, page by page, on one server and on a cluster; an error of the caller ends it.
func TestScan(t *testing.T) {
	long.Test(t, "runs a cluster")
	for name, srv := range map[string]*testenv.RedisServer{"redis": testenv.Redis(t), "cluster": testenv.RedisCluster(t)} {
		t.Run(name, func(t *testing.T) {
			prefix := srv.TaggedPrefix(t)
			odd := prefix + `:[a]*?\`
			for i := range 2500 {
				srv.Client.Do(t.Context(), srv.Client.B().Set().Key(odd+strconv.Itoa(i)).Value("x").Build())
			}
			srv.Client.Do(t.Context(), srv.Client.B().Set().Key(prefix+":axx").Value("x").Build())
			found, pages := map[string]bool{}, 0
			err := redis.Scan(t.Context(), srv.Client, redis.Glob(odd)+"*", func(keys []string) error {
				pages++
				for _, k := range keys {
					found[k] = true
				}
				return nil
			})
			if err != nil || len(found) != 2500 || pages < 2 || found[prefix+":axx"] {
				t.Errorf("%d keys in %d pages, %v", len(found), pages, err)
			}
			enough := errors.New("enough")
			pages = 0
			if err := redis.Scan(t.Context(), srv.Client, redis.Glob(odd)+"*", func([]string) error { pages++; return enough }); !errors.Is(err, enough) || pages != 1 {
				t.Errorf("%v after %d pages, want the error of the first", err, pages)
			}
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			if err := redis.Scan(gone, srv.Client, "*", func([]string) error { return nil }); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want that the context has ended", err)
			}
		})
	}
}

// A right that a script lacks is Denied, whichever way the server says so: on the way to the script or within it.
func TestDeniedInScript(t *testing.T) {
	srv := testenv.Redis(t)
	run := func() error {
		return srv.Client.Do(t.Context(), srv.Client.B().Eval().Script("return redis.call('SET', KEYS[1], 'v')").Numkeys(1).Key("k").Build()).Error()
	}
	for _, right := range []string{"set", "eval"} {
		testenv.Must(t, srv.Client.Do(t.Context(), srv.Client.B().Arbitrary("ACL", "SETUSER", "default", "-"+right).Build()).Error())
		if err := run(); !redis.Denied(err) || !redis.Waits(err) || redis.Unknown(err) || !strings.HasPrefix(redis.Reason(err), "Redis refuses") && !strings.HasPrefix(redis.Reason(err), "Redis denies") {
			t.Errorf("without %s: %v, denied %v, unknown %v, reason %q", right, err, redis.Denied(err), redis.Unknown(err), redis.Reason(err))
		}
		testenv.Must(t, srv.Client.Do(t.Context(), srv.Client.B().Arbitrary("ACL", "SETUSER", "default", "+"+right).Build()).Error())
	}
	err := srv.Client.Do(t.Context(), srv.Client.B().Eval().Script("this is no Lua").Numkeys(0).Build()).Error()
	if redis.Denied(err) || !redis.Unknown(err) {
		t.Errorf("%v: denied %v, unknown %v", err, redis.Denied(err), redis.Unknown(err))
	}
}

// A pipeline that blocks says so when the slot of its keys is just being moved, and is served when it has moved.
func TestBlockingAsked(t *testing.T) {
	long.Test(t, "runs a cluster")
	c := testenv.StartCluster(t)
	prefix := c.Prefix(t)
	slot, owner := c.Slot(t, prefix), c.Owner(t, prefix)
	from, to := c.Nodes[owner], c.Nodes[(owner+1)%3]
	rdb := c.Connect(t, redis.Options{Prefix: prefix})
	pipeline := func() []rueidis.RedisResult {
		b := rdb.B()
		return redis.DoBlocking(t.Context(), rdb,
			b.Set().Key(prefix+":a").Value("1").Build(),
			b.Xread().Block(1).Streams().Key(prefix+":stream").Id("0").Build(),
			b.Get().Key(prefix+":a").Build())
	}
	must := func(n *testenv.Node, args ...string) {
		t.Helper()
		testenv.Must(t, n.Do(t, args...).Error())
	}
	must(to, "CLUSTER", "SETSLOT", strconv.Itoa(slot), "IMPORTING", from.ID(t))
	must(from, "CLUSTER", "SETSLOT", strconv.Itoa(slot), "MIGRATING", to.ID(t))
	for _, r := range pipeline() {
		if err := r.Error(); err == nil || !redis.Away(err) {
			t.Errorf("while the slot moves: %v, want an ASK", err)
		}
	}
	for _, n := range []*testenv.Node{to, from} {
		must(n, "CLUSTER", "SETSLOT", strconv.Itoa(slot), "NODE", to.ID(t))
	}
	eventually(t, "the new node serves it", func() bool {
		replies := pipeline()
		value, err := replies[2].ToString()
		return err == nil && value == "1" && rueidis.IsRedisNil(replies[1].Error())
	})
}
