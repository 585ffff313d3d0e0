package main

import (
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
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
	t.Parallel()
	redis, broker := testenv.StartRedis(t, embedded.RedisOptions{Persist: true}), testenv.Mosquitto(t)
	closed, hung := "127.0.0.1:1", silent(t)
	for _, test := range []struct {
		name, redis, mqtt string
		code              int
		badRedis          string
		badBroker         string
	}{
		{"both there", redis.URL, broker.URL, exitOK, "", ""},
		{"no broker", redis.URL, "mqtt://u:secret@" + closed, exitNoAnswer, "", closed + " refuses connections"},
		{"no redis", "redis://u:secret@" + closed, broker.URL, exitNoAnswer, closed + " does not answer", ""},
		{"neither", "redis://" + closed, "mqtt://" + closed, exitNoAnswer, closed + " does not answer", closed + " refuses connections"},
		{"both hang", "redis://" + hung, "mqtt://" + hung, exitNoAnswer, hung + " did", hung + " does not answer as a broker"},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := []string{"doctor", "--json", "--redis", test.redis, "--mqtt", test.mqtt, "--data", t.TempDir()}
			var code int
			var out, errOut string
			if test.code == exitOK {
				code, out, errOut = takt(append(args, "--timeout", "2m")...)
			} else {
				testenv.OnceWithin(t, 5*time.Second, func(int) time.Duration {
					began := time.Now()
					code, out, errOut = takt(args...)
					return time.Since(began)
				})
			}
			if code != test.code || strings.Contains(out+errOut, "secret") || strings.Contains(errOut, "level=") || strings.Count(errOut, "\n") > 1 {
				t.Errorf("exit status %d, want %d\n%s%s", code, test.code, out, errOut)
			}
			rows := rowsOf(t, out)
			for subject, want := range map[string]string{"redis": test.badRedis, "broker": test.badBroker} {
				switch d := rows[subject]; {
				case want == "" && (d.Grade != jobstore.Good || !strings.Contains(d.Found, "127.0.0.1")):
					t.Errorf("%s: %+v, want it to be named and good", subject, d)
				case want != "" && (d.Grade != jobstore.Bad || !strings.Contains(d.Found, want) || d.Next == ""):
					t.Errorf("%s: %+v, want bad and %q", subject, d, want)
				}
			}
			if d := rows["persistence"]; (d.Found != "") != (test.badRedis == "") {
				t.Errorf("persistence: %+v", d)
			}
			if d := rows["broker: retained messages"]; (d.Found != "") != (test.badBroker == "") {
				t.Errorf("retained messages: %+v", d)
			}
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
		{"no limit", testenv.Mosquitto(t).URL, jobstore.Good, "takes 1048576 bytes, it names no limit"},
		{"message_size_limit", testenv.StartMosquitto(t, embedded.MosquittoOptions{Config: []string{"message_size_limit 20000", "max_inflight_messages 20"}}).URL,
			jobstore.Unsafe, "takes at most 20000 bytes, it names no limit"},
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

// The table names both servers in its head, without passwords, and one that is not named is said not to be looked at.
func TestDoctorTable(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t, embedded.RedisOptions{Persist: true})
	code, out, errOut := takt("doctor", "--redis", redis.URL, "--data", t.TempDir(), "--timeout", "2m")
	head, _, _ := strings.Cut(out, "\n")
	if code != exitOK || !strings.Contains(head, redis.URL) || !strings.Contains(head, "broker (none named)") || !strings.Contains(out, "--mqtt URL") {
		t.Errorf("exit status %d\n%s%s", code, out, errOut)
	}
}

// A command whose broker is down says so in one line, within --connect-timeout or --timeout, whichever is shorter. One whose broker is there says nothing of it.
func TestOneShotCommandsAreQuiet(t *testing.T) {
	t.Parallel()
	order := write(t, t.TempDir(), "order.json", `{"JobOrderID":"A"}`)
	for _, args := range [][]string{
		{"job", "store", order, "--scope", "a", "--timeout", "1s"},
		{"job", "start", "A", "--scope", "a", "--connect-timeout", "1s"},
		{"mes", "follow", "--connect-timeout", "1s"},
	} {
		code, out, errOut := takt(append(args, "--mqtt", "mqtt://127.0.0.1:1", "--data", t.TempDir())...)
		if code != exitNoAnswer || out != "" || errOut != "takt: mqtt://127.0.0.1:1 refuses connections: start the broker, or name another with --mqtt URL\n" {
			t.Errorf("%q: exit status %d\n%s%s", args, code, out, errOut)
		}
	}
	broker := testenv.Mosquitto(t)
	code, out, errOut := takt("job", "start", "A", "--scope", "a", "--timeout", "2s", "--mqtt", broker.URL, "--data", t.TempDir()) // no Takt answers
	if code != exitNoAnswer || out != "" || strings.Count(errOut, "\n") != 1 || strings.Contains(errOut, "level=") {
		t.Errorf("exit status %d\n%s%s", code, out, errOut)
	}
}
