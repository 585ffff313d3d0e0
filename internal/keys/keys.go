// Package keys makes every Redis key that Takt uses, and lists them.
//
// The patterns are those of the Persistence page
// and a few of our own. No key is built anywhere else, and no key is built
// inside a script: identifiers are checked where they enter (isa95.ParseScope and its kin), so that a name can
// never be taken for another key.
package keys

import (
	"encoding/binary"
	"encoding/hex"
	"strings"

	"golang.org/x/crypto/blake2b"
)

// Keys makes keys under one prefix. The zero value is not usable; see New.
type Keys struct{ prefix string }

// New returns the keys under prefix, for example "takt" or, on a cluster, "{takt}".
func New(prefix string) Keys { return Keys{prefix: prefix} }

// Prefix is what every key begins with, without the colon.
func (k Keys) Prefix() string { return k.prefix }

// Tagged says whether all keys share one hash slot, which a cluster server needs.
func (k Keys) Tagged() bool {
	open := strings.IndexByte(k.prefix, '{')
	return open >= 0 && strings.IndexByte(k.prefix[open+1:], '}') > 0
}

func (k Keys) key(parts ...string) string {
	if len(parts) == 2 {
		return k.prefix + ":" + parts[0] + ":" + parts[1]
	}
	return k.prefix + ":" + strings.Join(parts, ":")
}

// Job orders.

func (k Keys) JobOrder(id string) string        { return k.key("joborder", id) }
func (k Keys) JobOrderList(scope string) string { return k.key("joborder:list", scope) }
func (k Keys) Changes(scope string) string      { return k.key("joborder:changes", scope) }
func (k Keys) ChangesAll() string               { return k.key("joborder:changes:_global") }
func (k Keys) ActiveScopes() string             { return k.key("active-scopes") }

// Job responses.

func (k Keys) JobResponse(id string) string        { return k.key("jobresponse", id) }
func (k Keys) JobResponseList(scope string) string { return k.key("jobresponse:list", scope) }
func (k Keys) ResponsesByState(scope, state string) string {
	return k.key("jrx:bystate", scope, state)
}

// Station configuration.

func (k Keys) WorkMaster(id string) string { return k.key("workmaster", id) }

// WorkMasterDelivered says what each scope runs, WorkMasterContent has what they run, by SHA-256.
func (k Keys) WorkMasterDelivered(id string) string { return k.key("wmx:delivered", id) }
func (k Keys) WorkMasterContent(sha string) string  { return k.key("wmx:content", sha) }

func (k Keys) WorkMasterList(scope string) string { return k.key("workmaster:list", scope) }
func (k Keys) ConfiguredScopes() string           { return k.key("configured-scopes") }
func (k Keys) JobAcceptance(scope string) string  { return k.key("jobacceptance", scope) }
func (k Keys) ResourceList(kind, scope string) string { // kind: equipment, materialclass, ...
	return k.key(kind+":list", scope)
}

// Commands seen, with the replies given.

// Dedupe is the key of one CloudEvent of a scope: keyed BLAKE2b with a digest of 16 bytes over scope, source and id, each after its length as a varint, so that
// no two of them have one key.
func (k Keys) Dedupe(scope, source, id string) string {
	var text []byte
	for _, part := range []string{scope, source, id} {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	return k.key("cededupe", digest([]byte("scope source id"), text))
}

// Transaction is the key of one transaction of a scope, as the original makes it: BLAKE2b with a digest of 16 bytes over scope and id with a colon between. Colons
// in the scope are escaped, so that no two transactions have one key.
func (k Keys) Transaction(scope, id string) string {
	return k.key("transdedupe", digest(nil, []byte(colons.Replace(scope)+":"+id)))
}

func digest(secret, text []byte) string {
	h, err := blake2b.New(16, secret)
	if err != nil {
		panic(err) // 16 is a valid digest length
	}
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}

// For programs that use jobstore.

func (k Keys) Counter(name string) string             { return k.key("counter", name) }
func (k Keys) PostStartLock(identifier string) string { return k.key("poststartlock", identifier) }
func (k Keys) ProgramValue(program, name string) string { // program without a colon
	return k.key("program:"+program, name)
}

// Events on their way to the broker.

func (k Keys) EventReceiver() string { return k.key("event:receiver:list") }

// Recipes in execution. One work stream, one outbox and one timer set per prefix (docs/adr/0001).

func (k Keys) SfcWork() string                 { return k.key("sfc:work") }
func (k Keys) SfcOutbox() string               { return k.key("sfc:outbox") }
func (k Keys) SfcTimers() string               { return k.key("sfc:timers") }
func (k Keys) SfcClock() string                { return k.key("sfc:clock") }
func (k Keys) SfcActiveJobs() string           { return k.key("sfc:active-jobs") }
func (k Keys) SfcExecution(job string) string  { return k.key("sfc:execution", job) }
func (k Keys) SfcCommand(id string) string     { return k.key("sfc:cmd", id) }
func (k Keys) SfcCorrelation(id string) string { return k.key("sfc:corr", id) }
func (k Keys) SfcRecipe(sha string) string     { return k.key("sfc:recipe", sha) }
func (k Keys) History(job string) string       { return k.key("jobhistory", job) }
func (k Keys) HistoryStart(job string) string  { return k.key("jobhistorystart", job) }

// SfcMailbox escapes colons in the scope, for both the scope and the type may hold them: ("a:b", "c") is not ("a", "b:c").
func (k Keys) SfcMailbox(scope, typ string) string {
	return k.key("sfc:mailbox", colons.Replace(scope), typ)
}

var colons = strings.NewReplacer("%", "%25", ":", "%3A")

// IntakeDead are the messages that could not be handled.
func (k Keys) IntakeDead() string { return k.key("intake:dead") }

// The publisher.

func (k Keys) PubSeq(scope string) string   { return k.key("pubseq", scope) }
func (k Keys) PubIndex(scope string) string { return k.key("pubidx", scope) }
func (k Keys) PubDone(scope string) string  { return k.key("pubdone", scope) }
func (k Keys) StoreID() string              { return k.key("store-id") }
func (k Keys) Samples() string              { return k.key("samples") }
func (k Keys) PubEpoch() string             { return k.key("publisher:epoch") }
func (k Keys) PubDirty() string             { return k.key("publisher:dirty") }
func (k Keys) Cursors() string              { return k.key("publisher:stream-cursors") }
func (k Keys) PublisherLease() string       { return k.key("publisher:lease") }
func (k Keys) PublisherDeadLetter() string  { return k.key("publisher:deadletter") }

// Tasks. queue is "priority:size".

func (k Keys) TaskStream(queue string) string   { return k.key("tasks", queue) }
func (k Keys) TaskDelayed() string              { return k.key("tasks:delayed") }
func (k Keys) TaskResult(id string) string      { return k.key("results", id) }
func (k Keys) TaskAwaited() string              { return k.key("tasks:awaited") }
func (k Keys) TaskCounters() string             { return k.key("tasks:counters") }
func (k Keys) TaskDead() string                 { return k.key("tasks:dead") }
func (k Keys) TaskDeadIndex() string            { return k.key("tasks:dead:index") }
func (k Keys) TaskKnown(key string) string      { return k.key("tasks:known", key) }
func (k Keys) TaskUnique(key string) string     { return k.key("tasks:unique", key) }
func (k Keys) TaskControl() string              { return k.key("tasks:control") }
func (k Keys) TaskCancelled() string            { return k.key("tasks:cancelled") }
func (k Keys) TaskRate(queue string) string     { return k.key("tasks:rate", queue) }
func (k Keys) TaskWorkers() string              { return k.key("tasks:registry") }
func (k Keys) TaskBlocked() string              { return k.key("tasks:blocked") }
func (k Keys) TaskCollecting() string           { return k.key("tasks:collecting") }
func (k Keys) TaskCollected(name string) string { return k.key("tasks:collected", name) }
func (k Keys) TaskWatched() string              { return k.key("tasks:watched") }
func (k Keys) TaskPools() string                { return k.key("tasks:pools") }
func (k Keys) Replicated() string               { return k.key("replicated") }
func (k Keys) TaskReplicated() string           { return k.key("tasks:replicated") }

// Groups of tasks.

func (k Keys) GroupCallback(gid string) string      { return k.key("groups", gid, "callback") }
func (k Keys) GroupRemaining(gid string) string     { return k.key("groups", gid, "remaining") }
func (k Keys) GroupResult(gid, child string) string { return k.key("groups", gid, "results", child) }
func (k Keys) GroupDone(gid string) string          { return k.key("groups", gid, "done") }
func (k Keys) GroupState(gid string) string         { return k.key("groups", gid, "state") }

// Schedules.

func (k Keys) SchedulerLock() string    { return k.key("scheduler:lock") }
func (k Keys) SchedulerEntries() string { return k.key("scheduler:entries") }
func (k Keys) SchedulerTerm() string    { return k.key("scheduler:term") }

// Processes.

func (k Keys) Worker(id string) string         { return k.key("worker", id) }
func (k Keys) Instances() string               { return k.key("instances") }
func (k Keys) ConsoleAudit() string            { return k.key("console:audit") }
func (k Keys) Lease(role string) string        { return k.key("lease", role) }
func (k Keys) DeadLetter(stream string) string { return stream + ":dead" }
