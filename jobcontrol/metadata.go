package jobcontrol

import (
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mqtt"
)

// Metadata is the message that says what a receiver understands, for {prefix}/metadata. Publish it at every start; it is
// retained and does not expire (D19). It has no type, schema or subject, as MicroDCS sends it (spec/machinery-jobs G12).
func (o Options) Metadata(now time.Time) (mqtt.Message, error) {
	o = o.withDefaults()
	body, err := isa95.Marshal(isa95.NewMeta())
	if err != nil {
		return mqtt.Message{}, err
	}
	m := mqtt.Encode(metadataTopic(o.TopicPrefix), cloudevent.New("", o.Source, "", now).WithData(body, ""))
	m.Retain = true
	return m, nil
}
