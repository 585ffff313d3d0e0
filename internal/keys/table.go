package keys

// Pattern describes one kind of key, for docs/reference/keys.md and for Match.
type Pattern struct {
	Pattern  string // below the prefix; {x} stands for a name
	Type     string // Redis type
	Owner    string // package that writes it
	Lifetime string // when it goes
	Holds    string // what is in it
}

// All lists every kind of key there is below a prefix.
func All() []Pattern {
	return []Pattern{
		{"joborder:{id}", "string", "jobstore", "expires end_state_retention after EndState", "job order and state (ISA95JobOrderAndStateDataType), `_scope`, `_dataschema`"},
		{"joborder:list:{scope}", "zset", "jobstore", "member leaves at EndState", "job order ids, score = Priority"},
		{"joborder:changes:{scope}", "stream", "jobstore", "about 5000 entries", "change_type, job_order_id, scope, ts"},
		{"joborder:changes:_global", "stream", "jobstore", "about 5000 entries", "the same entries of all scopes; the publisher reads this one"},
		{"active-scopes", "set", "jobstore", "stays", "scopes that ever stored a job order"},
		{"jobresponse:{id}", "string", "jobstore", "expires end_state_retention after EndState", "job response, `_scope`, `_normalized_state`, `_dataschema`"},
		{"jobresponse:list:{scope}", "zset", "jobstore", "member leaves at EndState", "response ids, score = StartTime in epoch milliseconds"},
		{"jrx:bystate:{scope}:{state}", "set", "jobstore", "member leaves at EndState", "response ids of one scope and state"},
		{"workmaster:{id}", "string", "jobstore", "until deleted", "work master, with recipe in `data`"},
		{"wmx:scopes:{id}", "string", "jobstore", "until deleted in the last scope", "scopes that have the work master"},
		{"workmaster:list:{scope}", "set", "jobstore", "until deleted", "work master ids of one scope"},
		{"equipment:list:{scope}", "set", "jobstore", "until deleted", "equipment ids"},
		{"materialclass:list:{scope}", "set", "jobstore", "until deleted", "material class ids"},
		{"materialdefinition:list:{scope}", "set", "jobstore", "until deleted", "material definition ids"},
		{"personnel:list:{scope}", "set", "jobstore", "until deleted", "personnel ids"},
		{"physicalasset:list:{scope}", "set", "jobstore", "until deleted", "physical asset ids"},
		{"jobacceptance:{scope}", "string", "jobstore", "until deleted", "MaxDownloadableJobOrders of one scope"},
		{"cededupe:{hash}", "string", "jobstore", "2 h", "reply to a command that changed something, or 1 for an event"},
		{"event:receiver:list", "stream", "jobstore", "entry leaves once the broker has it", "status events to send"},
		{"event:responder:list", "stream", "jobstore", "entry leaves once the broker has it", "status events with a job response to send"},
		{"sfc:work", "stream", "jobstore", "entry leaves with its effect", "work for the recipe engine: action, job_id, scope"},
		{"sfc:outbox", "stream", "jobstore", "entry leaves once the broker has it", "equipment commands to send"},
		{"sfc:timers", "zset", "jobstore", "member leaves when the recipe ends", "job order ids, score = next time-out in epoch milliseconds"},
		{"sfc:active-jobs", "set", "jobstore", "member leaves when the recipe ends", "job order ids with a running recipe"},
		{"sfc:execution:{job}", "string", "jobstore", "expires end_state_retention after EndState", "execution document of one recipe"},
		{"sfc:cmd:{id}", "string", "jobstore", "24 h after the deadline", "which job an equipment command belongs to"},
		{"sfc:corr:{id}", "string", "jobstore", "24 h after the recipe ends", "which job a correlation id belongs to"},
		{"sfc:mailbox:{scope}:{type}", "string", "jobstore", "60 s after the last event when nothing waits", "actions that wait for an event, and events that came early"},
		{"sfc:recipe:{sha}", "string", "jobstore", "stays, one per recipe text", "recipe text that executions were started with"},
		{"pubidx:{scope}", "hash", "jobstore", "field leaves once the topics are deleted", "what the retained topics of one job order shall be"},
		{"pubdone:{scope}", "hash", "jobstore", "field leaves once the topics are deleted", "what the broker acknowledged"},
		{"pubseq:{scope}", "string", "jobstore", "stays", "seq of the last state index"},
		{"publisher:dirty", "set", "jobstore", "member leaves with the next seq", "scopes that changed since their last seq"},
		{"publisher:stream-cursors", "hash", "jobstore", "stays", "field _global: last change entry that is published"},
		{"publisher:lease", "string", "jobstore", "expires unless renewed", "token of the instance that publishes"},
		{"publisher:deadletter", "stream", "jobstore", "about 1000 entries", "changes that could not be published, and why"},
		{"tasks:{priority}:{size}", "stream", "task", "entry leaves when its task ends, or waits for a later time", "tasks that wait or run, field data (TaskMessage)"},
		{"tasks:pools", "zset", "task", "stays", "pools that were ever used, and sizes that a worker ever served; score = until when a worker has slots for it, in epoch milliseconds, 0 = none had yet"},
		{"tasks:delayed", "zset", "task", "member leaves when it is due", "TaskMessage, score = due time in Unix seconds"},
		{"results:{id}", "string", "task", "expires after the retention of the task, 24 h by default", "TaskResult"},
		{"tasks:awaited", "hash", "task", "field leaves when the task ends, or nobody waits any more", "task id -> who is told of its result"},
		{"tasks:counters", "hash", "task", "stays", "how many tasks ended how, by queue and by name"},
		{"tasks:dead", "hash", "task", "until requeued or deleted", "task id -> dead letter: message, reason, error, history"},
		{"tasks:dead:index", "zset", "task", "until requeued or deleted", "task ids, score = when they died, in epoch milliseconds"},
		{"tasks:known:{key}", "hash", "task", "24 h", "what was submitted under an idempotency key"},
		{"tasks:unique:{key}", "string", "task", "until the task ends, at most its ttl", "id of the one task that may exist"},
		{"tasks:control", "hash", "task", "stays", "what is paused, rates, settings in force"},
		{"tasks:cancelled", "zset", "task", "24 h, or until the task ends", "ids of tasks to cancel, score = when that was asked, in epoch milliseconds"},
		{"tasks:rate:{queue}", "string", "task", "seconds after the last task", "time up to which a queue's rate is used up, in microseconds"},
		{"tasks:registry", "hash", "task", "field leaves with its worker", "worker id -> what it serves and runs"},
		{"tasks:parked:{name}", "zset", "task", "member leaves when the task type is resumed", "messages of a paused task type, score = when they were parked"},
		{"tasks:blocked", "hash", "task", "field leaves when the task runs", "task id -> the delayed message that waits for a lock"},
		{"tasks:collecting", "zset", "task", "member leaves when its tasks are handed over", "collections of tasks that wait for others, score = when they are handed over, in Unix seconds"},
		{"tasks:collected:{name}", "hash", "task", "until its tasks are handed over as one", "tasks of one type and key that wait for others; name is TYPE:KEY, colons in TYPE as %3A"},
		{"tasks:watched", "string", "task", "10 s after the last watcher", "there while somebody watches what ends"},
		{"tasks:replicated", "string", "task", "1 min after the last submission", "written after submissions that wait for replicas"},
		{"groups:{gid}:callback", "string", "task", "time to live of the group", "callback record"},
		{"groups:{gid}:remaining", "string", "task", "time to live of the group", "children that have not ended"},
		{"groups:{gid}:results:{child}", "string", "task", "time to live of the group", "what a child returned"},
		{"groups:{gid}:done", "set", "task", "time to live of the group", "slots of children that ended"},
		{"groups:{gid}:state", "hash", "task", "time to live of the group", "total, ok, failed, fired, policy"},
		{"scheduler:lock", "string", "task", "expires unless renewed", "token of the scheduler that fires"},
		{"scheduler:term", "string", "task", "stays", "number of the last election"},
		{"scheduler:entries", "hash", "task", "field leaves when the entry is removed", "schedule entries: rule, anchor, last and next slot"},
		{"worker:{id}", "string", "internal/stream", "expires unless renewed", "token of a living worker process"},
		{"instances", "hash", "jobstore", "field leaves once its session at the broker is over", "processes that the broker keeps a session for, and their roles"},
		{"lease:{role}", "string", "jobstore", "expires unless renewed", "token of the instance that has the role"},
		{"{stream}:dead", "stream", "internal/stream", "stays until an operator deletes it", "entries that could not be handled, with the reason"},
	}
}
