package mes

import (
	"cmp"
	"context"

	"github.com/taktworks/takt/cloudevent"
)

// Request publishes an event of any type on topic, such as {topic prefix}/processors/{name}/{scope} of a processor, and returns the reply. It is repeated under its id until the
// reply comes or ctx ends. A refusal is a reply too: see Event.Err. What is missing of id, source and correlation id is filled in.
func (c *Client) Request(ctx context.Context, topic string, e cloudevent.Event) (cloudevent.Event, error) {
	e.Source = cmp.Or(e.Source, c.o.Source)
	return c.requests.Request(ctx, topic, e)
}
