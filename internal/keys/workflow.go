package keys

// Workflow makes the keys of one shard of workflow. Its scripts make those of other instances and of queues themselves, from Base: they follow from
// what is stored (ADR 0013).
type Workflow struct{ base string }

// Workflow is the keys of workflows below the prefix, which is that of a shard.
func (k Keys) Workflow() Workflow { return Workflow{k.key("workflow", "")} }

// Base is what all of them begin with, colon included.
func (w Workflow) Base() string { return w.base }

func (w Workflow) Run(id string) string           { return w.base + "run:" + id }
func (w Workflow) Document(id, x string) string   { return w.base + "doc:" + id + ":" + x }
func (w Workflow) History(id, x string) string    { return w.base + "his:" + id + ":" + x }
func (w Workflow) Inbox(id string) string         { return w.base + "in:" + id }
func (w Workflow) Early(id, x string) string      { return w.base + "early:" + id + ":" + x }
func (w Workflow) Last(id string) string          { return w.base + "last:" + id }
func (w Workflow) Queue(kind, name string) string { return w.base + kind + ":" + name } // kind: tasks or activities
func (w Workflow) Held(kind, name string) string  { return w.base + "held:" + kind + ":" + name }
func (w Workflow) Queues() string                 { return w.base + "queues" }
func (w Workflow) Paused() string                 { return w.base + "paused" }
func (w Workflow) Timers() string                 { return w.base + "timers" }
func (w Workflow) Created() string                { return w.base + "created" }
func (w Workflow) Active() string                 { return w.base + "active" }
func (w Workflow) Ended() string                  { return w.base + "ended" }
func (w Workflow) Seen() string                   { return w.base + "seen" }
func (w Workflow) Outbox() string                 { return w.base + "out" }
func (w Workflow) Gate(key string) string         { return w.base + "gate:" + key }
func (w Workflow) Gates() string                  { return w.base + "gates" }
func (w Workflow) Counters() string               { return w.base + "counters" }
func (w Workflow) Shards() string                 { return w.base + "shards" }
func (w Workflow) Mended() string                 { return w.base + "mended" }
func (w Workflow) Clock() string                  { return w.base + "clock" }
func (w Workflow) AwaitChannel(who string) string { return w.base + "await:" + who }
func (w Workflow) Watched() string                { return w.base + "watched" }

// WatchChannel is the channel of the starts and ends of executions, for watchers of one database of Redis.
func (w Workflow) WatchChannel(database string) string { return w.base + "watch:" + database }

func (w Workflow) Group() string               { return "workers" }
func (w Workflow) Schedule(name string) string { return w.base + "schedule:" + name }
func (w Workflow) Schedules() string           { return w.base + "schedules" }
