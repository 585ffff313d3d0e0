package jobcontrol

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mqtt"
)

// Filters are the topic filters of commands: {prefix}/{scope}/commands and {prefix}/commands, shared by the instances
// of one group. group "" subscribes alone.
func Filters(prefix, group string) []string {
	filters := []string{prefix + "/+/commands", prefix + "/commands"}
	if group != "" {
		for i, f := range filters {
			filters[i] = "$share/" + group + "/" + f
		}
	}
	return filters
}

// eventTopic is where the status events of a scope go. The scope stands in it verbatim, dots too.
func eventTopic(prefix string, scope isa95.Scope) string {
	return prefix + "/" + string(scope) + "/events"
}

// topicScope is the scope that a command's topic names: "" for {prefix}/commands, and for events that did not come by
// a topic of ours.
func topicScope(prefix, topic string) string {
	rest, ok := strings.CutPrefix(topic, prefix+"/")
	if !ok {
		return ""
	}
	if inbox, ok := strings.CutPrefix(rest, "processors/"); ok {
		_, scope, _ := strings.Cut(inbox, "/")
		return scope
	}
	scope, ok := strings.CutSuffix(rest, "/commands")
	if !ok {
		return ""
	}
	return scope
}

// Lane puts the commands for one job order into one lane, so that they are handled in the order in which they came, and
// others beside them. It looks for the first job order id in the body and does not decode it.
func Lane(m mqtt.Message) string {
	for _, member := range [...]string{`"JobOrderID"`, `"job_order_id"`} {
		_, rest, found := bytes.Cut(m.Payload, []byte(member))
		if !found {
			continue
		}
		rest = bytes.TrimLeft(rest, " \t\r\n")
		if len(rest) == 0 || rest[0] != ':' {
			continue
		}
		if id, ok := leadingText(rest[1:min(len(rest), maxLaneID)]); ok {
			return id
		}
	}
	return m.Topic
}

// leadingText is the JSON string that data begins with; false if it begins with something else, or ends before the string does.
func leadingText(data []byte) (text string, ok bool) {
	data = bytes.TrimLeft(data, " \t\r\n")
	if len(data) == 0 || data[0] != '"' {
		return "", false
	}
	for end := 1; end < len(data); end++ {
		switch data[end] {
		case '\\':
			end++
		case '"':
			err := json.Unmarshal(data[:end+1], &text)
			return text, err == nil
		}
	}
	return "", false
}

// maxLaneID is how many bytes Lane looks at for an id: no name that is accepted is longer, escapes included.
const maxLaneID = 6*isa95.MaxName + 16
