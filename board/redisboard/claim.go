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
	switch word(reply) {
	case "not_found":
		return nil, driver.ErrNotFound
	case "claimed":
		if len(reply) == 3 {
			i, errIndex := index(&reply[1], len(r.Candidates))
			owner, errOwner := reply[2].ToString()
			if err := errors.Join(errIndex, errOwner); err != nil {
				return nil, fmt.Errorf("redisboard: claim: %w", err)
			}
			return nil, &driver.ClaimedError{Ref: r.Candidates[i].Ref, Owner: owner}
		}
	case "ok":
		if len(reply) > 2 && len(reply)%3 == 2 {
			return grants(reply, len(r.Candidates))
		}
	}
	return nil, fmt.Errorf("redisboard: claim replied %v", reply)
}

// grants reads what claim.lua replied.
func grants(reply []rueidis.RedisMessage, candidates int) ([]driver.Grant, error) {
	newest, err := reply[1].AsInt64()
	errs := []error{err}
	all := make([]driver.Grant, 0, len(reply)/3)
	for part := reply[2:]; len(part) > 0; part = part[3:] {
		i, errIndex := index(&part[0], candidates)
		fence, errFence := part[1].AsUint64()
		attempt, errAttempt := part[2].AsInt64()
		errs = append(errs, errIndex, errFence, errAttempt)
		all = append(all, driver.Grant{Index: i, Newest: newest, Fence: fence, Attempt: int(attempt)})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("redisboard: claim: %w", err)
	}
	return all, nil
}

// word is the first part of a script's reply.
func word(reply []rueidis.RedisMessage) string {
	if len(reply) == 0 {
		return ""
	}
	text, _ := reply[0].ToString()
	return text
}

// index reads a number from 1 to n as an index from 0.
func index(m *rueidis.RedisMessage, n int) (int, error) {
	i, err := m.AsInt64()
	if err == nil && (i < 1 || i > int64(n)) {
		err = fmt.Errorf("candidate %d of %d", i, n)
	}
	return int(i - 1), err
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
