package stream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

const (
	longestBlock = time.Second            // of one read; it is never cancelled, for what a cancelled read was given nobody would know of (E 19)
	longestSweep = 700 * time.Millisecond // between two looks for dead workers, and for what others gave back
	lonelySweep  = 4 * time.Second        // and between two looks for others, while there are none
	ratedPause   = 20 * time.Millisecond  // between two looks at streams with a rate
	overtake     = 2 * time.Millisecond   // between two looks at earlier streams while later ones fill the buffer
	plainFrom    = 64                     // entries ahead from which on reads are plain: one command, but as much of later streams as of earlier ones (see session.mixed)
	ownPage      = 256
)

// errStale says that the session's token was lost, as a script noticed first.
var errStale = errors.New("stream: the token was lost")

// read is the one loop that reads: it takes entries in until run ends or the token is lost. It outlives every error.
func (s *session) read(run context.Context) {
	defer context.AfterFunc(run, func() { s.held.close() })()
	defer context.AfterFunc(s.epoch.ctx, func() { s.held.close() })()
	var b backoff
	for run.Err() == nil && s.epoch.ctx.Err() == nil {
		made := s.made
		err := s.turn(run)
		if err == nil {
			if made { // else a full server may have refused the groups: the next read says so
				b.reset()
			}
			continue
		}
		// What was on its way to us when the connection broke is pending for us, unseen.
		s.own, s.grace = fromStart, 0
		if IsNoGroup(err) {
			s.made = false
			s.g.Worker.doubt() // whoever took the groups may have taken the heartbeats too
		}
		if errors.Is(err, errStale) {
			s.g.Worker.doubt()
		} else {
			s.log.Warn("stream: reading failed, trying again", "error", err)
			s.g.trouble(err)
		}
		pause(b.next(), run, s.epoch.ctx)
	}
}

// turn does the next thing a reader has to do, with one or two round trips.
func (s *session) turn(run context.Context) error {
	if s.g.Closed != nil && time.Since(s.woken) >= longestSweep {
		s.woken = time.Now()
		s.wake() // a stream may be open again, and nobody told
	}
	if s.g.Free != nil {
		return s.pull(run)
	}
	if !s.made {
		return s.makeGroups(run)
	}
	ready, look := s.ready(), time.Duration(0)
	if s.g.Ahead > 0 {
		if early := s.held.surplus(ready, hoarded); len(early) > 0 {
			return s.giveBack(run, early)
		}
		look = lookAgain
	}
	rooms, all := s.held.await(s.g.slots(), ready, overtake, look)
	if rooms == nil || run.Err() != nil { // closed, or to look again
		return nil
	}
	if !all {
		_, err := s.readParts(run, s.inOrder(rooms))
		return err
	}
	room := rooms[len(rooms)-1]
	if s.held.again.Swap(false) {
		s.own = fromStart
	}
	if s.own.id != "" {
		return s.readOwn(run, room)
	}
	if left := time.Until(s.sweep); left <= 0 {
		return s.sweepDead(run)
	}
	return s.readNew(run, rooms, ready)
}

// ready is how many entries may be held beside those that are being handled.
func (s *session) ready() int {
	if s.g.Ahead <= 0 {
		return s.g.ready()
	}
	return s.pace.ahead(s.g.Ahead, s.g.slots(), s.g.ready())
}

// call bounds a call of the reader; run's end does not cut it short, for its reply may hand us entries.
func call(run context.Context, more time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(run), callTimeout+more)
}

// makeGroups makes the consumer groups where they are missing, from the oldest entry: whatever is in the stream is not settled yet.
func (s *session) makeGroups(run context.Context) error {
	ctx, cancel := call(run, 0)
	defer cancel()
	rdb := s.g.Worker.rdb
	cmds := make(rueidis.Commands, len(s.g.Streams))
	for i, key := range s.g.Streams {
		cmds[i] = rdb.B().XgroupCreate().Key(key).Group(s.g.Name).Id("0").Mkstream().Build()
	}
	for i, r := range rdb.DoMulti(ctx, cmds...) {
		if err := r.Error(); err != nil && !strings.Contains(err.Error(), "BUSYGROUP") && !isFull(err) {
			return fmt.Errorf("group %s of %s: %w", s.g.Name, s.g.Streams[i], err)
		}
	}
	s.made = true
	return nil
}

// isFull reports a server without memory. It says so before it looks whether the group is there; if it is not, the next read says that.
func isFull(err error) bool {
	refused, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(refused.Error(), "OOM")
}

// readNew reads entries nobody was given yet, and waits for some if there are none.
func (s *session) readNew(run context.Context, rooms []int, ready int) error {
	changes := s.changes.Load()
	open, rated := s.open()
	if len(open) == 0 {
		pause(ratedPause, run, s.epoch.ctx)
		return nil
	}
	room := rooms[len(rooms)-1]
	if len(rooms) > 1 && (ready < plainFrom || s.mixed) || len(open) > len(s.waitable(open)) { // to the entry, and in order
		if !s.empty {
			n, err := s.readNow(run, rooms, ready)
			if n > 0 || err != nil {
				return err
			}
		}
		room = max(room/len(rooms), 1)
	}
	block := min(longestBlock, max(time.Until(s.sweep), time.Millisecond))
	if rated {
		block = min(block, ratedPause)
	}
	if open = s.waitable(open); len(open) == 0 {
		pause(block, run, s.epoch.ctx)
		return nil
	}
	return s.block(run, block, room, open, changes)
}

// open lists the streams that may be read now, and whether any of them has a rate.
func (s *session) open() (open []int, rated bool) {
	for i := range s.g.Streams {
		if s.g.Closed != nil && s.g.Closed(i) {
			continue
		}
		open = append(open, i)
		rate, _ := s.rate(i)
		rated = rated || rate > 0
	}
	return open, rated
}

// waitable lists the streams among open without a rate.
func (s *session) waitable(open []int) []int {
	if s.g.Rate == nil {
		return open
	}
	free := make([]int, 0, len(open))
	for _, i := range open {
		if rate, _ := s.rate(i); rate <= 0 {
			free = append(free, i)
		}
	}
	return free
}

func (s *session) rate(stream int) (perSecond float64, bucket string) {
	if s.g.Rate == nil {
		return 0, ""
	}
	return s.g.Rate(stream)
}

// takeRead takes in the reply of XREADGROUP with this count: an array of pairs, or with RESP3 a map. It notes whether
// several streams had something, and one of them as much as was asked for.
func (s *session) takeRead(reply rueidis.RedisMessage, count int) error {
	streams, most := 0, 0
	take := func(stream int, entries rueidis.RedisMessage) error {
		n, err := s.take(stream, entries)
		streams, most = streams+1, max(most, n)
		return err
	}
	if reply.IsMap() {
		byKey, err := reply.AsMap()
		if err != nil {
			return err
		}
		for i, key := range s.g.Streams {
			if entries, ok := byKey[key]; ok {
				if err := take(i, entries); err != nil {
					return err
				}
			}
		}
	} else {
		pairs, err := reply.ToArray()
		if err != nil {
			return err
		}
		for _, pair := range pairs {
			part, err := parts(pair, 2)
			if err != nil {
				return err
			}
			key, err := part[0].ToString()
			if err != nil {
				return err
			}
			if err := take(slices.Index(s.g.Streams, key), part[1]); err != nil {
				return err
			}
		}
	}
	s.mixed = streams > 1 && most >= count
	return nil
}

// parts is an array of n elements.
func parts(m rueidis.RedisMessage, n int) ([]rueidis.RedisMessage, error) {
	list, err := m.ToArray()
	if err == nil && len(list) != n {
		err = fmt.Errorf("a reply of %d parts, want %d", len(list), n)
	}
	return list, err
}

// take takes in entries of one stream, each an array of id and fields.
func (s *session) take(stream int, list rueidis.RedisMessage) (n int, err error) {
	entries, err := list.ToArray()
	if err != nil {
		return 0, err
	}
	if stream < 0 {
		return 0, errors.New("entries of a stream that was not asked for")
	}
	for _, m := range entries {
		part, err := parts(m, 2)
		if err != nil {
			return n, err
		}
		id, err := part[0].ToString()
		if err != nil {
			return n, err
		}
		e, err := s.entry(stream, id, part[1])
		if err != nil {
			return n, err
		}
		if s.held.add(e) {
			n++
		}
	}
	return n, nil
}

// entry makes an Entry of its id and its fields, an array of names and values.
func (s *session) entry(stream int, id string, fields rueidis.RedisMessage) (*Entry, error) {
	e := s.blank(stream, id)
	if s.g.Field != "" {
		part, err := fields.ToArray()
		if err != nil {
			return nil, err
		}
		if len(part) == 2 {
			name, err := part[0].ToString()
			if err != nil {
				return nil, err
			}
			if name == s.g.Field {
				e.Data, err = part[1].ToString()
				return e, err
			}
		}
	}
	var err error
	if e.Fields, err = fields.AsStrMap(); err != nil {
		return nil, err
	}
	e.Data = e.Fields[s.g.Field]
	e.count(s.g.Before)
	return e, nil
}

// blank makes a new Entry without its data.
func (s *session) blank(stream int, id string) *Entry {
	return &Entry{Stream: s.g.Streams[stream], ID: id, Deliveries: 1,
		session: s, stream: stream, group: s.g.Name, worker: s.epoch.key, token: s.epoch.token}
}

// readOwn takes in the next page of what is pending for this worker and not held: from before a restart, or given to us by a read
// whose reply got lost.
func (s *session) readOwn(run context.Context, room int) error {
	s.held.watch()
	defer s.held.unwatch()
	last, _, err := s.claim(run, s.own.stream, s.g.Worker.id, s.own.id, max(min(room, ownPage), 1))
	if err != nil {
		return err
	}
	s.ownNext(last)
	return nil
}

// fromStart is the beginning of an own read.
var fromStart = ref{0, "-"}

// ownNext moves the own read behind the id looked at last; "" = there was none.
func (s *session) ownNext(last string) {
	switch {
	case last != "":
		s.own.id = after(last)
	case s.own.stream+1 < len(s.g.Streams):
		s.own = ref{s.own.stream + 1, "-"}
	default:
		s.own = ref{}
	}
}

// after is the smallest id greater than id.
func after(id string) string {
	ms, seq, ok := strings.Cut(id, "-")
	n, err := strconv.ParseUint(seq, 10, 64)
	if !ok || err != nil || n+1 == 0 {
		return id
	}
	return ms + "-" + strconv.FormatUint(n+1, 10)
}

// claim takes in one page of what holder holds of a stream, holder being this worker itself or a dead one. It returns the last id looked at,
// "" if there was none, and how many entries came.
func (s *session) claim(run context.Context, stream int, holder, from string, count int) (last string, n int, err error) {
	ctx, cancel := call(run, 0)
	defer cancel()
	w := s.g.Worker
	key := s.g.Streams[stream]
	reply, err := claimScript.Run(ctx, w.rdb, []string{w.key(), w.keys.Worker(holder), key},
		s.epoch.token, s.g.Name, w.id, holder, takeoverMark, milliseconds(w.ttl), from, strconv.Itoa(count)).ToArray()
	if err != nil {
		return "", 0, err
	}
	word, err := first(reply)
	switch {
	case err != nil:
		return "", 0, fmt.Errorf("claim.lua: %w", err)
	case word == "lost":
		return "", 0, errStale
	case word == "alive":
		return "", 0, nil
	case len(reply) < 3:
		return "", 0, fmt.Errorf("claim.lua replied %q and too little", word)
	}
	if last, err = reply[1].ToString(); err != nil {
		return "", 0, fmt.Errorf("claim.lua: %w", err)
	}
	gone, err := reply[2].AsStrSlice()
	if err != nil {
		return "", 0, fmt.Errorf("claim.lua: %w", err)
	}
	for _, part := range reply[3:] {
		e, err := s.claimed(stream, part)
		if err != nil {
			return "", 0, fmt.Errorf("claim.lua: %w", err)
		}
		e.found = s.g.Free != nil && holder == w.id && e.Deliveries-e.before == 1
		s.held.add(e)
	}
	s.tellLost(key, gone)
	return last, len(reply) - 3, nil
}

func first(reply []rueidis.RedisMessage) (string, error) {
	if len(reply) == 0 {
		return "", errors.New("empty reply")
	}
	return reply[0].ToString()
}

// claimed reads one entry of claim.lua's reply.
func (s *session) claimed(stream int, m rueidis.RedisMessage) (*Entry, error) {
	part, err := parts(m, 3)
	if err != nil {
		return nil, err
	}
	id, err := part[0].ToString()
	if err != nil {
		return nil, err
	}
	n, err := part[1].AsInt64()
	if err != nil {
		return nil, err
	}
	e, err := s.entry(stream, id, part[2])
	if err != nil {
		return nil, err
	}
	e.Deliveries, e.delivered = n+e.before, true
	return e, nil
}

// tellLost reports entries whose data is gone.
func (s *session) tellLost(stream string, ids []string) {
	if len(ids) == 0 {
		return
	}
	s.log.Error("stream: pending entries were deleted or trimmed by somebody", "stream", stream, "ids", ids)
	s.g.observe(LostData, len(ids))
	if s.g.Lost == nil {
		return
	}
	if _, err := guard(func() (Result, error) { s.g.Lost(s.ctx, stream, ids); return Ack, nil }); err != nil {
		s.log.Error("stream: telling of lost entries failed", "error", err)
	}
}

// sweepDead looks for consumers without a heartbeat and takes over what they hold, as far as there is room; others do the same. It also finds
// out whether more is pending for this worker than it holds.
func (s *session) sweepDead(run context.Context) error {
	w := s.g.Worker
	mine := s.held.count()
	consumers, err := s.consumers(run)
	if err != nil {
		return err
	}
	pending := int64(0)
	var others []consumer
	for _, c := range consumers {
		if c.name == w.id {
			pending += c.pending
		} else {
			others = append(others, c)
		}
	}
	if pending > int64(mine) {
		s.own, s.grace = fromStart, offerGrace
	}
	dead, err := s.deadOf(run, others)
	if err != nil {
		return err
	}
	for _, c := range dead {
		all, err := s.takeOver(run, c)
		if err != nil {
			return err
		}
		if !all { // go on as soon as there is room, before anything new is read
			s.sweep = time.Now()
			return nil
		}
	}
	every := min(w.ttl/3, longestSweep)
	if len(others) == 0 { // who comes now is known before it can be dead
		every = min(w.ttl/3, lonelySweep)
	}
	s.sweep = time.Now().Add(every*3/4 + rand.N(every/2))
	return nil
}

type consumer struct {
	stream  int
	name    string
	pending int64
}

// consumers lists those of the group on every stream. One round trip.
func (s *session) consumers(run context.Context) ([]consumer, error) {
	ctx, cancel := call(run, 0)
	defer cancel()
	rdb := s.g.Worker.rdb
	cmds := make(rueidis.Commands, len(s.g.Streams))
	for i, key := range s.g.Streams {
		cmds[i] = rdb.B().XinfoConsumers().Key(key).Group(s.g.Name).Build()
	}
	var all []consumer
	for i, r := range rdb.DoMulti(ctx, cmds...) {
		list, err := r.ToArray()
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			info, err := m.AsMap()
			if err != nil {
				return nil, err
			}
			name, pending := info["name"], info["pending"]
			c := consumer{stream: i}
			if c.name, err = name.ToString(); err != nil {
				return nil, err
			}
			if c.pending, err = pending.AsInt64(); err != nil {
				return nil, err
			}
			all = append(all, c)
		}
	}
	return all, nil
}

// deadOf returns those whose heartbeat is missing, or marked as being taken over. One round trip, none if there are no others.
func (s *session) deadOf(run context.Context, others []consumer) ([]consumer, error) {
	if len(others) == 0 {
		return nil, nil
	}
	ctx, cancel := call(run, 0)
	defer cancel()
	names := make([]string, len(others))
	for i, c := range others {
		names[i] = c.name
	}
	alive, err := Living(ctx, s.g.Worker.rdb, s.g.Worker.keys, names)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(others, func(c consumer) bool { return alive[c.name] }), nil
}

// takeOver claims from a dead consumer until nothing is left or there is no room. The script deletes the consumer when it is empty.
func (s *session) takeOver(run context.Context, c consumer) (all bool, err error) {
	total := 0
	for run.Err() == nil && !all {
		room := s.room()
		if room <= 0 {
			break
		}
		last, n, err := s.claim(run, c.stream, c.name, "-", min(room, ownPage))
		if err != nil {
			return false, err
		}
		total += n
		all = last == ""
	}
	if total > 0 && !GivenBack(c.name) {
		s.g.observe(TakenOver, total)
		s.log.Warn("stream: entries of a dead worker taken over", "stream", s.g.Streams[c.stream], "from", c.name, "entries", total)
	}
	return all, nil
}

// IsNoGroup says whether an error of Redis is that a stream, or its group, does not exist.
func IsNoGroup(err error) bool {
	return strings.Contains(err.Error(), "NOGROUP") || strings.Contains(err.Error(), "no such key")
}
