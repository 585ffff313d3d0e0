package jobcontrol

import (
	"fmt"
	"slices"
	"strings"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/mqtt"
)

// DefaultReplyTopics are the topics outside the topic prefix that replies may go to unless Options.ReplyTopics names others.
var DefaultReplyTopics = []string{"mes/#"}

// AnyReplyTopic in Options.ReplyTopics stands for every topic outside the topic prefix.
const AnyReplyTopic = "*"

// CheckReplyTopics says what is wrong with filters for Options.ReplyTopics below that topic prefix, nil if nothing is. The defaults pass with any prefix.
func CheckReplyTopics(topicPrefix string, filters []string) error {
	for _, f := range filters {
		if f == AnyReplyTopic {
			continue
		}
		if strings.HasPrefix(f, "$") {
			return fmt.Errorf("the filter %q begins with $: replies go to no topic of the broker's own and to no shared subscription", f)
		}
		if err := mqtt.CheckFilter(f); err != nil {
			return err
		}
		if topics.Prefix(topicPrefix).Holds(f) && !slices.Equal(filters, DefaultReplyTopics) {
			return fmt.Errorf("the filter %q allows nothing: below the topic prefix %s replies go to %s/{scope}/replies/{requester} alone, which needs no filter", f, topicPrefix, topicPrefix)
		}
	}
	return nil
}

// AllowAll says whether filters let replies go to every topic outside the topic prefix.
func AllowAll(filters []string) bool {
	return slices.ContainsFunc(filters, func(f string) bool { return f == AnyReplyTopic || f == "#" || f == "+/#" })
}

// replyRule says why no reply to e may go to its response topic, "" when one may, or when none is wanted.
//
// The reply is published with Takt's rights and not with those of the sender, who chooses the topic. Below the topic prefix that would let every MES speak to the
// equipment of all stations, answer for it, and write retained topics. So the only topic there is {prefix}/{scope}/replies/{requester} with the scope of the command.
func (r *Receiver) replyRule(e cloudevent.Event) string {
	topic, prefix := e.Delivery.ResponseTopic, topics.Prefix(r.opt.TopicPrefix)
	switch {
	case topic == "":
		return ""
	case strings.HasPrefix(topic, "$"):
		return "is the broker's own"
	case mqtt.CheckTopic(topic) != nil:
		return "is no topic to publish on"
	case !prefix.Holds(topic):
		if slices.ContainsFunc(r.opt.ReplyTopics, func(f string) bool { return f == AnyReplyTopic || mqtt.Matches(f, topic) }) {
			return ""
		}
		return "is not among the reply topics (--reply-topics)"
	}
	scope, _, ok := prefix.ReplyTo(topic)
	if !ok {
		return "is below the topic prefix and not {prefix}/{scope}/replies/{requester}"
	}
	// A command names its scope by subject and by topic. If they differ it is refused, and must not be answered to readers of the other scope.
	named := false
	for _, own := range []string{e.Scope(), topicScope(r.opt.TopicPrefix, e.Delivery.Topic)} {
		if own != "" && own != scope {
			return "is for replies of another scope than that of the command"
		}
		named = named || own != ""
	}
	if !named {
		return "is for replies of a scope, and the command names none"
	}
	return ""
}

// mute says whether e is left alone because its reply must not go where it asks: no reply can say so; it is logged and counted, and nothing is done.
func (r *Receiver) mute(e cloudevent.Event) bool {
	rule := r.replyRule(e)
	if rule == "" {
		return false
	}
	r.opt.Log.Warn("jobcontrol: command not carried out: its response topic "+rule, "topic", e.Delivery.Topic, "type", e.Type, "source", e.Source, "id", e.ID,
		"response_topic", shorten(e.Delivery.ResponseTopic))
	if r.opt.Observe != nil {
		o := Observation{Kind: cloudevent.KindPermissionDenied, Muted: true}
		if knownType(e.Type) {
			o.Type = e.Type
		}
		r.opt.Observe(o)
	}
	return true
}
