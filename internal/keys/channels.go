package keys

// Names under the prefix that are no keys: of channels, to which something is published, and of a consumer group. TaskDelayed and TaskControl are
// channels, too.

// TaskGroup is the consumer group of the task streams.
func (k Keys) TaskGroup() string { return k.key("tasks:workers") }

// TaskAwaitChannel tells one process of results that it waits for.
func (k Keys) TaskAwaitChannel(who string) string { return k.key("tasks:await", who) }

// TaskEvents tells those who watch what has ended.
func (k Keys) TaskEvents() string { return k.key("tasks:events") }
