package jobstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/isa95"
)

// Condition is how far the streams are, and which processes there are.
type Condition struct {
	Streams   []StreamInfo   `json:"streams"`
	Instances []InstanceInfo `json:"instances"` // by name
}

// StreamInfo is one stream that processes read.
type StreamInfo struct {
	Name    string    `json:"name"`            // key below the prefix
	Holds   string    `json:"holds"`           // in words
	Reader  string    `json:"reader"`          // consumer group, or the role whose holder reads it
	Entries int64     `json:"entries"`         // that it has
	Lag     int64     `json:"lag"`             // that no process has taken; of the changes at most MaxLag
	Pending int64     `json:"pending"`         // that a process has in hand
	Oldest  time.Time `json:"oldest,omitzero"` // when the oldest one came that is not done
}

// MaxLag is up to where the changes that are not published are counted.
const MaxLag = 100

// InstanceInfo is one process.
type InstanceInfo struct {
	Name   string   `json:"name"`
	Alive  bool     `json:"alive"`            // it has a heartbeat
	Roles  []string `json:"roles"`            // as it enlisted itself; none with a session expiry of 0
	Leases []string `json:"leases,omitempty"` // roles of one process at a time that it has now
	InHand int64    `json:"in_hand"`          // entries of the streams of work
}

// DeadStream is a stream of dead letters.
type DeadStream struct {
	Name    string `json:"name"`  // key below the prefix
	Holds   string `json:"holds"` // in words
	Letters int64  `json:"letters"`
}

// globalCursor is the field of the cursor of the publisher.
const globalCursor = "_global"

// RoleSweeper is the role of the one process that repairs what crashes left.
const RoleSweeper = "sfc-sweeper"

// deadStreams are the keys of the streams of dead letters, and deadHolds what is in them.
func (s *Store) deadStreams() []string {
	k := s.keys
	return []string{k.IntakeDead(), k.PublisherDeadLetter(), k.DeadLetter(k.SfcWork()), k.DeadLetter(k.SfcOutbox()), k.DeadLetter(k.EventReceiver())}
}

var deadHolds = [...]string{"commands, answers, events and timers that could not be handled", "changes that could not be published", "work for the engine", "commands to equipment", "status events"}

func (s *Store) shortName(key string) string { return strings.TrimPrefix(key, s.keys.Prefix()+":") }

// number reads one into to.
func number(to *int64) func(rueidis.RedisResult) error {
	return func(r rueidis.RedisResult) (err error) {
		*to, err = r.AsInt64()
		return err
	}
}

// Condition reads it all in three round trips, 14 commands at any size.
func (s *Store) Condition(ctx context.Context) (c Condition, err error) {
	b, k := s.rdb.B(), s.keys
	c.Instances = []InstanceInfo{}
	c.Streams = []StreamInfo{
		{Name: s.shortName(k.SfcWork()), Holds: "job orders that the engine is to start or go on with", Reader: groupSFC},
		{Name: s.shortName(k.SfcOutbox()), Holds: "commands to equipment", Reader: groupOutbox},
		{Name: s.shortName(k.EventReceiver()), Holds: "status events to send", Reader: RoleEvents},
		{Name: s.shortName(k.ChangesAll()), Holds: "changes for the retained topics; the last 5,000 stay", Reader: RolePublisher},
	}
	oldest := func(in *StreamInfo) func(rueidis.RedisResult) error {
		return func(r rueidis.RedisResult) error {
			first, err := r.AsXRange()
			if len(first) > 0 {
				in.Oldest = entryTime(first[0].ID).UTC()
			}
			return err
		}
	}
	processes := make(map[string]*InstanceInfo)
	process := func(name string) *InstanceInfo {
		if processes[name] == nil {
			processes[name] = &InstanceInfo{Name: name, Roles: []string{}}
		}
		return processes[name]
	}
	var l loader
	for i, key := range []string{k.SfcWork(), k.SfcOutbox(), k.EventReceiver(), k.ChangesAll()} {
		in := &c.Streams[i]
		l.add(b.Xlen().Key(key).Build(), number(&in.Entries))
		if key == k.ChangesAll() {
			continue
		}
		l.add(b.Xrange().Key(key).Start("-").End("+").Count(1).Build(), oldest(in))
		if key != k.EventReceiver() {
			l.add(b.Xpending().Key(key).Group(in.Reader).Build(), func(r rueidis.RedisResult) error { return pendingOf(r, in, process) })
		}
	}
	l.add(b.Hgetall().Key(k.Instances()).Build(), func(r rueidis.RedisResult) error {
		all, err := r.AsStrMap()
		for field, roles := range all {
			p := process(sessionOf(field).Instance)
			p.Roles = append(p.Roles, strings.Split(roles, ",")...)
		}
		return err
	})
	roles := []string{RolePublisher, RoleEvents, RoleSweeper}
	l.add(b.Mget().Key(s.leaseKey(roles[0]), s.leaseKey(roles[1]), s.leaseKey(roles[2])).Build(), func(r rueidis.RedisResult) error {
		tokens, err := r.ToArray()
		for i, t := range tokens {
			token, _ := t.ToString() // nil: no process has it now
			if name, _, held := strings.Cut(token, " "); held {
				p := process(name)
				p.Leases = append(p.Leases, roles[i])
			}
		}
		return err
	})
	cursor := ""
	l.add(b.Hget().Key(k.Cursors()).Field(globalCursor).Build(), func(r rueidis.RedisResult) (err error) {
		if cursor, err = r.ToString(); rueidis.IsRedisNil(err) {
			cursor, err = "0", nil
		}
		return err
	})
	if err = l.run(ctx, s.rdb); err != nil {
		return c, fmt.Errorf("jobstore: condition: %w", err)
	}
	alive, err := stream.Living(ctx, s.rdb, k, slices.Collect(maps.Keys(processes)))
	if err != nil {
		return c, fmt.Errorf("jobstore: condition: %w", err)
	}
	for name, p := range processes {
		p.Alive = alive[name]
	}
	changes := &c.Streams[3]
	left, err := s.rdb.Do(ctx, b.Xrange().Key(k.ChangesAll()).Start("("+cursor).End("+").Count(MaxLag).Build()).AsXRange()
	if err != nil {
		return c, fmt.Errorf("jobstore: condition: %w", err)
	}
	if changes.Lag = int64(len(left)); len(left) > 0 {
		changes.Oldest = entryTime(left[0].ID).UTC()
	}
	for i := range c.Streams[:3] {
		c.Streams[i].Lag = max(c.Streams[i].Entries-c.Streams[i].Pending, 0)
	}
	for _, name := range slices.Sorted(maps.Keys(processes)) {
		p := processes[name]
		slices.Sort(p.Roles)
		p.Roles = slices.Compact(p.Roles)
		c.Instances = append(c.Instances, *p)
	}
	return c, nil
}

// pendingOf reads the summary of XPENDING: count, first, last, and how many each consumer has.
func pendingOf(r rueidis.RedisResult, in *StreamInfo, process func(string) *InstanceInfo) error {
	summary, err := r.ToArray()
	if err != nil && stream.IsNoGroup(err) || err == nil && len(summary) < 4 { // no process has been there yet
		return nil
	}
	if err != nil {
		return err
	}
	if in.Pending, err = summary[0].AsInt64(); err != nil {
		return err
	}
	consumers, _ := summary[3].ToArray() // nil: none
	for _, one := range consumers {
		pair, err := one.AsStrSlice()
		if err != nil || len(pair) != 2 {
			return cmp.Or(err, fmt.Errorf("XPENDING: %v", pair))
		}
		if !stream.GivenBack(pair[0]) {
			n, _ := strconv.ParseInt(pair[1], 10, 64) // a number of Redis
			process(pair[0]).InHand += n
		}
	}
	return nil
}

// Letter is one entry of a stream of dead letters.
type Letter struct {
	ID     string            `json:"id"` // in its stream
	Time   time.Time         `json:"time"`
	Fields map[string]string `json:"fields"`
}

// Read is why it is dead, "" = it does not say, and the names of the other fields that are not empty: by name, the largest values last.
func (l *Letter) Read() (reason string, names []string) {
	for _, name := range []string{"dead-error", "error", "reason", "dead-reason"} { // the most telling first
		if reason = cmp.Or(reason, l.Fields[name]); reason != "" {
			break
		}
	}
	for name, value := range l.Fields {
		if value != "" && value != reason {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(len(l.Fields[x])/200-len(l.Fields[y])/200, strings.Compare(x, y))
	})
	return reason, names
}

// DeadStreams counts the dead letters. One round trip.
func (s *Store) DeadStreams(ctx context.Context) ([]DeadStream, error) {
	all := s.deadStreams()
	dead := make([]DeadStream, len(all))
	var l loader
	for i, key := range all {
		dead[i].Name, dead[i].Holds = s.shortName(key), deadHolds[i]
		l.add(s.rdb.B().Xlen().Key(key).Build(), number(&dead[i].Letters))
	}
	if err := l.run(ctx, s.rdb); err != nil {
		return nil, fmt.Errorf("jobstore: dead letters: %w", err)
	}
	return dead, nil
}

// deadKey is the key of a stream of dead letters, by its name in DeadStreams.
func (s *Store) deadKey(name string) (string, error) {
	all := s.deadStreams()
	if i := slices.IndexFunc(all, func(key string) bool { return s.shortName(key) == name }); i >= 0 {
		return all[i], nil
	}
	return "", fmt.Errorf("jobstore: dead letters of %q: must be one of DeadStreams: %w", name, ErrNotFound)
}

// Letters reads n entries of a stream of dead letters, the newest first, from the one behind the id before on; "" = from the newest on. ErrNotFound: there is no such stream.
func (s *Store) Letters(ctx context.Context, name, before string, n int) ([]Letter, error) {
	from := "+"
	if before != "" {
		from = "(" + before
	}
	return s.letterRange(ctx, name, from, "-", n)
}

// Letter reads one of them, none if it is gone.
func (s *Store) Letter(ctx context.Context, name, id string) ([]Letter, error) {
	return s.letterRange(ctx, name, id, id, 1)
}

func (s *Store) letterRange(ctx context.Context, name, from, to string, n int) ([]Letter, error) {
	key, err := s.deadKey(name)
	if err != nil {
		return nil, err
	}
	entries, err := s.rdb.Do(ctx, s.rdb.B().Xrevrange().Key(key).End(from).Start(to).Count(int64(n)).Build()).AsXRange()
	if err != nil {
		return nil, fmt.Errorf("jobstore: dead letters of %s: %w", name, err)
	}
	letters := make([]Letter, len(entries))
	for i, e := range entries {
		letters[i] = Letter{e.ID, entryTime(e.ID).UTC(), e.FieldValues}
	}
	return letters, nil
}

// DeleteLetter deletes an entry of a stream of dead letters for good and returns 1, or 0 if it was gone. ErrNotFound: there is no such stream.
func (s *Store) DeleteLetter(ctx context.Context, name, id string) (int64, error) {
	key, err := s.deadKey(name)
	if err != nil {
		return 0, err
	}
	n, err := s.rdb.Do(ctx, s.rdb.B().Xdel().Key(key).Id(id).Build()).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("jobstore: delete dead letters of %s: %w", name, err)
	}
	return n, nil
}

// DeleteLettersUntil deletes the entries of a stream of dead letters up to the id last, that one included, and returns how many there were; newer ones stay. ErrNotFound: there is no such stream.
func (s *Store) DeleteLettersUntil(ctx context.Context, name, last string) (int64, error) {
	key, err := s.deadKey(name)
	if err != nil {
		return 0, err
	}
	ms, number, _ := strings.Cut(last, "-")
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("jobstore: delete dead letters of %s: last is %q: must be the id of an entry", name, last)
	}
	deleted, err := s.rdb.Do(ctx, s.rdb.B().Xtrim().Key(key).Minid().Exact().Threshold(fmt.Sprintf("%s-%d", ms, n+1)).Build()).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("jobstore: delete dead letters of %s: %w", name, err)
	}
	return deleted, nil
}

// Named says what has a name: exactly this one.
type Named struct {
	Order      bool     `json:"order,omitempty"` // one in EndState, too, while its documents are kept
	Scope      bool     `json:"scope,omitempty"` // configured, or with orders
	WorkMaster bool     `json:"work_master,omitempty"`
	Dead       []string `json:"dead,omitempty"` // streams of dead letters with an entry of this id
}

// Named looks for a name in one round trip.
func (s *Store) Named(ctx context.Context, name string) (n Named, err error) {
	b, k := s.rdb.B(), s.keys
	var l loader
	either := func(command rueidis.Completed, to *bool) {
		l.add(command, func(r rueidis.RedisResult) error {
			is, err := r.AsBool()
			*to = *to || is
			return err
		})
	}
	if _, err := isa95.ParseJobOrderID(name); err == nil {
		either(b.Exists().Key(k.JobOrder(name)).Build(), &n.Order)
	}
	either(b.Sismember().Key(k.ConfiguredScopes()).Member(name).Build(), &n.Scope)
	either(b.Sismember().Key(k.ActiveScopes()).Member(name).Build(), &n.Scope)
	either(b.Exists().Key(k.WorkMasterDelivered(name)).Build(), &n.WorkMaster)
	if IsEntryID(name) {
		for _, key := range s.deadStreams() {
			l.add(b.Xrange().Key(key).Start(name).End(name).Build(), func(r rueidis.RedisResult) error {
				found, err := r.AsXRange()
				if len(found) > 0 {
					n.Dead = append(n.Dead, s.shortName(key))
				}
				return err
			})
		}
	}
	if err := l.run(ctx, s.rdb); err != nil {
		return Named{}, fmt.Errorf("jobstore: look for %.64q: %w", name, err)
	}
	return n, nil
}

// IsEntryID says whether text is the whole id of an entry of a stream: MILLISECONDS-NUMBER.
func IsEntryID(text string) bool {
	ms, number, both := strings.Cut(text, "-")
	_, err := strconv.ParseUint(ms, 10, 63)
	_, errNumber := strconv.ParseUint(number, 10, 63)
	return both && err == nil && errNumber == nil
}
