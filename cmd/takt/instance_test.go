package main

import (
	"os"
	"strings"
	"testing"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// Processes that share a data folder have names of their own, which can stand in topics, and have them again after a restart.
func TestClaimInstance(t *testing.T) {
	c := Config{Data: t.TempDir() + "/made"}
	claim := func(c Config) (string, func()) {
		t.Helper()
		name, release, err := c.claimInstance()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := isa95.ParseScope(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		return name, release
	}
	first, releaseFirst := claim(c)
	second, releaseSecond := claim(c)
	if first == second {
		t.Errorf("two processes are %q", first)
	}
	releaseFirst()
	if again, release := claim(c); again != first {
		t.Errorf("%q after a restart, was %q", again, first)
	} else {
		defer release()
	}
	releaseSecond()

	c.Instance = "press-7"
	name, release := claim(c)
	if name != "press-7" {
		t.Errorf("%q", name)
	}
	if _, _, err := c.claimInstance(); err == nil || !strings.Contains(err.Error(), "press-7") {
		t.Errorf("two processes of one name: %v", err)
	}
	release()
	claim(c)

	unwritable := t.TempDir()
	for _, name := range []string{"instance-1", "instance-press-7.lock"} {
		if err := os.Mkdir(unwritable+"/"+name, 0o700); err != nil { // in the place of the file, for root may write anywhere
			t.Fatal(err)
		}
	}
	file := write(t, t.TempDir(), "file", "")
	for _, c := range []Config{{Data: file}, {Data: file + "/below", Instance: "press-7"}, {Data: unwritable}, {Data: unwritable, Instance: "press-7"}} {
		_, _, err := c.claimInstance()
		if err == nil || !strings.Contains(err.Error(), "--data is \""+c.Data) || !strings.Contains(err.Error(), "TAKT_DATA") || strings.Contains(err.Error(), "another process") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Other commands find a running takt dev through its data folder; one that has ended is not found, and what is given on the
// command line wins.
func TestEndpoints(t *testing.T) {
	c := Config{Data: t.TempDir()}
	dev := endpoints{Redis: "redis://dev", MQTT: "mqtt://dev", Prefix: "dev", TopicPrefix: "hall", Embedded: true, PID: os.Getpid()}
	find := func(c Config) (Config, bool) {
		t.Helper()
		var found Config
		var embedded bool
		args := []string{"job", "list", "--data", c.Data}
		if c.Redis != "" {
			args = append(args, "--redis", c.Redis)
		}
		if c.MQTT != "" {
			args = append(args, "--mqtt", c.MQTT)
		}
		if c.Prefix != "" {
			args = append(args, "--prefix", c.Prefix)
		}
		_ = inspect(args, func(a *app) { embedded = a.useEndpoints(); found = *a.Config })
		return found, embedded
	}
	if got, embedded := find(c); got.Redis != "" || got.MQTT != "" || embedded {
		t.Errorf("found %q and %q where nothing runs", got.Redis, got.MQTT)
	}
	if err := c.writeEndpoints(dev); err != nil {
		t.Fatal(err)
	}
	if got, embedded := find(c); got.Redis != dev.Redis || got.MQTT != dev.MQTT || got.Prefix != "dev" || got.TopicPrefix != "hall" || !embedded {
		t.Errorf("%+v, %v", got, embedded)
	}
	c.Redis, c.Prefix = "redis://mine", "mine"
	if got, embedded := find(c); got.Redis != "redis://mine" || got.Prefix != "mine" || got.MQTT != dev.MQTT || embedded {
		t.Errorf("%+v, %v", got, embedded)
	}
	c.Redis, c.Prefix = "", ""
	dev.PID = 1 << 30 // no process has it
	if err := c.writeEndpoints(dev); err != nil {
		t.Fatal(err)
	}
	if got, _ := find(c); got.Redis != "" {
		t.Errorf("found %q of a takt dev that has ended", got.Redis)
	}
}

// inspect shows f the app of a command instead of running it.
func inspect(args []string, f func(*app)) error {
	var out strings.Builder
	return execute(args, strings.NewReader(""), &out, &out, func(_ *cli, a *app) error { f(a); return nil })
}

// What a broker cannot do is bad if it costs results, and unsafe if it may.
func TestDiagnoseBroker(t *testing.T) {
	able := mqtt.Facts{RetainAvailable: true, SharedSubscriptions: true, MaximumQoS: 1}
	for name, test := range map[string]struct {
		change  func(*mqtt.Facts)
		subject string
		want    jobstore.Grade
	}{
		"able":          {func(*mqtt.Facts) {}, "broker", jobstore.Good},
		"no retain":     {func(f *mqtt.Facts) { f.RetainAvailable = false }, "broker: retained messages", jobstore.Bad},
		"no sharing":    {func(f *mqtt.Facts) { f.SharedSubscriptions = false }, "broker: shared subscriptions", jobstore.Bad},
		"no QoS 1":      {func(f *mqtt.Facts) { f.MaximumQoS = 0 }, "broker: QoS 1", jobstore.Bad},
		"small packets": {func(f *mqtt.Facts) { f.MaximumPacketSize = 1000 }, "broker: packet size", jobstore.Unsafe},
		"large packets": {func(f *mqtt.Facts) { f.MaximumPacketSize = 1 << 20 }, "broker: packet size", jobstore.Good},
	} {
		facts := able
		test.change(&facts)
		for _, d := range diagnoseBroker(facts) {
			want := jobstore.Good
			if d.Subject == test.subject {
				want = test.want
			}
			if d.Grade != want || d.Found == "" || d.Grade != jobstore.Good && d.Next == "" {
				t.Errorf("%s: %+v, want %s", name, d, want)
			}
		}
	}
}
