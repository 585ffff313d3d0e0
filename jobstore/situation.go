package jobstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// Situation is a job order with all that Why judges it by. Documents of the Snapshot that were not asked for are nil.
type Situation struct {
	*Snapshot

	Program   *recipe.Program // that its run needs; nil: it does not run,
	NoProgram string          // or why there is none

	Installation time.Time       // installation time
	Standstill   time.Duration   // how long it has stood still, since no process takes answers; 0: it runs
	Expires      time.Duration   // of the documents of an order in EndState
	Engines      []string        // processes with the role engine that give a sign of life
	Queue        QueuePlace      // of an order that the work stream is to carry on
	Unsent       map[string]bool // ids of commands to equipment in the outbox: of the outboxSeen oldest

	unreadable error // documents
}

// QueuePlace is where an order stands in the work stream.
type QueuePlace struct {
	Entry      string        // id of its entry; "": none is among the queueSeen oldest
	Before     int           // entries before it; all that were looked at, if it has none
	Worker     string        // that has it in hand; "": none
	Deliveries int64         // how often it was handed out
	Idle       time.Duration // since it was
}

// How many entries of a stream are looked at.
const (
	queueSeen  = 1000
	outboxSeen = 200
)

// engineRole is the role of processes that take work and answers, as they enlist themselves.
const engineRole = "engine"

// Situation reads a job order with all that Why judges it by, in two round trips at most. Its Job is nil if it is not stored.
func (s *Store) Situation(ctx context.Context, id isa95.JobOrderID) (*Situation, error) {
	l := look{store: s, whole: true}
	page, err := l.read(ctx, string(id))
	if err != nil {
		return nil, err
	}
	return page[0], page[0].unreadable
}

// Listed is a job order of ListWhy.
type Listed struct {
	StoredOrder
	Why Why
}

// ListWhy is List, with what each order waits for: one round trip more per page of 500. It does not look into the outbox and the mailboxes.
func (s *Store) ListWhy(ctx context.Context, scope isa95.Scope, topicPrefix string) (orders []Listed, err error) {
	ids, err := s.listed(ctx, scope)
	if err != nil {
		return nil, err
	}
	return s.WhyOf(ctx, topicPrefix, ids...)
}

// WhyOf is ListWhy for the job orders with these ids, as far as they are stored.
func (s *Store) WhyOf(ctx context.Context, topicPrefix string, ids ...string) (orders []Listed, err error) {
	var unreadable error
	l := look{store: s}
	for page := range slices.Chunk(ids, perTrip) {
		all, err := l.read(ctx, page...)
		if err != nil {
			return nil, err
		}
		for _, c := range all {
			unreadable = errors.Join(unreadable, c.unreadable)
			if c.Job != nil {
				orders = append(orders, Listed{*c.Job, c.Why(topicPrefix)})
			}
		}
	}
	slices.SortStableFunc(orders, func(a, b Listed) int { return inListOrder(&a.StoredOrder, &b.StoredOrder) })
	return orders, unreadable
}

// Engines returns the names of the processes with the role engine that give a sign of life, sorted.
func (s *Store) Engines(ctx context.Context) (living []string, err error) {
	l := look{store: s}
	if l.sessions, err = s.rdb.Do(ctx, s.rdb.B().Hgetall().Key(s.keys.Instances()).Build()).AsStrMap(); err != nil {
		return nil, fmt.Errorf("jobstore: engines: %w", s.alarm.Note(err))
	}
	var trip loader
	l.engines(&trip, &living)
	if err := trip.run(ctx, s.rdb); err != nil {
		return nil, fmt.Errorf("jobstore: engines: %w", s.alarm.Note(err))
	}
	return living, nil
}

// look reads situations, a page at a time.
type look struct {
	store *Store
	whole bool // outbox, mailboxes and lifetime, too

	offset   time.Duration          // of the server's clock against installation time
	sessions map[string]string      // as processes enlisted them
	texts    map[string]compilation // of recipes, by their SHA
}

type compilation struct {
	program *recipe.Program
	problem string
}

// read is two round trips: documents and clock first, then what they lead to.
func (k *look) read(ctx context.Context, ids ...string) ([]*Situation, error) {
	s, page := k.store, make([]*Situation, len(ids))
	var l loader
	for i, id := range ids {
		page[i] = &Situation{Snapshot: &Snapshot{JobOrderID: isa95.JobOrderID(id)}}
		k.documents(&l, page[i])
	}
	k.clock(ctx, &l)
	l.add(s.rdb.B().Hgetall().Key(s.keys.Instances()).Build(), func(r rueidis.RedisResult) (err error) {
		k.sessions, err = r.AsStrMap()
		return err
	})
	if err := l.run(ctx, s.rdb); err != nil {
		return nil, s.alarm.Note(err)
	}
	installation := s.InstallationTime()
	standstill := s.Now().Sub(installation) - k.offset
	if standstill <= intakeBreak {
		standstill = 0
	}
	l = loader{}
	var engines []string
	k.engines(&l, &engines)
	var works, sends bool
	for _, c := range page {
		c.Installation, c.Standstill = installation, standstill
		x := c.Execution
		if c.Job == nil {
			continue
		}
		c.Scope = c.Job.Scope
		works = works || c.Job.State.Top == isa95.AllowedToStart || x != nil && x.Terminal() && c.Job.State.Top == isa95.Running
		if x != nil && !x.Terminal() {
			sends = true
			k.recipe(&l, x.Recipe)
			if k.whole {
				k.mailboxes(&l, c)
			}
		}
	}
	if works {
		k.queue(&l, page)
	}
	if sends && k.whole {
		k.outbox(&l, page[0])
	}
	if err := l.run(ctx, s.rdb); err != nil {
		return nil, s.alarm.Note(err)
	}
	for _, c := range page {
		c.Engines = engines
		if x := c.Execution; x != nil && !x.Terminal() {
			compiled := k.texts[x.Recipe]
			c.Program, c.NoProgram = compiled.program, compiled.problem
		}
	}
	return page, nil
}

// documents reads those of one order; what cannot be read does not hide the others.
func (k *look) documents(l *loader, c *Situation) {
	s := k.store
	keys := s.orderKeys(c.JobOrderID)
	get := func(key string, decode func([]byte) error) {
		l.get(key, func(doc []byte) error {
			c.unreadable = errors.Join(c.unreadable, decode(doc))
			return nil
		})
	}
	get(keys.job, func(doc []byte) (err error) { c.Job, err = s.decodeJob(c.JobOrderID, doc); return err })
	get(keys.execution, func(doc []byte) (err error) { c.Execution, err = s.decodeExecution(c.JobOrderID, doc); return err })
	response := s.keys.JobResponse(string(ResponseID(c.JobOrderID)))
	get(response, func(doc []byte) (err error) {
		c.Response, err = s.opt.Schemas.decodeResponse(response, doc)
		return err
	})
	if k.whole {
		l.add(s.rdb.B().Pttl().Key(keys.job).Build(), func(r rueidis.RedisResult) error {
			ms, err := r.AsInt64()
			c.Expires = time.Duration(max(ms, 0)) * time.Millisecond
			return err
		})
	}
}

// clock learns installation time.
func (k *look) clock(ctx context.Context, l *loader) {
	s := k.store
	s.addClock(ctx, l)
	l.add(s.rdb.B().Hget().Key(s.keys.SfcClock()).Field("offset").Build(), func(r rueidis.RedisResult) (err error) {
		k.offset, err = offsetOf(r)
		return err
	})
}

// engines asks which processes with that role live.
func (k *look) engines(l *loader, living *[]string) {
	for field, roles := range k.sessions {
		session := sessionOf(field)
		if session.Name != "" || !slices.Contains(strings.Split(roles, ","), engineRole) {
			continue
		}
		l.get(k.store.keys.Worker(session.Instance), func([]byte) error {
			*living = append(*living, session.Instance)
			slices.Sort(*living)
			return nil
		})
	}
}

// recipe reads and compiles a text, once.
func (k *look) recipe(l *loader, sha string) {
	if _, known := k.texts[sha]; known {
		return
	}
	if k.texts == nil {
		k.texts = make(map[string]compilation)
	}
	k.texts[sha] = compilation{problem: "its text is no longer stored"}
	l.get(k.store.keys.SfcRecipe(sha), func(text []byte) error {
		program, err := recipe.Compile(text)
		if err != nil {
			k.texts[sha] = compilation{problem: err.Error()}
			return nil
		}
		k.texts[sha] = compilation{program: program}
		return nil
	})
}

// mailboxes reads those in which the order waits.
func (k *look) mailboxes(l *loader, c *Situation) {
	c.Mailboxes = make(map[string]*recipe.Mailbox)
	for _, typ := range c.Execution.WaitingTypes() {
		key := k.store.keys.SfcMailbox(string(c.Scope), typ)
		l.get(key, func(doc []byte) (err error) {
			if c.Mailboxes[typ], err = recipe.DecodeMailbox(doc); err != nil {
				c.unreadable = errors.Join(c.unreadable, &DocumentError{Key: key, Err: err})
			}
			return nil
		})
	}
}

// queue looks for the orders in the work stream, and for the processes that have their entries in hand.
func (k *look) queue(l *loader, page []*Situation) {
	s := k.store
	byEntry := make(map[string]*Situation, len(page))
	l.add(s.rdb.B().Xrange().Key(s.keys.SfcWork()).Start("-").End("+").Count(queueSeen).Build(), func(r rueidis.RedisResult) error {
		entries, err := r.AsXRange()
		places := make(map[isa95.JobOrderID]int, len(entries))
		for i, e := range slices.Backward(entries) {
			places[isa95.JobOrderID(e.FieldValues["job_id"])] = i
		}
		for _, c := range page {
			c.Queue.Before = len(entries)
			if i, ok := places[c.JobOrderID]; ok {
				c.Queue.Entry, c.Queue.Before = entries[i].ID, i
				byEntry[entries[i].ID] = c
			}
		}
		return err
	})
	l.add(s.rdb.B().Xpending().Key(s.keys.SfcWork()).Group(groupSFC).Start("-").End("+").Count(queueSeen).Build(), func(r rueidis.RedisResult) error {
		rows, err := r.ToArray()
		if err != nil && stream.IsNoGroup(err) {
			return nil // no process has ever looked for work
		}
		for _, row := range rows {
			part, err := row.ToArray()
			if err != nil || len(part) != 4 {
				continue
			}
			entry, _ := part[0].ToString()
			if c := byEntry[entry]; c != nil {
				idle, _ := part[2].ToInt64()
				c.Queue.Worker, _ = part[1].ToString()
				c.Queue.Idle = time.Duration(idle) * time.Millisecond
				c.Queue.Deliveries, _ = part[3].ToInt64()
			}
		}
		return err
	})
}

// outbox looks for commands that the broker has not taken.
func (k *look) outbox(l *loader, c *Situation) {
	s := k.store
	c.Unsent = make(map[string]bool)
	l.add(s.rdb.B().Xrange().Key(s.keys.SfcOutbox()).Start("-").End("+").Count(outboxSeen).Build(), func(r rueidis.RedisResult) error {
		entries, err := r.AsXRange()
		for _, e := range entries {
			if command, err := decodeCommand([]byte(e.FieldValues["command"])); err == nil {
				c.Unsent[command.ID] = true
			}
		}
		return err
	})
}
