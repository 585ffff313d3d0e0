package topics_test

import (
	"testing"

	"github.com/taktworks/takt/internal/topics"
)

func TestReplyTo(t *testing.T) {
	p := topics.Prefix("plant/takt")
	if scope, requester, ok := p.ReplyTo(p.Replies("cell.1", "mes/a")); scope != "cell.1" || requester != "mes-a" || !ok {
		t.Errorf("%q %q %t", scope, requester, ok)
	}
	for _, topic := range []string{
		"", "plant/takt", "plant/takt/", "plant/takt/cell", "plant/takt/cell/replies", "plant/takt/cell/replies/", "plant/takt//replies/a", "plant/takt/cell/replies/a/b",
		"plant/takt/cell/events/a", "plant/takt/cell/x/replies/a", "takt/cell/replies/a", "plant/taktx/cell/replies/a", "/plant/takt/cell/replies/a",
	} {
		if scope, requester, ok := p.ReplyTo(topic); ok {
			t.Errorf("%s: taken for the replies of %q to %q", topic, scope, requester)
		}
	}
}

func TestHolds(t *testing.T) {
	p := topics.Prefix("plant/takt")
	for topic, want := range map[string]bool{"plant/takt": true, "plant/takt/": true, "plant/takt/x": true, "plant/takt2/x": false, "plant": false, "": false} {
		if p.Holds(topic) != want {
			t.Errorf("%q: %t", topic, !want)
		}
	}
	if got := p.Private("a/b#"); got != "plant/takt/private/a-b-" {
		t.Error(got)
	}
}

func TestAnswers(t *testing.T) {
	p := topics.Prefix("plant/takt")
	for _, test := range []struct{ topic, instance, token, shown string }{
		{p.Answers("s1", "abc"), "s1", "abc", "plant/takt/responses/s1/(token)"},
		{p.Answers("s1", ""), "s1", "", "plant/takt/responses/s1"},
		{"plant/takt/responses/s1/a/b", "s1", "a/b", "plant/takt/responses/s1/(token)"},
		{"takt/responses/s1/abc", "", "", "takt/responses/s1/abc"},
		{"plant/takt/cell/events", "", "", "plant/takt/cell/events"},
	} {
		if instance, token := p.AnsweredOn(test.topic); instance != test.instance || token != test.token {
			t.Errorf("%s: %q %q", test.topic, instance, token)
		}
		if got := p.Shown(test.topic); got != test.shown {
			t.Errorf("%s: shown as %s", test.topic, got)
		}
	}
}
