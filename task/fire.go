package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"go.opentelemetry.io/otel/trace"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/schedule"
	"github.com/taktworks/takt/task/internal/wire"
)

var fireScript = script.Load(files, "task/fire")

const (
	fireAtOnce = 16             // entries that are written at a time
	longSleep  = time.Hour      // timers are renewed after that
	holdAtMost = 24 * time.Hour // a key that keeps others out, or two periods if that is longer
	firePause  = time.Second    // after an error of Redis

	refusedPause = 5 * time.Second // of an entry that Redis refused
)

// tracked is an entry as the leader knows it.
type tracked struct {
	name  string
	raw   string // as it is stored, "" = it is not
	doc   scheduleDoc
	plan  schedule.Schedule
	claim *claim    // nil = it was added at run time, or nobody claims it
	err   error     // it cannot be read
	after time.Time // before that it is not tried: Redis refused it
}

// run submits what is due, sleeps until the next slot, and begins anew, until life ends or the lease is lost.
func (l *leader) run(life context.Context) error {
	for {
		wait, err := l.turn(life)
		switch {
		case life.Err() != nil:
			return life.Err()
		case errors.Is(err, errNotLeader):
			return err
		case err != nil:
			l.s.log.Warn("task: periodic tasks wait, Redis does not answer as it should", "error", err)
			l.reread, wait = true, firePause/2+rand.N(firePause/2)
		}
		l.reread = lifecycle.Pause(life, wait, l.s.wake) || l.reread
	}
}

// turn does what is to be done now, and says how long nothing more will be.
func (l *leader) turn(life context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(life, min(callTimeout, l.trust.Left()))
	defer cancel()
	if !l.trust.Valid() {
		return 0, errNotLeader
	}
	if l.reread || time.Since(l.read) > scheduleReread {
		if err := l.load(ctx); err != nil {
			return 0, err
		}
		if err := l.register(ctx); err != nil {
			return 0, err
		}
	} else if err := l.clock(ctx); err != nil {
		return 0, err
	} else if l.s.hasChanged() {
		if err := l.register(ctx); err != nil {
			return 0, err
		}
	}
	if err := l.commit(ctx, l.due()); err != nil {
		return 0, err
	}
	if l.reread { // somebody changed an entry meanwhile
		return 0, nil
	}
	return l.idle(), nil
}

// now is the server's time.
func (l *leader) now() time.Time { return l.s.client.clock.now().UTC() }

func (l *leader) clock(ctx context.Context) error {
	sent := time.Now()
	return l.s.client.setClock(sent, l.s.client.rdb.Do(ctx, l.s.client.rdb.B().Time().Build()))
}

// load reads all entries. One round trip.
func (l *leader) load(ctx context.Context) error {
	b := l.s.client.rdb.B()
	sent := time.Now()
	k := l.s.client.keys
	replies := l.s.client.rdb.DoMulti(ctx, b.Time().Build(), b.Hgetall().Key(k.SchedulerEntries()).Build(), b.Hget().Key(k.TaskControl()).Field(configField).Build())
	if err := l.s.client.setClock(sent, replies[0]); err != nil {
		return err
	}
	all, err := replies[1].AsStrMap()
	if err != nil {
		return err
	}
	if err := l.configure(replies[2]); err != nil {
		return err
	}
	known := l.entries
	l.entries = make(map[string]*tracked, len(all))
	for name, raw := range all {
		if had := known[name]; had != nil && had.raw == raw {
			l.entries[name] = had
			continue
		}
		l.entries[name] = l.track(name, raw, known == nil)
	}
	l.read, l.reread = time.Now(), false
	return nil
}

// configure follows the configuration that SetConfig gave to all. One that cannot be read changes nothing.
func (l *leader) configure(reply rueidis.RedisResult) error {
	text, err := reply.ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	if text == l.text {
		return nil
	}
	l.text = text
	config, err := ParseConfig([]byte(text))
	if err != nil {
		l.s.log.Error("task: the configuration cannot be read, schedules stay as they are", "error", err)
		return nil
	}
	l.config = config
	return nil
}

// track reads one entry. One that had failed gets another chance with each election: it may have been the process that could not use it.
func (l *leader) track(name, raw string, elected bool) *tracked {
	t := &tracked{name: name, raw: raw}
	if t.doc, t.err = decodeSchedule(name, raw); t.err != nil {
		l.report(name, "failed", t.err)
		return t
	}
	if !t.doc.Declared {
		t.plan, t.err = t.doc.schedule()
	}
	if elected && t.doc.State == ScheduleFailed {
		t.doc.State = ScheduleActive
	}
	return t
}

// once says whether this is the first time since the election.
func (l *leader) once(what, name string) bool {
	key := what + " " + name
	had := l.warned[key]
	l.warned[key] = true
	return !had
}

// report says once per election what is wrong with an entry.
func (l *leader) report(name, kind string, err error) {
	if l.once(kind, name) {
		l.s.log.Error("task: a schedule does not fire", "schedule", name, "is", kind, "error", err)
		l.s.opts.Observe(ScheduleEvent{Kind: kind, Name: name, Err: err, Term: l.term})
	}
}

// register makes the stored entries those that code declares: new ones are added, changed ones changed, those of VOs that are gone removed.
func (l *leader) register(ctx context.Context) error {
	c := l.s.claims(&l.config)
	for _, p := range c.without {
		if l.once("no VO", p.entry.Name) {
			l.s.log.Warn("task: a schedule per VO has no VO", "schedule", p.entry.Name)
		}
	}
	for name, err := range c.unfit {
		l.report(name, "unfit", err)
	}
	for _, p := range c.unknown {
		for _, t := range l.entries {
			if t.err == nil && t.doc.Declared && t.doc.VO != "" && p.covers(t.name) {
				l.s.claim(c, &l.config, p, t.doc.VO)
			}
		}
	}
	claims := c.all
	now := l.now()
	var writes []*write
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		if w := l.claim(name, claims[name], now); w != nil {
			writes = append(writes, w)
		}
	}
	for name, t := range l.entries {
		if claims[name] != nil {
			continue
		}
		t.claim = nil
		if w := l.unclaimed(t); w != nil {
			writes = append(writes, w)
		}
	}
	return l.commit(ctx, writes)
}

// claim brings one stored entry in line with what code says; nil = it is.
func (l *leader) claim(name string, c *claim, now time.Time) *write {
	t := l.entries[name]
	if t == nil {
		t = &tracked{name: name}
		l.entries[name] = t
	}
	t.claim = c
	next := t.doc
	if t.raw == "" || t.err != nil && next.Name == "" {
		next = scheduleDoc{}
	}
	switch {
	case next.Spec != c.entry.Spec:
		paused := next.Paused
		next.ScheduleEntry = c.entry
		next.Paused = paused
		next.register(c.plan, now)
	default:
		if next.State == ScheduleUnclaimed || t.err != nil {
			next.State, next.Error = ScheduleActive, ""
		}
		if !next.same(&c.entry) {
			paused, anchor := next.Paused, next.Anchor
			next.ScheduleEntry = c.entry
			next.Paused, next.Anchor = paused, anchor
		}
	}
	next.Declared, t.err = true, nil
	next.enable(!c.disabled, now)
	t.plan = schedule.WithAnchor(c.plan, next.Anchor)
	start := c.by.onStart && !l.s.started[name] && !next.Paused && !c.disabled
	if start {
		next.Asked = append(slices.Clone(next.Asked), asked{ID: fmt.Sprintf(ownName+"%s@start-%d", name, l.term), At: now, Yield: true})
	}
	l.refresh(&next, t.plan, now)
	w := l.write(t, next)
	if start && w != nil {
		w.start = true
	}
	if w != nil && t.raw == "" {
		w.kind = "registered"
	}
	return w
}

// enable switches an entry off, or on again: then it begins anew with its next slot.
func (d *scheduleDoc) enable(on bool, now time.Time) {
	switch {
	case !on && d.State == ScheduleActive:
		d.State = ScheduleDisabled
	case on && d.State == ScheduleDisabled:
		d.State, d.Since, d.Next = ScheduleActive, now.Truncate(time.Millisecond), time.Time{}
	}
}

// refresh brings Next up to date where nothing is due.
func (l *leader) refresh(d *scheduleDoc, s schedule.Schedule, now time.Time) {
	if d.State != ScheduleActive || s == nil {
		return
	}
	if p, err := d.decide(s, now); err == nil && p.last.IsZero() {
		d.Next = p.next
	}
}

// unclaimed is about a stored entry that code does not declare: one of a VO that is gone, or of a schedule that is disabled, is removed; one of which nothing is known waits for a scheduler
// that knows it.
func (l *leader) unclaimed(t *tracked) *write {
	if t.err != nil && t.doc.Name == "" {
		return nil // not readable: it was reported
	}
	next := t.doc
	if !next.Declared {
		switch {
		case t.err != nil: // another scheduler may know its time zone, or is newer: its slots stay for that one
			next.State, next.Error = ScheduleUnclaimed, clip(fmt.Sprintf("task: scheduler %s cannot read it: %v", l.s.opts.ID, t.err), maxEntryError)
			l.report(t.name, "unclaimed", t.err)
			return l.write(t, next)
		case next.State == ScheduleUnclaimed:
			next.State, next.Error = ScheduleActive, ""
		}
		next.enable(l.config.For(next.Task, next.VO).IsEnabled(), l.now())
		l.refresh(&next, t.plan, l.now())
		return l.write(t, next)
	}
	for _, p := range l.s.declared {
		if p.covers(t.name) {
			return &write{t: t, kind: "removed", remove: true}
		}
	}
	l.report(t.name, "unclaimed", errors.New("task: no type of this scheduler declares it"))
	next.State = ScheduleUnclaimed
	return l.write(t, next)
}

// due are the writes of all entries that have something due.
func (l *leader) due() []*write {
	now := l.now()
	var all []*write
	for _, t := range l.entries {
		d := &t.doc
		switch {
		case t.err != nil || d.State == ScheduleUnclaimed || time.Now().Before(t.after):
		case len(d.Asked) > 0:
			all = append(all, l.fireAsked(t)) // its slots come with the next turn
		case d.State != ScheduleActive || d.Paused || now.Before(d.Next):
		default:
			if w := l.fireSlots(t, now); w != nil {
				all = append(all, w)
			}
		}
	}
	return all
}

// fireSlots is the write of an entry's due slots, nil if none is.
func (l *leader) fireSlots(t *tracked, now time.Time) *write {
	next := t.doc
	p, err := next.decide(t.plan, now)
	switch {
	case err != nil:
		next.State, next.Error, next.Next = ScheduleFailed, clip(err.Error(), maxEntryError), time.Time{}
		l.report(t.name, "failed", err)
		return l.write(t, next)
	case p.last.IsZero() && !p.next.IsZero():
		return nil
	}
	next.Next, next.Dropped = p.next, next.Dropped+p.dropped
	if !p.last.IsZero() {
		next.Last = p.last
	}
	if p.next.IsZero() {
		next.State = ScheduleFinished
	}
	w := &write{t: t, next: next, skipped: next, dropped: p.dropped}
	for _, slot := range p.slots {
		l.add(w, next.taskID(slot), slot, true)
	}
	w.close(p)
	return w
}

// fireAsked is the write of the oldest task that somebody wants now.
func (l *leader) fireAsked(t *tracked) *write {
	next := t.doc
	a := next.Asked[0]
	next.Asked = slices.Clone(next.Asked[1:])
	w := &write{t: t, next: next, skipped: next}
	l.add(w, a.ID, a.At, a.Yield)
	w.close(plan{})
	return w
}

// write is one call of fire.lua.
type write struct {
	t             *tracked
	next, skipped scheduleDoc // what is stored then, and if a key keeps it out
	remove        bool
	start         bool   // RunOnStart is asked for with it
	kind          string // event besides those of slots
	messages      []string
	spans         []trace.Span // of the messages
	first         string       // id of the first task
	queue         Queue
	key           string // that keeps others out, "" = none
	hold          time.Duration
	rest          int64 // slots besides the first that are skipped with or after it
	dropped       int64
	failed        int64
}

// write stores a new state of an entry, nil if it is the stored one.
func (l *leader) write(t *tracked, next scheduleDoc) *write {
	if raw, err := next.encode(); err == nil && raw == t.raw {
		t.doc = next
		return nil
	}
	return &write{t: t, next: next}
}

// add puts the task of one slot into the write. What cannot be made fails this slot alone.
func (l *leader) add(w *write, id string, slot time.Time, yield bool) {
	if w.key != "" { // the first keeps the others out
		w.rest++
		return
	}
	ctx, span := l.s.traceSlot(&w.t.doc, id)
	b, key, hold, err := l.message(ctx, w.t, id, slot, yield)
	if err != nil {
		endSlots([]trace.Span{span}, "failed", err)
		w.failed++
		w.next.Failed++
		w.skipped.Failed++
		w.next.Error = clip(err.Error(), maxEntryError)
		w.skipped.Error = w.next.Error
		l.s.log.Error("task: a periodic task cannot be made", "schedule", w.t.name, "slot", slot, "error", err)
		return
	}
	if len(w.messages) == 0 {
		w.first, w.queue = id, w.next.Queue
	}
	w.messages = append(w.messages, rueidis.BinaryString(b))
	w.spans = append(w.spans, span)
	w.key, w.hold = key, hold
	w.next.LastTask, w.next.Entry = id, ""
	if w.failed == 0 {
		w.next.Error = ""
	}
}

// close counts, once all slots are in.
func (w *write) close(p plan) {
	n := int64(len(w.messages))
	w.next.Fired += n
	w.next.Skipped += w.rest
	w.skipped.Skipped += n + w.rest
	if !p.next.IsZero() && !p.last.IsZero() {
		w.hold = max(w.hold, 2*p.next.Sub(p.last))
	}
}

// message is the task of one slot, in the trace of ctx, and the key that keeps the next ones out.
func (l *leader) message(ctx context.Context, t *tracked, id string, slot time.Time, yield bool) (b []byte, key string, hold time.Duration, err error) {
	d := &t.doc
	p, z := d.Queue.parts()
	of := &spec{name: d.Task, priority: p, size: z}
	s := &submission{id: id, priority: p, size: z, own: wire.Labels{{Key: "periodic", Value: true}}}
	if d.VO != "" {
		s.own = append(s.own, wire.Label{Key: "vo", Value: d.VO})
	}
	unique := ""
	if c := t.claim; c != nil && c.by.encode != nil {
		of = c.by.of
		s.args, unique, hold, err = c.by.encode(Firing{Entry: d.Name, VO: d.VO, Slot: slot})
	} else {
		s.args, err = d.args()
	}
	if err != nil {
		return nil, "", 0, err
	}
	switch {
	case unique != "":
		s.meta.Unique, key = unique, unique
		if hold <= 0 {
			hold = defaultUniqueFor
		}
	case !yield || d.Overlap == QueueUp:
	case d.Overlap == SkipIfRunning:
		s.meta.Unique, key, hold = ownName+"schedule:"+d.Name, ownName+"schedule:"+d.Name, holdAtMost
	default:
		s.meta.Start, key, hold = ownName+"schedule:"+d.Name, ownName+"schedule:"+d.Name, holdAtMost
	}
	l.s.client.injectTrace(ctx, &s.meta)
	b, err = l.s.client.encode(of, s)
	return b, key, hold, err
}

// commit carries writes out, some at a time. The first error is returned once all have ended.
func (l *leader) commit(ctx context.Context, writes []*write) error {
	if len(writes) == 0 {
		return nil
	}
	replies := make([]reply, len(writes))
	free := make(chan struct{}, fireAtOnce)
	var all sync.WaitGroup
	for i, w := range writes {
		free <- struct{}{}
		all.Go(func() { replies[i] = l.call(ctx, w); <-free })
	}
	all.Wait()
	var failed error
	for i, w := range writes {
		endSlots(w.spans, cmp.Or(replies[i].word, "unknown"), replies[i].err)
		if err := l.settle(w, replies[i]); err != nil && (failed == nil || errors.Is(err, errNotLeader)) {
			failed = err
		}
	}
	return failed
}

// reply is what fire.lua answered, and what is stored then.
type reply struct {
	word, id        string
	stored, skipped string
	err             error
}

// call is one fire.lua.
func (l *leader) call(ctx context.Context, w *write) (r reply) {
	if !l.trust.Valid() {
		return reply{err: errNotLeader}
	}
	if !w.remove {
		if r.stored, r.err = w.next.encode(); r.err == nil && w.key != "" {
			r.skipped, r.err = w.skipped.encode()
		}
		if r.err != nil {
			return r
		}
	}
	c := l.s.client
	entries := c.keys.SchedulerEntries()
	keys := []string{c.keys.SchedulerLock(), c.keys.SchedulerTerm(), entries, entries, entries}
	args := []string{l.s.opts.ID, fmt.Sprint(l.term), w.t.name, "", r.stored, r.skipped, ms(w.hold), w.skipped.Entry, w.first}
	if w.t.raw != "" {
		args[3] = script.SHA1(w.t.raw)
	}
	if len(w.messages) > 0 {
		if keys[3], r.err = c.target(ctx, w.queue); r.err != nil {
			r.err = fmt.Errorf("task: fire %s: %w", w.t.name, r.err)
			return r
		}
		args = append(args, w.messages...)
	}
	if w.key != "" {
		keys[4] = c.keys.TaskUnique(w.key)
	}
	said, err := fireScript.Run(ctx, c.rdb, keys, args...).AsStrSlice()
	switch {
	case err != nil:
		r.err = fmt.Errorf("task: fire %s: %w", w.t.name, err)
	case len(said) == 2:
		r.word, r.id = said[0], said[1]
	case len(said) == 1:
		r.word = said[0]
	}
	return r
}

// settle brings what the leader knows in line with what was written, and tells of it.
func (l *leader) settle(w *write, r reply) error {
	t := w.t
	fired, skipped := t.doc.Fired, t.doc.Skipped
	tell := func(kind, task string, n int64) {
		if n > 0 {
			l.s.opts.Observe(ScheduleEvent{Kind: kind, Name: t.name, Task: task, N: n, Term: l.term})
		}
	}
	switch {
	case r.err != nil && !redis.Away(r.err) && isRedisError(r.err): // the trouble of this entry alone, such as a key of another type
		t.after = time.Now().Add(refusedPause)
		l.report(t.name, "refused", r.err)
		return nil
	case r.err != nil:
		l.reread = true // it may have been done
		return r.err
	case r.word == "lost":
		return errNotLeader
	case r.word == "conflict":
		l.reread = true
		return nil
	case r.word == "ok" && w.remove:
		delete(l.entries, t.name)
		delete(l.s.started, t.name)
		l.s.log.Info("task: a schedule is removed", "schedule", t.name)
		tell("removed", "", 1)
		return nil
	case r.word == "ok":
		if w.start {
			l.s.started[t.name] = true
		}
		finished := w.next.State == ScheduleFinished && t.doc.State != ScheduleFinished
		t.raw, t.doc = r.stored, w.next
		if len(w.messages) > 0 {
			t.doc.Entry = r.id // stored with the next write
		}
		tell("fired", w.first, int64(len(w.messages)))
		tell("skipped", w.first, w.rest)
		if finished {
			l.s.log.Info("task: a schedule has no slot left", "schedule", t.name)
			tell("finished", "", 1)
		}
	case r.word == "skipped":
		t.raw, t.doc = r.skipped, w.skipped
		tell("skipped", r.id, w.rest+int64(len(w.messages)))
	default:
		return fmt.Errorf("task: fire.lua replied %q", r.word)
	}
	if w.kind != "" {
		l.s.log.Info("task: a schedule is "+w.kind, "schedule", t.name, "spec", t.doc.Spec)
		tell(w.kind, "", 1)
	}
	tell("dropped", "", w.dropped)
	tell("failed", "", w.failed)
	l.s.opts.Metrics.slots(int(max(t.doc.Fired-fired, 0)), int(max(t.doc.Skipped-skipped, 0)+w.dropped), int(w.failed))
	return nil
}

func isRedisError(err error) bool {
	var refused *rueidis.RedisError
	return errors.As(err, &refused)
}

// idle is how long nothing is due.
func (l *leader) idle() time.Duration {
	now := l.now()
	wait := longSleep
	for _, t := range l.entries {
		d := &t.doc
		switch {
		case t.err != nil || d.State == ScheduleUnclaimed:
		case time.Now().Before(t.after):
			wait = min(wait, time.Until(t.after))
		case len(d.Asked) > 0:
			return 0
		case d.State != ScheduleActive || d.Paused || d.Next.IsZero():
		default:
			wait = min(wait, d.wake(d.Next).Sub(now))
		}
	}
	return max(min(wait, scheduleReread), 0)
}
