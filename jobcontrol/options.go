package jobcontrol

import (
	"log/slog"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
)

// Options of a Receiver. The zero value of a field takes the default it names.
type Options struct {
	Source        string        // CloudEvents source of replies and of the metadata event; default "urn:takt"
	TopicPrefix   string        // of all northbound topics; default "takt"
	MessageExpiry time.Duration // of replies, whole seconds; 0 = none
	// ReplyTopics are the filters of the topics outside the topic prefix that a command may name for its reply; nil = DefaultReplyTopics, AnyReplyTopic = every topic
	// there. Below the prefix only {prefix}/{scope}/replies/{requester} is allowed, with the scope of the command. A command with any other response topic is not
	// carried out. They must pass CheckReplyTopics.
	ReplyTopics []string

	HoldWhenAway time.Duration // how long a command waits for Redis before the answer is SERVICE_UNAVAILABLE; default 10 s

	// Skip names the acceptance checks that are switched off.
	Skip Checks
	// AnyScope takes orders for scopes that were never configured. Without it they are refused: such an order would wait for a
	// station that may not exist.
	AnyScope bool
	// MaxDownloadableJobOrders is the limit of stations that were delivered none; 0 = no limit. A delivered limit
	// counts in any case.
	MaxDownloadableJobOrders int64

	// UnknownMembers says what becomes of members that Takt does not know, in orders, configuration and recipes; default
	// isa95.RefuseUnknown. Recipes are stored as they are: there KeepUnknown and IgnoreUnknown are the same, and make a
	// warning of each such member.
	UnknownMembers isa95.UnknownMembers

	// Observe is told of each event after it was handled or refused, for metrics; it must not block. nil = nobody.
	Observe func(Observation)
	Log     *slog.Logger // default slog.Default()
}

// Checks are the seven acceptance checks, in their order.
type Checks struct {
	Limit, Equipment, MaterialClass, MaterialDefinition, Personnel, PhysicalAsset, WorkMaster bool
}

// Observation is what became of one event.
type Observation struct {
	Type     string               // CloudEvent type if it is one of ours, else ""
	Status   isa95.ReturnStatus   // 0 = nothing was decided
	Kind     cloudevent.ErrorKind // "" = carried out, or refused by the rules of the standard
	Repeated bool                 // the stored reply was given
	Asked    bool                 // the event has a response topic
	Muted    bool                 // its response topic is not allowed: it was neither carried out nor answered
	Tries    int                  // how often it was decided; more than 1 after conflicts, or while Redis was away
	Took     time.Duration
}

func (o Options) withDefaults() Options {
	if o.Source == "" {
		o.Source = "urn:takt"
	}
	if o.TopicPrefix == "" {
		o.TopicPrefix = "takt"
	}
	if o.ReplyTopics == nil {
		o.ReplyTopics = DefaultReplyTopics
	}
	if o.HoldWhenAway <= 0 {
		o.HoldWhenAway = 10 * time.Second
	}
	if o.UnknownMembers == "" {
		o.UnknownMembers = isa95.RefuseUnknown
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}
