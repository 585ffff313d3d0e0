package users_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/users"
)

var day = time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC)

const (
	bcryptHash = "$2a$12$asH6J81z9I9YFQhZtmiswedUe1iStoRsDu0C6zN9xEi7p2BciWNVW"
	sha        = "6bbc8c318c445ee2c174322a6e30e31a919dbe879a239b54b669543dae504949"
)

// A file that cannot be used is refused with its line and the rule, and its secrets stay out of the error.
func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	for _, c := range []struct{ text, err string }{
		{"", ""},
		{"# comment\n\nuser anna operator " + bcryptHash + "\n  token ci viewer " + sha + " never\nuser anna@acme.example admin -\ntoken anna admin " + sha + " 2027-01-31T00:00:00Z", ""},
		{"user anna operator", "line 1: must be: user NAME ROLE HASH"},
		{"#\nanna:operator", `line 2: begins with "anna:operator": must begin with user or token`},
		{"user anna boss -", `line 1: role "boss": must be viewer, operator, admin`},
		{"user <b> admin -", `line 1: name "<b>": must be 1 to 64 letters`},
		{"user anna admin secret", "line 1: the hash must be bcrypt of cost 12"},
		{"user anna admin " + strings.Replace(bcryptHash, "$12$", "$04$", 1), "line 1: the hash must be bcrypt of cost 12"},
		{"token ci viewer " + sha, "line 1: must be: token NAME ROLE HASH EXPIRES"},
		{"token ci viewer " + sha[1:] + " never", "line 1: the hash must be SHA-256"},
		{"token ci viewer " + sha + " tomorrow", `line 1: expires "tomorrow": must be never, or a time`},
		{"user anna admin -\n\nuser anna viewer -", "line 3: user anna is in line 1, too"},
	} {
		testenv.Must(t, os.WriteFile(file, []byte(c.text), 0o600))
		_, err := users.Read(file)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%q: %v, want %q", c.text, err, c.err)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), sha[1:])) {
			t.Errorf("%v names a secret", err)
		}
	}
	if _, err := users.Read(file + "2"); err == nil || !strings.Contains(err.Error(), "takt console user add makes it") {
		t.Error(err)
	}
}

// Users and tokens are added and removed one by one; comments stay, a second one of a name is refused, and a file that is broken is left as it is.
func TestChange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	anna, err := users.NewUser("anna", "operator", "")
	testenv.Must(t, err)
	testenv.Must(t, users.Add(file, anna))
	ci, token := users.NewToken("anna", "viewer", day)
	testenv.Must(t, users.Add(file, ci))
	if len(token) < 40 || strings.Contains(string(read(t, file)), token) {
		t.Error("the token is short, or in the file")
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	for name, c := range map[string]struct {
		change func() error
		want   string
	}{
		"a second one":   {func() error { return users.Add(file, anna) }, `has a user "anna" already: remove it first`},
		"a wrong name":   {func() error { return users.Add(file, users.User{Name: "a b", Role: "admin"}) }, "must be 1 to 64 letters"},
		"none":           {func() error { return users.Remove(file, "bert", false) }, `has no user "bert"`},
		"short password": {func() error { _, err := users.NewUser("bert", "viewer", "elevenbytes"); return err }, "has 11 bytes: must have 12 to 72"},
		"long password":  {func() error { _, err := users.NewUser("bert", "viewer", strings.Repeat("a", 73)); return err }, "has 73 bytes"},
	} {
		before := read(t, file)
		if err := c.change(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(before, read(t, file)) {
			t.Errorf("%s changed the file", name)
		}
	}
	testenv.Must(t, users.Remove(file, "anna", false))
	all, err := users.Read(file)
	if err != nil || len(all) != 1 || !all[0].Token || !all[0].Expires.Equal(day) || !bytes.HasPrefix(read(t, file), []byte("# Users")) {
		t.Errorf("%+v, %v", all, err)
	}
	testenv.Must(t, os.WriteFile(file, []byte("broken"), 0o600))
	if err := users.Add(file, anna); err == nil || !strings.Contains(err.Error(), "line 1") || string(read(t, file)) != "broken" {
		t.Errorf("a broken file: %v", err)
	}
	testenv.Must(t, os.WriteFile(file+".tmp", nil, 0o600))
	if err := users.Remove(file, "anna", true); err == nil || !strings.Contains(err.Error(), "is being changed by another command") {
		t.Errorf("two commands at once: %v", err)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	testenv.Must(t, err)
	return text
}

// The users are those of the file as it is now, a second after its change at the latest; of a broken one they stay. A token ends at its time.
func TestDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	ci, token := users.NewToken("ci", "viewer", day.Add(time.Hour))
	testenv.Must(t, users.Add(file, ci))
	var log bytes.Buffer
	d, err := users.Open(file, slog.New(slog.NewTextHandler(&log, nil)), day)
	testenv.Must(t, err)
	bert, err := users.NewUser("bert", "viewer", "")
	testenv.Must(t, err)
	testenv.Must(t, users.Add(file, bert))
	at := func(seconds int) (bertThere, tokenThere bool) {
		now := day.Add(time.Duration(seconds) * time.Second)
		_, bertThere = d.User("bert", now)
		_, tokenThere = d.Token(token, now)
		return bertThere, tokenThere
	}
	for _, c := range []struct {
		after         string
		change        func()
		second        int
		bert, ciThere bool
	}{
		{"less than a second", func() {}, 0, false, true},
		{"a second", func() {}, 1, true, true},
		{"a broken file", func() { testenv.Must(t, os.WriteFile(file, []byte("broken"), 0o600)) }, 3, true, true},
		{"no file", func() { testenv.Must(t, os.Remove(file)) }, 5, true, true},
		{"a new file", func() { testenv.Must(t, users.Add(file, ci)) }, 7, false, true},
		{"an empty file", func() { testenv.Must(t, os.WriteFile(file, nil, 0o600)) }, 9, false, false},
		{"the same file again", func() { testenv.Must(t, users.Add(file, ci)) }, 11, false, true},
		{"the end of the token", func() {}, 3600, false, false},
	} {
		c.change()
		if b, ci := at(c.second); b != c.bert || ci != c.ciThere {
			t.Errorf("after %s: bert %v, token %v", c.after, b, ci)
		}
	}
	if _, ok := d.Token(token[1:], day); ok {
		t.Error("another token is taken")
	}
	if got := log.String(); strings.Count(got, "mend the file") != 2 || strings.Count(got, "is empty now") != 1 || !strings.Contains(got, "line 1") {
		t.Errorf("log:\n%s", got)
	}
}

// A password is right for its user alone. Who has none, and who is not there, is refused after the same work.
func TestPassword(t *testing.T) {
	judge := make(users.Judge, 1)
	password := strings.Repeat("ä", 36) // 72 bytes
	anna, err := users.NewUser("anna", "viewer", password)
	testenv.Must(t, err)
	none, err := users.NewUser("bert", "viewer", "")
	testenv.Must(t, err)
	for _, c := range []struct {
		user     users.User
		password string
		want     bool
	}{{anna, password, true}, {anna, password + "x", false}, {anna, "", false}, {none, "-", false}, {users.User{}, "", false}} {
		if got, err := judge.Password(t.Context(), c.user, c.password); got != c.want || err != nil {
			t.Errorf("%s with %q: %v, %v", c.user.Name, c.password, got, err)
		}
	}
	judge <- struct{}{}
	ctx, end := context.WithCancel(t.Context())
	end()
	if _, err := judge.Password(ctx, anna, password); !errors.Is(err, ctx.Err()) {
		t.Errorf("beyond the bound: %v", err)
	}
}

// A session ends after 12 h, after an hour without its user, and as the oldest of too many.
func TestSessions(t *testing.T) {
	var s users.Sessions
	anna := users.User{Name: "anna", Role: "viewer"}
	idle, busy, looking := s.Begin(anna, day), s.Begin(anna, day), s.Begin(anna, day)
	there := func(cookie string, after time.Duration, use bool) bool {
		u, ok := s.Find(cookie, day.Add(after), use)
		return ok && u == anna
	}
	for hour := range 24 {
		if got, want := there(busy, time.Duration(hour)*30*time.Minute, true), hour < 24; got != want {
			t.Errorf("after %d half hours: %v", hour, got)
		}
		there(looking, time.Duration(hour)*30*time.Minute, false)
	}
	got := []bool{there(busy, 12*time.Hour, true), there(idle, time.Hour-1, false), there(idle, time.Hour, true), there(looking, time.Hour, true), there("", 0, true)}
	if diff := cmp.Diff([]bool{false, true, false, false, false}, got); diff != "" {
		t.Error(diff)
	}
	first := s.Begin(anna, day.Add(time.Minute))
	s.End(busy)
	for i := range 20 {
		s.Begin(anna, day.Add(time.Duration(i+2)*time.Minute))
	}
	if there(first, 30*time.Minute, true) || there(busy, 30*time.Minute, true) {
		t.Error("the oldest of too many sessions, or one that was ended, is there")
	}
}

// Ten attempts of a kind are let through at once and then one each 6 s; one that is given back was none. A flood of kinds counts as one.
func TestLimiter(t *testing.T) {
	var l users.Limiter
	now := day
	passed := func(n int, kinds ...string) (through int) {
		for range n {
			if _, wait := l.Take(now, kinds...); wait == 0 {
				through++
			}
		}
		return through
	}
	if got := passed(20, "from 10.0.0.1", "name anna"); got != 10 {
		t.Errorf("%d at once", got)
	}
	if got := passed(5, "from 10.0.0.2", "name anna"); got != 0 {
		t.Errorf("%d of one name from elsewhere", got)
	}
	if _, wait := l.Take(now, "name anna"); wait != 6*time.Second {
		t.Errorf("to wait: %v", wait)
	}
	now = now.Add(12 * time.Second)
	if got := passed(5, "name anna"); got != 2 {
		t.Errorf("%d after 12 s", got)
	}
	for range 30 {
		give, wait := l.Take(now, "name bert")
		if wait > 0 {
			t.Fatal("given back, and yet used up")
		}
		give()
	}
	for i := range 20_000 {
		l.Take(now, fmt.Sprint("name ", i))
	}
	if got := passed(5, "name that is new"); got != 0 {
		t.Errorf("%d after a flood of names", got)
	}
	now = now.Add(time.Hour)
	if got := passed(20, "name that is new"); got != 10 {
		t.Errorf("%d after the flood", got)
	}
}
