package keys

// Names under the prefix that are no keys: of channels, to which something is published, and of a consumer group. TaskDelayed and TaskControl are
// channels, too.

// TaskGroup is the consumer group of the task streams.
func (k Keys) TaskGroup() string { return k.key("tasks:workers") }

// TaskAwaitChannel tells one process of results that it waits for.
func (k Keys) TaskAwaitChannel(who string) string { return k.key("tasks:await", who) }

// TaskEvents is the channel of the ends of tasks, for watchers of one database of Redis.
func (k Keys) TaskEvents(database string) string { return k.key("tasks:events", database) }
