package jobstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// Query says what a decision needs. Empty members are not read.
type Query struct {
	JobOrderID isa95.JobOrderID // the job order and its execution document
	Running    bool             // both are thought to be there: one command reads them, and one more if they are not
	Response   bool             // also its response

	Source, ID string // of the CloudEvent: was it seen in the Scope, and what was answered; with Mailboxes it is an event, else a command
	Program    string // with Source and ID: the program of Batch that handles the CloudEvent; "" = Takt

	Scope      isa95.Scope        // for the members above and below
	Acceptance *isa95.JobOrder    // the facts of the seven acceptance checks for this order
	Configured bool               // with Acceptance: also whether the scope was ever configured
	Mailboxes  []string           // TypeIds of pull events
	Recipe     string             // SHA of a recipe text
	WorkMaster isa95.WorkMasterID // what the Scope runs under this id; without a Scope the last delivery to any
	Holders    isa95.WorkMasterID // what all scopes have of this work master, for Delivery and Configure
	// CorrelationID of an equipment event: which job it belongs to (Snapshot.Owner).
	CorrelationID string
}

// Snapshot is what Load read, or Recall remembers. It also has the bytes, for Commit to compare. Others may have the same Job and Execution: they must not be changed.
type Snapshot struct {
	JobOrderID isa95.JobOrderID
	Scope      isa95.Scope

	Job       *StoredOrder      // nil: not stored, or expired
	Execution *recipe.Execution // nil: no recipe was started
	Response  *isa95.JobResponse

	Recalled bool              // by Recall: nothing was read
	Seen     bool              // the CloudEvent was handled before
	SeenBody string            // Revision of the body it had then, "" for an event
	Reply    *cloudevent.Event // what was answered then; nil for an event

	Acceptance *Acceptance
	Mailboxes  map[string]*recipe.Mailbox
	RecipeText []byte            // nil: not stored
	WorkMaster *isa95.WorkMaster // nil: no scope has it
	Owner      isa95.JobOrderID  // "" = no run of the last day has that correlation id

	workMaster *workMasterRead
	delivered  *deliveredRead

	keys     orderKeys
	read     []stringRead
	seen     seenKeys
	typeKeys map[string]string // TypeId -> key of its mailbox
}

// Load reads all of q in one round trip, or two if Configured is asked for and the scope has nothing that the order requires, or if the Scope runs another content of the WorkMaster than this process expects. A document that cannot be read is a *DocumentError; an absent one is not
// an error.
func (s *Store) Load(ctx context.Context, q Query) (*Snapshot, error) {
	snap := &Snapshot{JobOrderID: q.JobOrderID, Scope: q.Scope}
	var l loader
	if q.ID != "" {
		s.loadSeen(&l, snap, q)
	}
	before := s.recall.of(q.JobOrderID)
	if q.JobOrderID != "" {
		snap.keys = s.orderKeys(q.JobOrderID)
		l.strings = append(l.strings,
			stringRead{key: snap.keys.job, there: q.Running, decode: func(doc []byte) (err error) { snap.Job, err = s.decodeJob(snap.JobOrderID, doc); return err }},
			stringRead{key: snap.keys.execution, there: q.Running, decode: func(doc []byte) (err error) {
				snap.Execution, err = s.decodeExecution(snap.JobOrderID, doc)
				return err
			}},
		)
		if q.Response {
			key := s.keys.JobResponse(string(ResponseID(q.JobOrderID)))
			l.get(key, func(doc []byte) (err error) { snap.Response, err = s.opt.Schemas.decodeResponse(key, doc); return err })
		}
	}
	if q.Acceptance != nil {
		snap.Acceptance = s.loadAcceptance(&l, q.Scope, q.Acceptance)
		if q.Configured {
			snap.Acceptance.configuration = &configuration{scope: string(q.Scope), key: s.keys.ConfiguredScopes()}
			if len(snap.Acceptance.members) == 0 {
				s.loadConfiguration(&l, snap.Acceptance.configuration)
			}
		}
	}
	if len(q.Mailboxes) > 0 {
		snap.Mailboxes = make(map[string]*recipe.Mailbox, len(q.Mailboxes))
		snap.typeKeys = make(map[string]string, len(q.Mailboxes))
	}
	for _, typ := range q.Mailboxes {
		key := s.keys.SfcMailbox(string(q.Scope), typ)
		snap.typeKeys[typ] = key
		l.get(key, func(doc []byte) (err error) {
			if snap.Mailboxes[typ], err = recipe.DecodeMailbox(doc); err != nil {
				return &DocumentError{Key: key, Err: err}
			}
			return nil
		})
	}
	if q.Recipe != "" {
		l.get(s.keys.SfcRecipe(q.Recipe), func(doc []byte) error { snap.RecipeText = doc; return nil })
	}
	if q.WorkMaster != "" {
		s.loadWorkMaster(&l, snap, q)
	}
	if q.Holders != "" {
		s.loadDelivered(&l, snap, string(q.Holders))
	}
	if q.CorrelationID != "" {
		l.get(s.keys.SfcCorrelation(q.CorrelationID), func(doc []byte) error {
			snap.Owner = isa95.JobOrderID(doc)
			return nil
		})
	}
	if err := l.run(ctx, s.rdb); err != nil {
		return nil, s.alarm.Note(err)
	}
	snap.read = l.strings
	if q.Running && snap.Job != nil && snap.Execution != nil {
		s.rememberRead(snap, before)
	}
	if a := snap.Acceptance; a != nil {
		if err := s.decideConfiguration(ctx, a); err != nil {
			return nil, err
		}
	}
	if q.WorkMaster != "" {
		if err := s.decideWorkMaster(ctx, snap, q); err != nil {
			return nil, err
		}
	}
	return snap, nil
}

// loader collects reads and sends them as one pipeline.
type loader struct {
	commands []rueidis.Completed
	decode   []func(rueidis.RedisResult) error

	strings []stringRead
	found   int  // of those that may be absent
	doubt   bool // what was not found may be there
}

// stringRead is a string to be read, and then its value. It is decoded if there is one.
type stringRead struct {
	key    string
	there  bool // it is thought to be there: if it is not, one more round trip tells
	decode func(value []byte) error
	value  []byte // nil = absent
}

// doc is what was read at key, nil if it is absent. ok is false if it was not asked for.
func (snap *Snapshot) doc(key string) (doc []byte, ok bool) {
	for i := range snap.read {
		if snap.read[i].key == key {
			return snap.read[i].value, true
		}
	}
	return nil, false
}

func (l *loader) add(command rueidis.Completed, decode func(rueidis.RedisResult) error) {
	l.commands = append(l.commands, command)
	l.decode = append(l.decode, decode)
}

func (l *loader) get(key string, decode func(value []byte) error) {
	l.strings = append(l.strings, stringRead{key: key, decode: decode})
}

func (l *loader) run(ctx context.Context, rdb rueidis.Client) error {
	switch len(l.strings) {
	case 0:
	case 1:
		l.addGet(rdb, &l.strings[0])
	default:
		l.addMget(rdb)
	}
	if err := l.send(ctx, rdb); err != nil || !l.doubt {
		return err
	}
	var again loader
	for i := range l.strings {
		if r := &l.strings[i]; r.value == nil {
			again.addGet(rdb, r)
		}
	}
	return again.send(ctx, rdb)
}

func (l *loader) send(ctx context.Context, rdb rueidis.Client) error {
	var err error
	switch len(l.commands) {
	case 0:
	case 1: // most loads, and Do allocates less
		err = l.decode[0](rdb.Do(ctx, l.commands[0]))
	default:
		for i, result := range rdb.DoMulti(ctx, l.commands...) {
			if err = l.decode[i](result); err != nil {
				break
			}
		}
	}
	if err != nil {
		return fmt.Errorf("jobstore: load: %w", err)
	}
	return nil
}

// addMget reads all strings with one command, which passes over keys of another type as if they were absent. So EXISTS counts those that may be absent. If
// it finds more of them, a key of another type is there, or one was written between the two commands: GET tells.
func (l *loader) addMget(rdb rueidis.Client) {
	keys := make([]string, len(l.strings))
	for i, r := range l.strings {
		keys[i] = r.key
	}
	l.add(rdb.B().Mget().Key(keys...).Build(), func(reply rueidis.RedisResult) error {
		values, err := reply.ToArray()
		if err != nil {
			return err
		}
		for i := range l.strings {
			r := &l.strings[i]
			switch {
			case values[i].IsNil():
				l.doubt = l.doubt || r.there
				continue
			case !r.there:
				l.found++
			}
			text, err := values[i].AsBytes()
			if err == nil {
				err = r.got(text)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	keys = keys[:0]
	for _, r := range l.strings {
		if !r.there {
			keys = append(keys, r.key)
		}
	}
	if len(keys) == 0 {
		return
	}
	l.add(rdb.B().Exists().Key(keys...).Build(), func(reply rueidis.RedisResult) error {
		exist, err := reply.AsInt64()
		l.doubt = l.doubt || int(exist) != l.found
		return err
	})
}

// addGet reads one string. A key of another type is an error that names it.
func (l *loader) addGet(rdb rueidis.Client, r *stringRead) {
	l.add(rdb.B().Get().Key(r.key).Build(), func(reply rueidis.RedisResult) error {
		text, err := reply.AsBytes()
		switch {
		case err == nil:
			return r.got(text)
		case rueidis.IsRedisNil(err):
			return nil
		case redis.WrongType(err):
			return fmt.Errorf("key %s: %w", r.key, err)
		}
		return err
	})
}

func (r *stringRead) got(text []byte) error {
	if text == nil {
		text = []byte{} // stored and empty, not absent
	}
	r.value = text
	return r.decode(text)
}

// Acceptance is the facts of the seven acceptance checks. It is judged by Refusal, and
// its expectations go into the commit, so that two commands at a limit cannot both pass.
type Acceptance struct {
	Limit   int64 // MaxDownloadableJobOrders of the scope; -1 = none was delivered
	Live    int64 // job orders of the scope that are not in EndState
	joined  int64 // of them, those that an earlier change of the same Batch stores
	members []membership
	listKey string

	configuration *configuration // nil: it does not matter
}

type membership struct {
	kind, id, key string
	member        bool
}

func (s *Store) loadAcceptance(l *loader, scope isa95.Scope, o *isa95.JobOrder) *Acceptance {
	a := &Acceptance{listKey: s.keys.JobOrderList(string(scope))}
	s.loadCounts(l, scope, &a.Limit, &a.Live)
	for _, need := range requirements(o) {
		m := membership{kind: need.kind, id: need.id, key: s.resourceKey(need.kind, scope)}
		at := len(a.members)
		a.members = append(a.members, m)
		l.add(s.rdb.B().Sismember().Key(m.key).Member(m.id).Build(), func(r rueidis.RedisResult) (err error) {
			a.members[at].member, err = r.AsBool()
			return err
		})
	}
	return a
}

// loadCounts reads how many job orders a scope may have, -1 if no limit was delivered, and how many it has.
func (s *Store) loadCounts(l *loader, scope isa95.Scope, limit, live *int64) {
	*limit = -1
	l.get(s.keys.JobAcceptance(string(scope)), func(text []byte) (err error) {
		*limit, err = strconv.ParseInt(string(text), 10, 64)
		return err
	})
	l.add(s.rdb.B().Zcard().Key(s.keys.JobOrderList(string(scope))).Build(), func(r rueidis.RedisResult) (err error) {
		*live, err = r.AsInt64()
		return err
	})
}

func (s *Store) resourceKey(kind string, scope isa95.Scope) string {
	if kind == workMasterKind {
		return s.keys.WorkMasterList(string(scope))
	}
	return s.keys.ResourceList(kind, string(scope))
}

const workMasterKind = "workmaster"

type requirement struct{ kind, id string }

// requirements are the ids that an order needs, in the order of the checks; empty ids need nothing.
func requirements(o *isa95.JobOrder) []requirement {
	var all []requirement
	need := func(kind, id string) {
		if id != "" {
			all = append(all, requirement{kind, id})
		}
	}
	for _, e := range o.EquipmentRequirements {
		need("equipment", e.ID)
	}
	for _, m := range o.MaterialRequirements {
		need("materialclass", m.MaterialClassID)
	}
	for _, m := range o.MaterialRequirements {
		need("materialdefinition", m.MaterialDefinitionID)
	}
	for _, p := range o.PersonnelRequirements {
		need("personnel", p.ID)
	}
	for _, a := range o.PhysicalAssetRequirements {
		need("physicalasset", a.ID)
	}
	for _, w := range o.WorkMasterID {
		need(workMasterKind, w.ID)
	}
	return all
}

// Refusal says why the order cannot be accepted: the first check that fails, or "" if none does. An Update of an
// order that is already counted is not held against the limit.
func (a *Acceptance) Refusal(update bool) string {
	if c := a.configuration; !update && c != nil && !c.configured() {
		return fmt.Sprintf("scope %s has no configuration: deliver what the station has first, with takt station apply or a configuration event", c.scope)
	}
	if !update && a.Limit >= 0 && a.Live >= a.Limit {
		return fmt.Sprintf("the station has %d job orders, its MaxDownloadableJobOrders is %d", a.Live, a.Limit)
	}
	for _, m := range a.members {
		if !m.member {
			return fmt.Sprintf("%s %q is not known at this station", m.kind, m.id)
		}
	}
	return ""
}
