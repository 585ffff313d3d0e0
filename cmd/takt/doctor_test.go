package main

import (
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/internal/zones"
	"github.com/taktworks/takt/jobstore"
)

// rowsOf are the findings of takt doctor --json.
func rowsOf(t *testing.T, out string) map[string]jobstore.Diagnosis {
	t.Helper()
	rows := make(map[string]jobstore.Diagnosis)
	for line := range strings.Lines(out) {
		var d jobstore.Diagnosis
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		rows[d.Subject] = d
	}
	return rows
}

// silent takes connections and never answers.
func silent(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
		}
	}()
	return l.Addr().String()
}

// Whatever is down, the other is judged, each trouble is a row, and nothing is logged.
func TestDoctorJudgesWhatIsThere(t *testing.T) {
	long.Test(t, "waits for servers that do not answer")
	t.Parallel()
	redis, broker := testenv.StartRedis(t, embedded.RedisOptions{Persist: true}), testenv.Mosquitto(t)
	closed, hung := "127.0.0.1:1", silent(t)
	for _, test := range []struct {
		name, redis, mqtt string
		code              int
		badRedis          []string // one of these is said
		badBroker         string
	}{
		{"both there", redis.URL, broker.URL, exitOK, nil, ""},
		{"no broker", redis.URL, "mqtt://u:secret@" + closed, exitNoAnswer, nil, closed + " refuses connections"},
		{"no redis", "redis://u:secret@" + closed, broker.URL, exitNoAnswer, []string{closed + " does not answer"}, ""},
		{"neither", "redis://" + closed, "mqtt://" + closed, exitNoAnswer, []string{closed + " does not answer"}, closed + " refuses connections"},
		{"both hang", "redis://" + hung, "mqtt://" + hung, exitNoAnswer, []string{hung + " did", hung + " does not answer within"}, hung + " does not answer as a broker"},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := []string{"doctor", "--json", "--redis", test.redis, "--mqtt", test.mqtt, "--data", t.TempDir()}
			if test.name == "both hang" {
				testenv.OnceWithin(t, 5*time.Second, func(int) time.Duration {
					began := time.Now()
					takt(args...)
					return time.Since(began)
				})
			}
			testenv.LongEnough(t, 2*time.Second, func(limit time.Duration) bool { // for those that are there to answer, and for the others to be known
				code, out, errOut := takt(append(args, "--timeout", limit.String())...)
				if strings.Contains(out+errOut, "secret") || strings.Contains(errOut, "level=") || strings.Count(errOut, "\n") > 1 {
					t.Errorf("%s%s", out, errOut)
				}
				rows := rowsOf(t, out)
				good := func(d jobstore.Diagnosis) bool {
					return d.Grade == jobstore.Good && strings.Contains(d.Found, "127.0.0.1")
				}
				bad := func(d jobstore.Diagnosis, texts ...string) bool {
					return d.Grade == jobstore.Bad && d.Next != "" && slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(d.Found, text) })
				}
				fits := code == test.code && (rows["persistence"].Found != "") == (test.badRedis == nil) && (rows["broker: retained messages"].Found != "") == (test.badBroker == "") &&
					(test.badRedis == nil && good(rows["redis"]) || bad(rows["redis"], test.badRedis...)) &&
					(test.badBroker == "" && good(rows["broker"]) || test.badBroker != "" && bad(rows["broker"], test.badBroker))
				if !fits {
					t.Logf("within %v: exit status %d, want %d\n%s%s", limit, code, test.code, out, errOut)
				}
				return fits
			})
		})
	}
}

// A limit that the broker does not name is found by sending, to the byte.
func TestDoctorProbesMessageSizes(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t, embedded.RedisOptions{Persist: true})
	for _, test := range []struct {
		name   string
		broker string
		grade  jobstore.Grade
		found  string
	}{
		{"no limit", testenv.Mosquitto(t).URL, jobstore.Good, "takes 1048576 bytes, it names a limit of 268435455 bytes"},
		{"message_size_limit", testenv.StartMosquitto(t, embedded.MosquittoOptions{Config: []string{"message_size_limit 65530", "max_inflight_messages 20"}}).URL,
			jobstore.Unsafe, "takes at most 65530 bytes, it names a limit of 268435455 bytes"},
		{"max_packet_size", testenv.StartMosquitto(t, embedded.MosquittoOptions{Config: []string{"max_packet_size 300000"}}).URL,
			jobstore.Good, "it names a limit of 300000 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, errOut := takt("doctor", "--json", "--timeout", "2m", "--redis", redis.URL, "--mqtt", test.broker, "--data", t.TempDir())
			d := rowsOf(t, out)["broker: message size"]
			if code != exitOK || d.Grade != test.grade || !strings.Contains(d.Found, test.found) || (d.Grade == jobstore.Unsafe) != strings.Contains(d.Next, "message_size_limit") {
				t.Errorf("exit status %d, %+v, want %s and %q\n%s", code, d, test.grade, test.found, errOut)
			}
		})
	}
}

// Doctor says where the zones of this host come from, and warns if those in the program are newer.
func TestDoctorNamesTimeZones(t *testing.T) {
	for _, c := range []struct {
		from  zones.Source
		grade jobstore.Grade
		found string
	}{
		{zones.Source{Release: zones.Embedded}, jobstore.Good, "this host has none; those of takt are taken, release " + zones.Embedded},
		{zones.Source{Path: "/z", Release: "2999a"}, jobstore.Good, "/z of this host, release 2999a"},
		{zones.Source{Path: "/z", Release: zones.Embedded}, jobstore.Good, "/z of this host, release " + zones.Embedded},
		{zones.Source{Path: "/z.zip"}, jobstore.Good, "/z.zip of this host, release unknown; those of takt are of " + zones.Embedded},
		{zones.Source{Path: "/z", Release: "2020a"}, jobstore.Unsafe, "/z of this host, release 2020a, older than that of takt, " + zones.Embedded},
	} {
		if d := diagnoseZones(c.from); d.Grade != c.grade || d.Found != c.found || (d.Next == "") != (c.grade == jobstore.Good) {
			t.Errorf("%+v: %+v", c.from, d)
		}
	}
}

// The table names both servers in its head, without passwords, and one that is not named is said not to be looked at.
func TestDoctorTable(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t, embedded.RedisOptions{Persist: true})
	code, out, errOut := takt("doctor", "--redis", redis.URL, "--data", t.TempDir(), "--timeout", "2m")
	head, _, _ := strings.Cut(out, "\n")
	if code != exitOK || !strings.Contains(head, redis.URL) || !strings.Contains(head, "broker (none named)") || !strings.Contains(out, "--mqtt URL") || !strings.Contains(out, "time zones") {
		t.Errorf("exit status %d\n%s%s", code, out, errOut)
	}
}

// A command whose broker is down says so in one line, within --connect-timeout or --timeout, whichever is shorter. One whose broker is there says nothing of it.
func TestOneShotCommandsAreQuiet(t *testing.T) {
	long.Test(t, "waits for brokers that do not answer")
	t.Parallel()
	order := write(t, t.TempDir(), "order.json", `{"JobOrderID":"A"}`)
	for _, args := range [][]string{
		{"job", "store", order, "--scope", "a", "--timeout"},
		{"job", "start", "A", "--scope", "a", "--connect-timeout"},
		{"mes", "follow", "--connect-timeout"},
	} {
		testenv.LongEnough(t, time.Second, func(limit time.Duration) bool { // for one attempt to connect
			code, out, errOut := takt(append(args, limit.String(), "--mqtt", "mqtt://127.0.0.1:1", "--data", t.TempDir())...)
			if code != exitNoAnswer || out != "" || strings.Count(errOut, "\n") != 1 || strings.Contains(errOut, "level=") {
				t.Errorf("%q: exit status %d\n%s%s", args, code, out, errOut)
			}
			refused := errOut == "takt: mqtt://127.0.0.1:1 refuses connections: start the broker, or name another with --mqtt URL\n"
			if !refused {
				t.Logf("within %v: %s", limit, errOut)
			}
			return refused
		})
	}
	broker := testenv.Mosquitto(t)
	code, out, errOut := takt("job", "start", "A", "--scope", "a", "--timeout", "2s", "--mqtt", broker.URL, "--data", t.TempDir()) // no Takt answers
	if code != exitNoAnswer || out != "" || strings.Count(errOut, "\n") != 1 || strings.Contains(errOut, "level=") {
		t.Errorf("exit status %d\n%s%s", code, out, errOut)
	}
}
