package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What the server says of its own state, and of our rights, is to be waited for; what it says of a command or a key is not.
func TestWhatWaits(t *testing.T) {
	for said, want := range map[string]struct {
		away, denied bool
		reason       string
	}{
		"OOM command not allowed when used memory > 'maxmemory'.":                          {away: true, reason: "Redis is out of memory (OOM)"},
		"LOADING Redis is loading the dataset in memory":                                   {away: true, reason: "Redis is loading its data (LOADING)"},
		"BUSY Redis is busy running a script.":                                             {away: true, reason: "Redis is busy with a script that does not end (BUSY)"},
		"READONLY You can't write against a read only replica.":                            {away: true, reason: "Redis is a replica and takes no writes (READONLY)"},
		"MISCONF Redis is configured to save RDB snapshots":                                {away: true, reason: "Redis takes no writes since it could not save to disk (MISCONF)"},
		"NOREPLICAS Not enough good replicas to write.":                                    {away: true, reason: "Redis takes no writes since it has too few replicas (NOREPLICAS)"},
		"CLUSTERDOWN The cluster is down":                                                  {away: true, reason: "the Redis cluster is down (CLUSTERDOWN)"},
		"MASTERDOWN Link with MASTER is down":                                              {away: true, reason: "the Redis replica has lost its master (MASTERDOWN)"},
		"TRYAGAIN Multiple keys request during rehashing of slot":                          {away: true, reason: "Redis cannot serve now (TRYAGAIN)"},
		"NOSCRIPT No matching script. Please use EVAL.":                                    {away: true, reason: "Redis cannot serve now (NOSCRIPT)"},
		"ERR max number of clients reached":                                                {away: true, reason: "Redis cannot serve now (ERR)"},
		"NOPERM this user has no permissions to run the 'evalsha' command":                 {denied: true, reason: "Redis denies Takt's user a command or a key (NOPERM)"},
		"ERR The user executing the script can't run this command or subcommand":           {denied: true, reason: "Redis refuses Takt's user, password or rights (ERR)"},
		"NOPERM ACL failure in script: this user has no permissions to run the 'xack'":     {denied: true, reason: "Redis denies Takt's user a command or a key (NOPERM)"},
		"ERR ACL failure in script: User default has no permissions to run the 'set'":      {denied: true, reason: "Redis refuses Takt's user, password or rights (ERR)"},
		"NOAUTH Authentication required.":                                                  {denied: true, reason: "Redis refuses Takt's user, password or rights (NOAUTH)"},
		"WRONGPASS invalid username-password pair or user is disabled.":                    {denied: true, reason: "Redis refuses Takt's user, password or rights (WRONGPASS)"},
		"WRONGTYPE Operation against a key holding the wrong kind of value":                {},
		"ERR unknown command 'evalsha'":                                                    {},
		"ERR Error running script: @user_script:3: Script attempted to access nonexistent": {},
	} {
		err := fmt.Errorf("commit: %w", serverError(said))
		if Away(err) != want.away || Denied(err) != want.denied || Waits(err) != (want.away || want.denied) {
			t.Errorf("%s: away %v, denied %v, waits %v", said, Away(err), Denied(err), Waits(err))
		}
		if Waits(err) && Reason(err) != want.reason {
			t.Errorf("%s: reason %q, want %q", said, Reason(err), want.reason)
		}
		if Full(err) != strings.HasPrefix(said, "OOM") {
			t.Errorf("%s: full %v", said, Full(err))
		}
	}
	for _, err := range []error{io.EOF, context.DeadlineExceeded} {
		if !Waits(err) || Denied(err) || Reason(err) != "Redis does not answer" {
			t.Errorf("%v: waits %v, %q", err, Waits(err), Reason(err))
		}
	}
	for _, err := range []error{nil, context.Canceled, errors.New("the recipe is broken")} {
		if Waits(err) {
			t.Errorf("%v waits", err)
		}
	}
}

// A refusal is one line at level ERROR a minute, whoever meets it and however often; what is no refusal is none.
func TestAlarmOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		a := NewAlarm(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelError})))
		lines := func() int { return strings.Count(out.String(), "level=ERROR") }
		denied := serverError("NOPERM this user has no permissions to run the 'evalsha' command")
		for _, quiet := range []error{nil, io.EOF, serverError("TRYAGAIN later"), serverError("WRONGTYPE a key"), context.Canceled} {
			if err := a.Note(quiet); !errors.Is(err, quiet) {
				t.Errorf("%v came back as %v", quiet, err)
			}
		}
		if lines() != 0 {
			t.Errorf("an error that is no refusal was logged:\n%s", out.String())
		}
		for minute := range 3 {
			for range 59 {
				if err := a.Note(denied); !errors.Is(err, denied) {
					t.Errorf("came back as %v", err)
				}
				_ = a.Note(serverError("OOM command not allowed"))
				time.Sleep(time.Second)
			}
			if lines() != minute+1 {
				t.Fatalf("%d lines in minute %d:\n%s", lines(), minute+1, out.String())
			}
			time.Sleep(time.Second)
		}
		if text := out.String(); !strings.Contains(text, "Redis denies Takt's user a command or a key (NOPERM)") {
			t.Errorf("the reason is missing: %s", text)
		}
	})
}
