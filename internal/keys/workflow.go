package keys

// Workflow makes the keys of one shard of workflow. Its scripts make those of other instances and of queues themselves, from Base: they follow from
// what is stored (ADR 0013).
type Workflow struct{ keys Keys }

// Workflow is the keys of workflows below the prefix, which is that of a shard.
func (k Keys) Workflow() Workflow { return Workflow{k} }

func (w Workflow) key(parts ...string) string {
	return w.keys.key(append([]string{"workflow"}, parts...)...)
}

// Base is what all of them begin with, colon included.
func (w Workflow) Base() string { return w.key("") }

func (w Workflow) Run(id string) string           { return w.key("run", id) }
func (w Workflow) Document(id, x string) string   { return w.key("doc", id, x) }
func (w Workflow) History(id, x string) string    { return w.key("his", id, x) }
func (w Workflow) Inbox(id string) string         { return w.key("in", id) }
func (w Workflow) Early(id, x string) string      { return w.key("early", id, x) }
func (w Workflow) Last(id string) string          { return w.key("last", id) }
func (w Workflow) Queue(kind, name string) string { return w.key(kind, name) } // kind: tasks or activities
func (w Workflow) Held(kind, name string) string  { return w.key("held", kind, name) }
func (w Workflow) Queues() string                 { return w.key("queues") }
func (w Workflow) Paused() string                 { return w.key("paused") }
func (w Workflow) Timers() string                 { return w.key("timers") }
func (w Workflow) Created() string                { return w.key("created") }
func (w Workflow) Active() string                 { return w.key("active") }
func (w Workflow) Ended() string                  { return w.key("ended") }
func (w Workflow) Seen() string                   { return w.key("seen") }
func (w Workflow) Outbox() string                 { return w.key("out") }
func (w Workflow) Gate(key string) string         { return w.key("gate", key) }
func (w Workflow) Gates() string                  { return w.key("gates") }
func (w Workflow) Counters() string               { return w.key("counters") }
func (w Workflow) Shards() string                 { return w.key("shards") }
func (w Workflow) Replicated() string             { return w.key("replicated") }
func (w Workflow) Mended() string                 { return w.key("mended") }
func (w Workflow) Clock() string                  { return w.key("clock") }
func (w Workflow) AwaitChannel(who string) string { return w.key("await", who) }
func (w Workflow) Watched() string                { return w.key("watched") }
func (w Workflow) WatchChannel() string           { return w.key("watch") }
func (w Workflow) Group() string                  { return "workers" }
func (w Workflow) Schedule(name string) string    { return w.key("schedule", name) }
func (w Workflow) Schedules() string              { return w.key("schedules") }
