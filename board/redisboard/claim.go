package redisboard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/internal/redis/script"
)

// Claim implements driver.Store, in one round trip however many candidates there are. The time to live is set in the same command as the owner, so that nothing leaves a claim for ever by accident.
func (s *Store) Claim(ctx context.Context, r driver.Request) ([]driver.Grant, error) {
	ms, err := milliseconds(r.TTL)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, 4+2*len(r.Candidates))
	names = append(names, s.keys.Listings(), s.keys.Fence(), s.keys.Attempts(), s.keys.Sequence())
	args := make([]string, 0, 5+len(r.Candidates))
	args = append(args, r.Owner, ms, s.modified(), "", strconv.Itoa(r.Max))
	if r.Reclaim {
		args[3] = "1"
	}
	for _, p := range r.Candidates {
		names = append(names, s.keys.Owner(p.Ref))
		args = append(args, p.Ref)
	}
	for _, p := range r.Candidates {
		names = append(names, s.keys.LastModified(p.Ref))
	}
	reply, err := claimScript.Run(ctx, s.rdb, names, args...).ToArray()
	if err != nil {
		return nil, s.failed(err)
	}
	switch word, _ := reply[0].ToString(); word {
	case "not_found":
		return nil, driver.ErrNotFound
	case "claimed":
		i, errIndex := reply[1].AsInt64()
		owner, errOwner := reply[2].ToString()
		if err := errors.Join(errIndex, errOwner); err != nil {
			return nil, fmt.Errorf("redisboard: claim: %w", err)
		}
		return nil, &driver.ClaimedError{Ref: r.Candidates[i-1].Ref, Owner: owner}
	}
	return grants(reply[1:])
}

// grants reads what claim.lua replied after ok.
func grants(reply []rueidis.RedisMessage) ([]driver.Grant, error) {
	n := make([]int64, len(reply))
	for i := range reply {
		var err error
		if n[i], err = reply[i].AsInt64(); err != nil {
			return nil, fmt.Errorf("redisboard: claim: %w", err)
		}
	}
	all := make([]driver.Grant, 0, len(n)/3)
	for g := range slices.Chunk(n[1:], 3) {
		all = append(all, driver.Grant{Index: int(g[0] - 1), Newest: n[0], Fence: uint64(g[1]), Attempt: int(g[2])})
	}
	return all, nil
}

// milliseconds is a time to live as Redis takes it: whole, and not so large that PX refuses it.
func milliseconds(ttl time.Duration) (string, error) {
	if ttl == driver.NoTTL {
		return "", nil
	}
	if ttl < time.Millisecond {
		return "", driver.Invalid("TTL", ttl.String(), "must be at least a millisecond, or NoTTL")
	}
	return strconv.FormatInt(ttl.Milliseconds(), 10), nil
}

// modified is the record of a change now.
func (s *Store) modified() string { return rueidis.BinaryString(appendTime(nil, s.now())) }

// Extend implements driver.Store.
func (s *Store) Extend(ctx context.Context, p *driver.Posting, owner string, ttl time.Duration, apart bool) error {
	ms, err := milliseconds(ttl)
	if err != nil {
		return err
	}
	run := extendScript.Run
	if apart {
		run = extendScript.RunApart
	}
	return s.said(run(ctx, s.rdb, []string{s.keys.Listings(), s.keys.Owner(p.Ref)}, owner, ms, p.Ref))
}

// Finish implements driver.Store: a script for up to 500 postings, all scripts in one pipeline. It tells the ending on the channel of events.
func (s *Store) Finish(ctx context.Context, what driver.Ending, all []driver.Held) []error {
	var calls []script.Call
	for some := range slices.Chunk(all, perScript) {
		names := []string{s.keys.Listings(), s.keys.Trash(), s.keys.Attempts()}
		args := []string{string(what), s.modified(), s.keys.Events()}
		for _, h := range some {
			names = append(names, s.keys.Owner(h.Ref), s.keys.LastModified(h.Ref))
			args = append(args, h.Ref, h.Owner)
		}
		calls = append(calls, script.Call{Keys: names, Args: args})
	}
	errs := make([]error, 0, len(all))
	for i, r := range finishScript.RunMulti(ctx, s.rdb, calls) {
		for _, h := range all[i*perScript : min((i+1)*perScript, len(all))] {
			errs = append(errs, s.finished(what, h, r, 2*(len(errs)-i*perScript)))
		}
	}
	return errs
}

// finished is what became of one posting, whose part of the reply begins at an index.
func (s *Store) finished(what driver.Ending, h driver.Held, r rueidis.RedisResult, at int) error {
	reply, err := r.AsStrSlice()
	if err != nil {
		return s.failed(err)
	}
	if at+1 < len(reply) {
		switch reply[at] {
		case "ok":
			return nil
		case "not_found":
			return driver.ErrNotFound
		case "unowned":
			return driver.ErrUnowned
		case "not_owner":
			return &driver.NotOwnerError{Ref: h.Ref, Owner: reply[at+1], Who: h.Owner}
		}
	}
	return fmt.Errorf("redisboard: %s replied %q", what, reply)
}
