package publisher

import (
	"context"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// Topic is a retained topic of a job order.
type Topic struct {
	Topic string `json:"topic"`
	State string `json:"state"` // published, due, refused or none
}

// Standing says what the broker has of an order, as far as the store knows: in the topic of the order, then in that of its response. Its errors are those of the store.
func Standing(ctx context.Context, store *jobstore.Store, topicPrefix string, scope isa95.Scope, id isa95.JobOrderID) ([]Topic, error) {
	scopes, err := store.Retained(ctx, jobstore.RetainedQuery{Scope: scope, JobOrderIDs: []isa95.JobOrderID{id}})
	if err != nil {
		return nil, err
	}
	j := scopes[0].Jobs[0]
	state := func(want, done string) string {
		switch {
		case want == done && want == "" || j.Want.Gone && done == "":
			return "none"
		case want != "" && done != "" && !j.Want.Gone:
			return "published"
		}
		return "due"
	}
	order := state(j.Want.Order, j.Done.Order)
	if j.Done.Refused {
		order = "refused"
	}
	return []Topic{{OrderTopic(topicPrefix, scope, id), order}, {ResultTopic(topicPrefix, scope, id), state(j.Want.Result, j.Done.Result)}}, nil
}
