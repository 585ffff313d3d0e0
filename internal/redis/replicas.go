package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

const (
	replicatedFor = time.Minute     // how long the mark of a Replicated stays
	replicaCall   = 5 * time.Second // of a call, beside the wait for replicas
)

// WaitWithin is how long a Wait waits by default.
const WaitWithin = time.Second

// Wait is how many replicas must have acknowledged a write before it counts as done. The zero value waits for nothing. Options of packages have its fields.
type Wait struct {
	Replicas int
	ForDisk  bool          // the append-only files of the master and of so many replicas have it (WAITAOF), not only their memories
	Within   time.Duration // 0 = WaitWithin
}

// Wants says that there is something to wait for.
func (w Wait) Wants() bool { return w.Replicas > 0 || w.ForDisk }

// Check names what no server can do.
func (w Wait) Check() error {
	switch {
	case w.Replicas < 0:
		return fmt.Errorf("Options.Replicas is %d: must be 0 (the master is enough) or more", w.Replicas)
	case w.Within < 0:
		return fmt.Errorf("Options.ReplicasWithin is %v: must be a time above 0, or 0 for %v", w.Within, WaitWithin)
	}
	return nil
}

// Probe asks a server whether it can wait so: WAITAOF came with Redis 7.2, and a master without an append-only file refuses it. One round trip with ForDisk, else none.
func (w Wait) Probe(ctx context.Context, rdb rueidis.Client) error {
	if !w.ForDisk {
		return nil
	}
	err := rdb.Do(ctx, rdb.B().Waitaof().Numlocal(1).Numreplicas(0).Timeout(1).Build()).Error()
	if _, said := serverCode(err); said != "" {
		return fmt.Errorf("the server cannot wait for disks (Options.WaitForDisk): %s: use Valkey, or Redis 7.2 or later, with appendonly yes on the master and its replicas", said)
	}
	return err
}

// On makes a connection of rdb that waits so; mark is a key in the slot of what is written. nil = nothing is to be waited for.
func (w Wait) On(rdb rueidis.Client, mark string) *Replicated {
	if !w.Wants() {
		return nil
	}
	return &Replicated{Client: rdb, mark: mark, want: w.Replicas, disk: w.ForDisk, within: cmp.Or(w.Within, WaitWithin)}
}

// Replicated is a connection for writes that must outlive a failover. WAIT counts the replicas that have what was written on the same connection, so each call has
// one of its own meanwhile, and its last write is one of Takt's own: replies may tell of what others wrote before, such as a name that is taken. Redirections of a
// cluster are not followed, for the WAIT would stay behind; they are errors of the kind Away. It is safe for concurrent use.
type Replicated struct {
	rueidis.Client
	mark   string        // key of the last write
	want   int           // replicas
	disk   bool          // not only their memories, and the master's disk, too
	within time.Duration // how long is waited for them
}

// ReplicasError says that something was written, and that too few replicas have acknowledged it: a failover now may lose it.
type ReplicasError struct {
	Acknowledged, Want int
	OnDisk             bool          // replicas acknowledge what their append-only files have, and the master's must have it, too
	NotOnMaster        bool          // that of the master has not
	Within             time.Duration // how long was waited
	Err                error         // why nothing is known of replicas, nil if the time was over
}

func (e *ReplicasError) Error() string {
	switch {
	case e.Err != nil && e.OnDisk:
		return fmt.Sprintf("stored, but it is not known whether the disks of the master and of %d replicas have it: %v", e.Want, e.Err)
	case e.Err != nil:
		return fmt.Sprintf("stored, but it is not known whether %d replicas have it: %v", e.Want, e.Err)
	case e.NotOnMaster:
		return fmt.Sprintf("stored, but not on the master's disk within %v (Options.WaitForDisk)", e.Within)
	case e.OnDisk:
		return fmt.Sprintf("stored, but on the disks of %d of %d replicas within %v (Options.Replicas, Options.WaitForDisk)", e.Acknowledged, e.Want, e.Within)
	}
	return fmt.Sprintf("stored, but %d of %d replicas acknowledged it within %v (Options.Replicas)", e.Acknowledged, e.Want, e.Within)
}

func (e *ReplicasError) Unwrap() error { return e.Err }

// Do is that of the client; a reply comes without an error only when replicas have what it tells of, else the error is a *ReplicasError.
func (r *Replicated) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return r.DoMulti(ctx, cmd)[0]
}

// DoMulti is Do for a pipeline.
func (r *Replicated) DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	if len(cmds) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.within+replicaCall)
	defer cancel()
	all := append(slices.Clone(cmds), r.B().Set().Key(r.mark).Value("").Px(replicatedFor).Build(), r.barrier())
	replies := doApart(ctx, r.Client, all...)
	replies, last := replies[:len(cmds)], replies[len(cmds):]
	short := r.short(last[1])
	if marked := last[0].Error(); marked != nil {
		short = &ReplicasError{Want: r.want, OnDisk: r.disk, Within: r.within, Err: marked}
	}
	for i := range replies {
		if short != nil && replies[i].Error() == nil {
			replies[i] = rueidis.NewErrorResult(short)
		}
	}
	return replies
}

// barrier waits for the replicas.
func (r *Replicated) barrier() rueidis.Completed {
	replicas, ms := int64(r.want), max(r.within.Milliseconds(), 1)
	if r.disk {
		return r.B().Waitaof().Numlocal(1).Numreplicas(replicas).Timeout(ms).Build()
	}
	return r.B().Wait().Numreplicas(replicas).Timeout(ms).Build()
}

// short is what is missing by the reply to a barrier, nil = nothing.
func (r *Replicated) short(reply rueidis.RedisResult) *ReplicasError {
	e := &ReplicasError{Want: r.want, OnDisk: r.disk, Within: r.within}
	var have int64
	if r.disk {
		var disks []int64 // of the master, 0 or 1, and of replicas
		if disks, e.Err = reply.AsIntSlice(); e.Err == nil && len(disks) == 2 {
			e.NotOnMaster, have = disks[0] == 0, disks[1]
		}
	} else {
		have, e.Err = reply.AsInt64()
	}
	e.Acknowledged = int(have)
	if e.Err == nil && !e.NotOnMaster && e.Acknowledged >= r.want {
		return nil
	}
	return e
}
