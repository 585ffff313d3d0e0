package jobcontrol

import (
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mqtt"
)

// Metadata is the message that says what a receiver understands, for {prefix}/metadata, or with a scope for {prefix}/{scope}/metadata. Publish it at every start; it is
// retained and does not expire. It has no type or schema, as MicroDCS sends it; its subject is the scope, "" = none.
// storeID names the store that is served (jobstore.Store.EnsureID), "" = it is not named.
func (o Options) Metadata(now time.Time, storeID string, scope isa95.Scope) (mqtt.Message, error) {
	o = o.withDefaults()
	body, err := isa95.Marshal(isa95.NewMeta())
	if err != nil {
		return mqtt.Message{}, err
	}
	e := cloudevent.New("", o.Source, string(scope), now).WithData(body, "")
	if storeID != "" {
		e.Extensions = map[string]string{storeIDName: storeID}
	}
	topic := topics.Prefix(o.TopicPrefix).Metadata()
	if scope != "" {
		topic = topics.Prefix(o.TopicPrefix).ScopeMetadata(string(scope))
	}
	m := mqtt.Encode(topic, e)
	m.Retain = true
	return m, nil
}

// storeIDName is the extension of the metadata event that names the store.
const storeIDName = "storeid"

// Announced reads a metadata message: which store is served on these topics, and the source that said so. Both are "" where they are not
// named: an empty message deletes what was retained.
func Announced(m mqtt.Message) (storeID, source string) {
	for _, p := range m.User {
		switch p.Name {
		case storeIDName:
			storeID = p.Value
		case "source":
			source = p.Value
		}
	}
	return storeID, source
}
