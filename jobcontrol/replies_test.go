package jobcontrol_test

import (
	"strings"
	"testing"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
)

// A reply is published with Takt's rights on a topic that the sender chooses. So a command that asks for one where replies do not belong is not carried out: no order, no
// reply, no refusal, but counted.
func TestReplyTopics(t *testing.T) {
	var seen []jobcontrol.Observation
	observe := func(o jobcontrol.Observation) { seen = append(seen, o) }
	p := newPlant(t, jobcontrol.Options{Observe: observe})
	own := "app/jobs/" + scope + "/commands"
	for _, test := range []struct {
		name, topic, subject, reply string
		allowed                     bool
	}{
		{"the default outside the prefix", own, scope, "mes/responses/mes-1", true},
		{"the whole default", own, scope, "mes", true},
		{"none", own, scope, "", true},
		{"replies of the scope", own, scope, "app/jobs/m42/replies/mes-1", true},
		{"replies of the scope by subject", "app/jobs/commands", scope + "/press", "app/jobs/m42/replies/mes-1", true},

		{"other prefix", own, scope, "erp/answers", false},
		{"name that begins as the default", own, scope, "mess/answers", false},
		{"answers of equipment", own, scope, "app/jobs/responses/pod-1", false},
		{"answers with a token", own, scope, "app/jobs/responses/pod-1/0123456789abcdef", false},
		{"commands of another station's equipment", own, scope, "app/jobs/equipment/m43/commands", false},
		{"events of its own equipment", own, scope, "app/jobs/equipment/m42/events", false},
		{"state index", own, scope, "app/jobs/m42/state-index", false},
		{"result", own, scope, "app/jobs/m42/result/JO-1", false},
		{"status events", own, scope, "app/jobs/m42/events", false},
		{"commands", own, scope, "app/jobs/m43/commands", false},
		{"metadata", own, scope, "app/jobs/metadata", false},
		{"private topic", own, scope, "app/jobs/private/mes-2", false},
		{"the prefix", own, scope, "app/jobs", false},
		{"replies, one level short", own, scope, "app/jobs/m42/replies", false},
		{"replies, one level more", own, scope, "app/jobs/m42/replies/mes-1/x", false},
		{"replies, empty requester", own, scope, "app/jobs/m42/replies/", false},
		{"replies of another scope", own, scope, "app/jobs/m43/replies/mes-1", false},
		{"replies of another scope, by subject", "app/jobs/commands", scope, "app/jobs/m43/replies/mes-1", false},
		{"replies of the subject, on the topic of another scope", "app/jobs/m43/commands", scope, "app/jobs/m42/replies/mes-1", false},
		{"replies of the topic, for the subject of another scope", own, "m43", "app/jobs/m42/replies/mes-1", false},
		{"replies, and no scope named", "app/jobs/commands", "", "app/jobs/m42/replies/mes-1", false},
		{"broker's own", own, scope, "$SYS/mes", false},
		{"shared subscription", own, scope, "$share/takt/mes/x", false},
		{"wildcard", own, scope, "mes/+/#", false},
		{"control character", own, scope, "mes/\x01", false},
	} {
		e := command(isa95.Store.TypeID(), `{"JobOrder":`+order("JO-"+strings.ReplaceAll(test.name, " ", "-"))+`}`)
		e.Delivery.Topic, e.Subject, e.Delivery.ResponseTopic = test.topic, test.subject, test.reply
		before := p.entries(t, p.keys.EventReceiver())
		seen = nil
		reply, err := p.Handle(t.Context(), e)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		carriedOut := len(p.entries(t, p.keys.EventReceiver())) > len(before)
		if test.allowed != carriedOut || test.allowed != (reply != nil) {
			t.Errorf("%s: carried out %t, reply %v", test.name, carriedOut, reply)
		}
		refusal := p.Refuse(t.Context(), e, cloudevent.Errorf(cloudevent.KindPayloadInvalid, "because"))
		if test.allowed != (refusal != nil) {
			t.Errorf("%s: refusal %v", test.name, refusal)
		}
		if !test.allowed && (len(seen) != 2 || !seen[0].Muted || !seen[1].Muted || seen[0].Type != isa95.Store.TypeID()) {
			t.Errorf("%s: observed %+v", test.name, seen)
		}
	}
}

func TestReplyTopicsOfTheOperator(t *testing.T) {
	for _, test := range []struct {
		filters      []string
		topic        string
		allowed, all bool
	}{
		{[]string{"erp/+/answers"}, "erp/7/answers", true, false},
		{[]string{"erp/+/answers"}, "mes/responses/mes-1", false, false},
		{[]string{"mes/#", "erp/#"}, "erp/x", true, false},
		{[]string{"*"}, "any/where", true, true},
		{[]string{"*"}, "app/jobs/responses/pod-1", false, true},
		{[]string{"*"}, "$SYS/x", false, true},
		{[]string{"#"}, "app/jobs/responses/pod-1", false, true},
		{[]string{"+/jobs/#"}, "app/jobs/responses/pod-1", false, false},
		{[]string{}, "mes/responses/mes-1", false, false},
		{[]string{}, "app/jobs/m42/replies/mes-1", true, false},
	} {
		if err := jobcontrol.CheckReplyTopics("app/jobs", test.filters); err != nil {
			t.Error(err)
		}
		if jobcontrol.AllowAll(test.filters) != test.all {
			t.Errorf("%v: all %t", test.filters, !test.all)
		}
		p := newPlant(t, jobcontrol.Options{ReplyTopics: test.filters})
		e := command(isa95.Store.TypeID(), `{"JobOrder":`+order("JO-7")+`}`)
		e.Delivery.ResponseTopic = test.topic
		if reply, err := p.Handle(t.Context(), e); err != nil || test.allowed != (reply != nil) {
			t.Errorf("%v, %s: %v, %v", test.filters, test.topic, reply, err)
		}
	}
	for _, bad := range []string{"", "$share/x/mes/#", "$SYS/#", "mes/#/x", "mes/a+", "app/jobs", "app/jobs/#", "app/jobs/+/answers"} {
		if err := jobcontrol.CheckReplyTopics("app/jobs", []string{"mes/#", bad}); err == nil || bad != "" && !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := jobcontrol.CheckReplyTopics("mes", jobcontrol.DefaultReplyTopics); err != nil {
		t.Errorf("the default: %v", err)
	}
}
