package main

import (
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	got, err := parseStat("42 (a) b (c) S 7 42 42 0 -1 4194304 100 0 0 0 120 30 5 2 20 0 1 0 12345 1000 200 18446744073709551615\n")
	if want := (processTimes{parent: 7, own: 1500 * time.Millisecond, ended: 70 * time.Millisecond}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "42 (x) S 1", "42 (x) S seven 42 42 0 -1 4194304 100 0 0 0 120 30 5 2 20"} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestParseBusy(t *testing.T) {
	busy, ok := parseBusy("cpu  100 10 50 9999 777 5 4 3 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
	if want := 172 * clockTick; !ok || busy != want { // neither idle nor waiting for the disk
		t.Errorf("%v, %v, want %v", busy, ok, want)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "intr 1 2 3 4 5 6 7 8 9", "cpu a b c d e f g h i"} {
		if _, ok := parseBusy(bad); ok {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestCommandCalls(t *testing.T) {
	stats := infoFields("# Commandstats\r\ncmdstat_xadd:calls=20,usec=10,usec_per_call=0.50,rejected_calls=1000,failed_calls=1000\r\ncmdstat_config|get:calls=3,usec=9\r\ncmdstat_info:calls=500,usec=9\r\n")
	if got := commandCalls(stats); got != 23 {
		t.Errorf("%d calls, want 23: those of xadd and config|get, not of info", got)
	}
}
