package mes

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
)

// Apply tells a station that it has something: body is what the kind says, isa95.Equipment for ConfigEquipment and so
// on. Results are those of Call.
func (c *Client) Apply(ctx context.Context, scope isa95.Scope, kind isa95.ConfigKind, body any) (isa95.ReturnStatus, error) {
	return c.configure(ctx, scope, kind, body, "PUT")
}

// Remove is Apply for something that the station has no longer; of body only the id counts.
func (c *Client) Remove(ctx context.Context, scope isa95.Scope, kind isa95.ConfigKind, body any) (isa95.ReturnStatus, error) {
	return c.configure(ctx, scope, kind, body, "DELETE")
}

func (c *Client) configure(ctx context.Context, scope isa95.Scope, kind isa95.ConfigKind, body any, method string) (isa95.ReturnStatus, error) {
	if kind.TypeID() == "" {
		return 0, fmt.Errorf("mes: there is no configuration of kind %q", kind)
	}
	data, err := isa95.Marshal(body)
	if err != nil {
		return 0, fmt.Errorf("mes: %s: %w", kind, err)
	}
	e := cloudevent.New(kind.TypeID(), c.o.Source, string(scope), time.Now()).WithData(data, kind.Schema())
	e.Method = method
	return c.Send(ctx, e)
}

// Send sends an event that is answered with a ReturnStatus, such as those of a station.Configuration, and waits for the
// answer. The event's scope says where. Results are those of Call.
func (c *Client) Send(ctx context.Context, e cloudevent.Event) (isa95.ReturnStatus, error) {
	result, err := c.Deliver(ctx, e)
	return result.ReturnStatus, err
}

// Deliver is Send for the configuration event of a work master: the result also says what the delivery changes. Its Change is
// "" for other events, and for answers of versions that do not say it.
func (c *Client) Deliver(ctx context.Context, e cloudevent.Event) (isa95.DeliveryResult, error) {
	what := e.Type
	if kind, ok := isa95.ConfigByTypeID(e.Type); ok {
		what = "configuration of " + string(kind)
	}
	e.Source = cmp.Or(e.Source, c.o.Source)
	var result isa95.DeliveryResult
	status, err := ask(ctx, c, what, e, &result, func() isa95.ReturnStatus { return result.ReturnStatus })
	result.ReturnStatus = status
	return result, err
}
