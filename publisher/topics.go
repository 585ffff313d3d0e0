package publisher

import (
	"strings"

	"github.com/taktworks/takt/isa95"
)

// The retained topics. A scope stands verbatim in its topics, dots too.
func (o Options) indexTopic(scope isa95.Scope) string {
	return o.TopicPrefix + "/" + string(scope) + "/state-index"
}

func (o Options) orderTopic(scope isa95.Scope, id isa95.JobOrderID) string {
	return OrderTopic(o.TopicPrefix, scope, id)
}

// OrderTopic is the retained topic of a job order.
func OrderTopic(topicPrefix string, scope isa95.Scope, id isa95.JobOrderID) string {
	return topicPrefix + "/" + string(scope) + "/order/" + string(id)
}

func (o Options) resultTopic(scope isa95.Scope, id isa95.JobOrderID) string {
	return ResultTopic(o.TopicPrefix, scope, id)
}

// ResultTopic is the retained topic of the response of a job order.
func ResultTopic(topicPrefix string, scope isa95.Scope, id isa95.JobOrderID) string {
	return topicPrefix + "/" + string(scope) + "/result/" + string(id)
}

// Filters are the topic filters under which everything retained by a publisher with that prefix falls.
func Filters(topicPrefix string) []string { return filters(topicPrefix, "+") }

func filters(topicPrefix, scope string) []string {
	base := topicPrefix + "/" + scope
	return []string{base + "/state-index", base + "/order/+", base + "/result/+"}
}

// Kinds of retained topics: the level after the scope.
const (
	kindIndex  = "state-index"
	kindOrder  = "order"
	kindResult = "result"
)

// parseTopic takes a retained topic apart. kind is "" if it has not the form of ours; id is "" for a state index. ok is false if scope or id is no name that Takt takes,
// which are then not to be used as one.
func (o Options) parseTopic(topic string) (scope isa95.Scope, kind string, id isa95.JobOrderID, ok bool) {
	rest, ok := strings.CutPrefix(topic, o.TopicPrefix+"/")
	if !ok {
		return "", "", "", false
	}
	levels := strings.Split(rest, "/")
	switch {
	case len(levels) == 2 && levels[1] == kindIndex:
		kind = kindIndex
	case len(levels) == 3 && (levels[1] == kindOrder || levels[1] == kindResult):
		kind, id = levels[1], isa95.JobOrderID(levels[2])
	default:
		return "", "", "", false
	}
	_, scopeErr := isa95.ParseScope(levels[0])
	_, idErr := isa95.ParseJobOrderID(string(id))
	return isa95.Scope(levels[0]), kind, id, scopeErr == nil && (idErr == nil || kind == kindIndex)
}
