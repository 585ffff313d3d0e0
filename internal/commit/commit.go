// Package commit changes documents in Redis: all of a decision, or nothing.
//
// Every change of state in Takt is load, decide, commit. A Commit says what the decision was made on
// (documents by the SHA-1 of their bytes, limits, memberships, the token of a lease) and what it writes:
// documents, indexes, the streams that carry it on. One script checks the first and writes the second.
//
//	load ──► documents ──► decide (pure) ──► Commit ──► commit.lua ──► ok
//	  ▲                                                     │
//	  └────────────── ErrConflict: somebody was faster ◄─────┘
//
// When Redis answers nothing (connection lost, process killed), the outcome is unknown: the caller loads
// again and finds either what it wrote or what was there. Expectations make a repeat harmless.
package commit

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
)

//go:embed commit.lua
var commitLua string

var apply = script.New("internal/commit", commitLua)

// ErrConflict is what Run's error is when something expected is no longer so, and nothing was written.
// Load and decide again.
var ErrConflict = errors.New("commit: what was read has changed")

// ConflictError is the error behind ErrConflict: it names the key that had changed.
type ConflictError struct{ Key string }

func (e *ConflictError) Error() string   { return ErrConflict.Error() + ": " + e.Key }
func (e *ConflictError) Is(t error) bool { return t == ErrConflict }

// TypeError says that a key holds another type than Takt keeps there, and nothing was written. Something
// else writes under Takt's prefix: choose another prefix, or delete the key.
type TypeError struct{ Key, Want, Have string }

func (e *TypeError) Error() string {
	return fmt.Sprintf("commit: key %s holds a %s, want a %s; does another program use this prefix?", e.Key, e.Have, e.Want)
}

// Commit collects expectations and writes. The zero value is not usable; see New. It is built and run by
// one goroutine, and run once.
type Commit struct {
	keys   []string
	index  map[string]string // key -> position in keys, from 1
	checks []string
	nCheck int
	writes []string
	nWrite int
	nAdd   int
	err    error // the first write that Redis would refuse in the middle of the script
}

// New returns an empty commit.
func New() *Commit { return &Commit{index: make(map[string]string)} }

func (c *Commit) key(key string) string {
	at, ok := c.index[key]
	if !ok {
		c.keys = append(c.keys, key)
		at = strconv.Itoa(len(c.keys))
		c.index[key] = at
	}
	return at
}

func (c *Commit) check(kind, key, name, wanted string) {
	c.checks = append(c.checks, kind, c.key(key), name, wanted)
	c.nCheck++
}

func (c *Commit) write(command, key string, args ...string) {
	c.writes = append(c.writes, command, c.key(key), strconv.Itoa(len(args)))
	c.writes = append(c.writes, args...)
	c.nWrite++
}

func (c *Commit) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("commit: "+format, args...)
	}
}

// Expect wants the string at key to be the bytes that were read; nil means that the key was absent.
func (c *Commit) Expect(key string, read []byte) {
	if read == nil {
		c.check("doc", key, "", "-")
		return
	}
	sum := sha1.Sum(read)
	c.check("doc", key, "", hex.EncodeToString(sum[:]))
}

// ExpectCard wants the sorted set at key to have fewer than below members, before the commit's own writes.
func (c *Commit) ExpectCard(key string, below int64) {
	c.check("card", key, "", strconv.FormatInt(below, 10))
}

// ExpectMember wants member to be in the set at key.
func (c *Commit) ExpectMember(key, member string) { c.check("member", key, member, "1") }

// ExpectField wants the field of the hash at key to have value; nil means that it is absent.
func (c *Commit) ExpectField(key, field string, value []byte) {
	if value == nil {
		c.check("field", key, field, "-")
		return
	}
	c.check("field", key, field, "="+string(value))
}

// Set stores a document; ttl 0 keeps it until deleted.
func (c *Commit) Set(key string, value []byte, ttl time.Duration) {
	if ttl > 0 {
		c.write("SET", key, string(value), "PX", milliseconds(ttl))
		return
	}
	c.write("SET", key, string(value))
}

// Del deletes the key, whatever its type.
func (c *Commit) Del(key string) { c.write("DEL", key) }

// Expire lets an existing key expire after ttl; an absent key stays absent.
func (c *Commit) Expire(key string, ttl time.Duration) { c.write("PEXPIRE", key, milliseconds(ttl)) }

// ZAdd adds or moves a member of a sorted set. With a score that is not a number, Run fails (E-S18).
func (c *Commit) ZAdd(key string, score float64, member string) {
	if math.IsNaN(score) {
		c.fail("ZADD %s: the score of %q is not a number", key, member)
	}
	c.write("ZADD", key, strconv.FormatFloat(score, 'f', -1, 64), member)
}

// ZRem removes a member of a sorted set.
func (c *Commit) ZRem(key, member string) { c.write("ZREM", key, member) }

// SAdd adds a member to a set.
func (c *Commit) SAdd(key, member string) { c.write("SADD", key, member) }

// SRem removes a member of a set.
func (c *Commit) SRem(key, member string) { c.write("SREM", key, member) }

// HSet sets a field of a hash.
func (c *Commit) HSet(key, field string, value []byte) { c.write("HSET", key, field, string(value)) }

// HDel removes a field of a hash.
func (c *Commit) HDel(key, field string) { c.write("HDEL", key, field) }

// Incr adds one to an integer.
func (c *Commit) Incr(key string) { c.write("INCR", key) }

// XAdd appends an entry of fields and values. maxLen keeps about so many entries; 0 never trims, as work
// must not be lost (E-S21). The entry's id is in Result.IDs, at the place that XAdd returns.
func (c *Commit) XAdd(key string, maxLen int64, fieldsAndValues ...string) int {
	if n := len(fieldsAndValues); n == 0 || n%2 != 0 {
		c.fail("XADD %s: %d fields and values, want pairs", key, n)
	}
	args := make([]string, 0, len(fieldsAndValues)+4)
	if maxLen > 0 {
		args = append(args, "MAXLEN", "~", strconv.FormatInt(maxLen, 10))
	}
	c.write("XADD", key, append(append(args, "*"), fieldsAndValues...)...)
	c.nAdd++
	return c.nAdd - 1
}

// XAck acknowledges an entry for a group.
func (c *Commit) XAck(key, group, id string) { c.write("XACK", key, group, id) }

// XDel deletes an entry.
func (c *Commit) XDel(key, id string) { c.write("XDEL", key, id) }

// Empty says whether there is nothing to write.
func (c *Commit) Empty() bool { return c.nWrite == 0 }

// Result is what a commit that was applied returns.
type Result struct {
	IDs []string // ids of the entries that XAdd appended
}

// Run applies the commit in one round trip. ErrConflict and *TypeError mean that nothing was written. Any other
// error means that the outcome is unknown (see the package comment).
func (c *Commit) Run(ctx context.Context, rdb rueidis.Client) (Result, error) {
	if c.err != nil {
		return Result{}, c.err
	}
	args := make([]string, 0, len(c.checks)+len(c.writes)+2)
	args = append(args, strconv.Itoa(c.nCheck))
	args = append(args, c.checks...)
	args = append(args, strconv.Itoa(c.nWrite))
	args = append(args, c.writes...)
	reply, err := apply.Run(ctx, rdb, c.keys, args...).AsStrSlice()
	if err != nil {
		return Result{}, fmt.Errorf("commit: %w", err)
	}
	switch {
	case len(reply) > 0 && reply[0] == "ok":
		return Result{IDs: reply[1:]}, nil
	case len(reply) == 2 && reply[0] == "conflict":
		return Result{}, &ConflictError{Key: reply[1]}
	case len(reply) == 4 && reply[0] == "type":
		return Result{}, &TypeError{Key: reply[1], Want: reply[2], Have: reply[3]}
	}
	return Result{}, fmt.Errorf("commit: script replied %q", reply)
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}
