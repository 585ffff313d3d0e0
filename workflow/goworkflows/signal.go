package goworkflows

import (
	"context"

	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/core"
	gowf "github.com/cschleiden/go-workflows/workflow"
	"github.com/google/uuid"
)

// A workflow signals another one by an activity of the library, which runs again when its worker died. Each run would send a signal of its own,
// so the ID of a signal follows from that of the activity, and the core knows it again. The activity's ID takes the one way that the library has
// from a task to the context of its code: as metadata, by a propagator.

// signalActivity is the library's name of that activity.
const signalActivity = "DeliverWorkflowSignal"

// sentBy is the name of the ID in the metadata.
const sentBy = "takt-sent-by"

// sender is the key of the ID in the context.
type sender struct{}

// mark tells the activity e its ID, if it is one that sends a signal.
func mark(e *history.Event) {
	a, ok := e.Attributes.(*history.ActivityScheduledAttributes)
	if !ok || a.Name != signalActivity || a.Queue != core.QueueSystem {
		return
	}
	m := gowf.Metadata{sentBy: e.ID}
	if a.Metadata != nil {
		for name, value := range *a.Metadata {
			m[name] = value
		}
	}
	a.Metadata = &m
}

// signalID is the ID of the signal that the activity of ctx sends, "" if there is none.
func signalID(ctx context.Context) string {
	by, ok := ctx.Value(sender{}).(string)
	if !ok {
		return ""
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(by)).String()
}

// senders takes the ID from the metadata to the context.
type senders struct{}

func (senders) Extract(ctx context.Context, m *gowf.Metadata) (context.Context, error) {
	if m != nil && m.Get(sentBy) != "" {
		ctx = context.WithValue(ctx, sender{}, m.Get(sentBy))
	}
	return ctx, nil
}

func (senders) Inject(context.Context, *gowf.Metadata) error          { return nil }
func (senders) InjectFromWorkflow(gowf.Context, *gowf.Metadata) error { return nil }
func (senders) ExtractToWorkflow(ctx gowf.Context, _ *gowf.Metadata) (gowf.Context, error) {
	return ctx, nil
}
