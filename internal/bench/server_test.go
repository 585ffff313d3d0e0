package bench

import "testing"

func TestCommandCalls(t *testing.T) {
	stats := infoFields("# Commandstats\r\ncmdstat_xadd:calls=20,usec=10,usec_per_call=0.50,rejected_calls=1000,failed_calls=1000\r\ncmdstat_config|get:calls=3,usec=9\r\ncmdstat_info:calls=500,usec=9\r\n")
	if got := commandCalls(stats); got != 23 {
		t.Errorf("%d calls, want 23: those of xadd and config|get, not of info", got)
	}
}
