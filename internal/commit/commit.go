// Package commit changes documents in Redis: all of a decision, or nothing.
//
// Every change of state in Takt is load, decide, commit. A Commit says what the decision was made on
// (documents by their bytes, limits, memberships, the token of a lease) and what it writes:
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
	"slices"
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
	keys   []keyed
	index  map[string]int // positions in keys of those behind the first few
	docs   []doc
	checks []check
	writes []write
	words  []string // arguments of the writes
	nAdd   int
	err    error // the first write that Redis would refuse in the middle of the script
}

// keyed is a key that the commit names. Others name it by its position in keys, from 0.
type keyed struct {
	name    string
	before  string // the type that it must have, if any, before the commit; "" = whatever it has
	now     string // after the writes so far; "" = as before, none = deleted
	proven  bool   // some check finds out about its type
	integer bool   // INCR must be able to add one to what it has before
}

// doc is what is expected of a string: kind, a number of commit.lua, and the word that belongs to it, if any.
type doc struct {
	key  int
	kind int
	word string
}

// What commit.lua can expect of a string.
const (
	expectNothing = iota
	expectString  // or nothing
	expectInteger // or nothing
	expectBytes
	expectSHA1
)

// check is an expectation of a key that is no string. kind is a number of commit.lua.
type check struct {
	kind         int
	key          int
	name, wanted string
}

// What commit.lua can check of other keys.
const (
	checkCard = iota + 1
	checkMember
	checkField
)

type write struct {
	command  string
	key      int
	from, to int  // its arguments in words
	first    bool // of those to its key
	alone    bool // if it fails, the others stand
}

// The types of keys, as Redis names them.
const (
	typeString = "string"
	typeZSet   = "zset"
	typeSet    = "set"
	typeHash   = "hash"
	typeStream = "stream"
	typeNone   = "none"
)

const few = 16 // keys and writes, of most commits

// New returns an empty commit.
func New() *Commit {
	return &Commit{keys: make([]keyed, 0, few), writes: make([]write, 0, few), words: make([]string, 0, 4*few)}
}

// key is the position of a key in keys.
func (c *Commit) key(name string) int {
	for i := range c.keys[:min(len(c.keys), few)] {
		if c.keys[i].name == name {
			return i
		}
	}
	i, ok := c.index[name]
	if !ok {
		i = len(c.keys)
		c.keys = append(c.keys, keyed{name: name})
		if i >= few {
			if c.index == nil {
				c.index = make(map[string]int)
			}
			c.index[name] = i
		}
	}
	return i
}

// use notes that a key must be of a type. An absent key takes the type of the first write to it, and a deleted one that of
// the next.
func (c *Commit) use(key int, typ string) {
	k := &c.keys[key]
	switch k.now {
	case "":
		k.before, k.now = typ, typ
	case typeNone:
		k.now = typ
	case typ:
	default:
		if c.err == nil {
			c.err = &TypeError{Key: k.name, Want: typ, Have: k.now}
		}
	}
}

func (c *Commit) check(kind int, key, typ, name, wanted string) {
	k := c.key(key)
	c.use(k, typ)
	c.keys[k].proven = true
	c.checks = append(c.checks, check{kind, k, name, wanted})
}

// write notes a command with its arguments, and returns the position of its key.
func (c *Commit) write(command, key, typ string, args ...string) int {
	k := c.key(key)
	first := c.keys[k].now == ""
	if typ != "" {
		c.use(k, typ)
	}
	from := len(c.words)
	c.words = append(c.words, args...)
	c.writes = append(c.writes, write{command, k, from, len(c.words), first, false})
	return k
}

func (c *Commit) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("commit: "+format, args...)
	}
}

// wholeBytes is up to where the bytes that were read are sent themselves: Redis compares them in less time than it takes to hash what it has. (ADR 0040)
const wholeBytes = 4 << 10

// Expect wants the string at key to be the bytes that were read; nil means that the key was absent. read must not change until Run has returned.
func (c *Commit) Expect(key string, read []byte) {
	k := c.key(key)
	c.use(k, typeString)
	c.keys[k].proven = true
	switch {
	case read == nil:
		c.docs = append(c.docs, doc{k, expectNothing, ""})
	case len(read) <= wholeBytes:
		c.docs = append(c.docs, doc{k, expectBytes, rueidis.BinaryString(read)})
	default:
		sum := sha1.Sum(read)
		c.docs = append(c.docs, doc{k, expectSHA1, hex.EncodeToString(sum[:])})
	}
}

// ExpectCard wants the sorted set at key to have fewer than below members, before the commit's own writes.
func (c *Commit) ExpectCard(key string, below int64) {
	c.check(checkCard, key, typeZSet, "", strconv.FormatInt(below, 10))
}

// ExpectMember wants member to be in the set at key.
func (c *Commit) ExpectMember(key, member string) { c.check(checkMember, key, typeSet, member, "1") }

// ExpectField wants the field of the hash at key to have value; nil means that it is absent.
func (c *Commit) ExpectField(key, field string, value []byte) {
	if value == nil {
		c.check(checkField, key, typeHash, field, "-")
		return
	}
	c.check(checkField, key, typeHash, field, "="+string(value))
}

// Set stores a document; ttl 0 keeps it until deleted. value must not change until Run has returned.
func (c *Commit) Set(key string, value []byte, ttl time.Duration) {
	if ttl > 0 {
		c.write("SET", key, typeString, rueidis.BinaryString(value), "PX", milliseconds(ttl))
		return
	}
	c.write("SET", key, typeString, rueidis.BinaryString(value))
}

// Del deletes the key, whatever its type.
func (c *Commit) Del(key string) { c.keys[c.write("DEL", key, "")].now = typeNone }

// Expire lets an existing key expire after ttl; an absent key stays absent.
func (c *Commit) Expire(key string, ttl time.Duration) {
	c.write("PEXPIRE", key, "", milliseconds(ttl))
}

// ZAdd adds or moves a member of a sorted set. With a score that is not a number, Run fails.
func (c *Commit) ZAdd(key string, score float64, member string) {
	if math.IsNaN(score) {
		c.fail("ZADD %s: the score of %q is not a number", key, member)
	}
	c.write("ZADD", key, typeZSet, strconv.FormatFloat(score, 'f', -1, 64), member)
}

// ZRem removes a member of a sorted set.
func (c *Commit) ZRem(key, member string) { c.write("ZREM", key, typeZSet, member) }

// SAdd adds a member to a set.
func (c *Commit) SAdd(key, member string) { c.write("SADD", key, typeSet, member) }

// SRem removes a member of a set.
func (c *Commit) SRem(key, member string) { c.write("SREM", key, typeSet, member) }

// HSet sets a field of a hash. value must not change until Run has returned.
func (c *Commit) HSet(key, field string, value []byte) {
	c.write("HSET", key, typeHash, field, rueidis.BinaryString(value))
}

// HDel removes a field of a hash.
func (c *Commit) HDel(key, field string) { c.write("HDEL", key, typeHash, field) }

// Incr adds one to an integer.
func (c *Commit) Incr(key string) { c.add("INCR", key) }

func (c *Commit) add(command, key string, args ...string) {
	k := &c.keys[c.key(key)]
	if k.now == "" {
		k.integer = true
	} else if !k.integer {
		c.fail("%s %s: after another write to it, or an expectation", command, key)
	}
	c.write(command, key, typeString, args...)
}

// XAdd appends an entry of fields and values. maxLen keeps about so many entries; 0 never trims, as work
// must not be lost. The entry's id is in Result.IDs, at the place that XAdd returns.
func (c *Commit) XAdd(key string, maxLen int64, fieldsAndValues ...string) int {
	if n := len(fieldsAndValues); n == 0 || n%2 != 0 {
		c.fail("XADD %s: %d fields and values, want pairs", key, n)
	}
	c.write("XADD", key, typeStream)
	if maxLen > 0 {
		c.words = append(c.words, "MAXLEN", "~", strconv.FormatInt(maxLen, 10))
	}
	c.words = append(append(c.words, "*"), fieldsAndValues...)
	c.writes[len(c.writes)-1].to = len(c.words)
	c.nAdd++
	return c.nAdd - 1
}

// XAddNote is XAdd, without a limit, for an entry that no decision is made on, and it costs one command: if the key holds another type, the entry is not written, its id in
// Result.IDs is "", and all else is written.
func (c *Commit) XAddNote(key string, fieldsAndValues ...string) int {
	if k := &c.keys[c.key(key)]; k.now == "" {
		k.proven, k.now = true, typeStream
	}
	at := c.XAdd(key, 0, fieldsAndValues...)
	c.writes[len(c.writes)-1].alone = true
	return at
}

// Tighten gives a stream that few entries will follow the memory that it needs: Redis keeps a block of 4 kB for each young one, and none for a copy. by is the key of the copy,
// which takes the place of the stream. If one of both commands fails, the stream stays as it is, and all else is written.
func (c *Commit) Tighten(key, by string) {
	c.write("COPY", key, "", by, "REPLACE")
	c.writes[len(c.writes)-1].alone = true
	c.write("RENAME", by, "", key)
	c.writes[len(c.writes)-1].alone = true
}

// XAck acknowledges an entry for a group.
func (c *Commit) XAck(key, group, id string) { c.write("XACK", key, typeStream, group, id) }

// XDel deletes an entry.
func (c *Commit) XDel(key, id string) { c.write("XDEL", key, typeStream, id) }

// Empty says whether there is nothing to write.
func (c *Commit) Empty() bool { return len(c.writes) == 0 }

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
	args, err := c.arguments()
	if err != nil {
		return Result{}, err
	}
	names := make([]string, len(c.keys))
	for i := range c.keys {
		names[i] = c.keys[i].name
	}
	reply, err := apply.Run(ctx, rdb, names, args...).AsStrSlice()
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

// alone is added to the position of the command of a write that may fail alone.
const alone = 128

// mostNumber is the largest that two bytes hold: of the keys of a commit, of its writes, and of the arguments of a write.
const mostNumber = math.MaxUint16

// arguments encodes the commit for the script: numbers in the first two, words in those that follow.
func (c *Commit) arguments() ([]string, error) {
	unproven := c.hoist()
	for i, k := range c.keys {
		switch {
		case k.proven || i == unproven:
		case k.integer:
			c.docs = append(c.docs, doc{i, expectInteger, ""})
		case k.before == typeString:
			c.docs = append(c.docs, doc{i, expectString, ""})
		}
	}
	rights := make([]string, 0, few)
	for _, w := range c.writes {
		if !slices.Contains(rights, w.command) {
			rights = append(rights, w.command)
		}
	}

	args := make([]string, 2, 2+len(c.docs)+2*len(c.checks)+len(rights)+len(c.words))
	numbers, largest := make([]int, 0, 12*few), 0
	number := func(n int) {
		numbers, largest = append(numbers, n), max(largest, n)
	}
	number(len(c.docs))
	for _, d := range c.docs {
		number(d.key + 1)
		number(d.kind)
		if d.kind >= expectBytes {
			args = append(args, d.word)
		}
	}
	for _, typ := range [...]string{typeStream, typeSet, typeZSet, typeHash} {
		length := len(numbers)
		number(0)
		for i, k := range c.keys {
			if k.before == typ && !k.proven && i != unproven {
				number(i + 1)
			}
		}
		numbers[length] = len(numbers) - length - 1
	}
	number(len(c.checks))
	for _, k := range c.checks {
		number(k.kind)
		number(k.key + 1)
		args = append(args, k.name, k.wanted)
	}
	number(len(rights))
	args = append(args, rights...)
	number(len(c.writes))
	for _, w := range c.writes {
		command := slices.Index(rights, w.command) + 1
		if w.alone {
			command += alone
		}
		number(command)
		number(w.key + 1)
		number(w.to - w.from)
		args = append(args, c.words[w.from:w.to]...)
	}
	if unproven >= 0 {
		number(1)
	} else {
		number(0)
	}
	if largest > mostNumber {
		return nil, fmt.Errorf("commit: %d keys, writes or arguments of one: at most %d", largest, mostNumber)
	}
	args[0] = bytesOf(numbers, 0)
	if largest > math.MaxUint8 {
		args[1] = bytesOf(numbers, 8)
	}
	return args, nil
}

// bytesOf are the bytes of numbers that begin with a bit.
func bytesOf(numbers []int, bit int) string {
	text := make([]byte, len(numbers))
	for i, n := range numbers {
		text[i] = byte(n >> bit)
	}
	return rueidis.BinaryString(text)
}

// hoist puts a write first that finds out about the type of its key itself, which saves asking, and returns the position of the key; -1 if
// no write does. It is the first write to its key, so the order of those to one key stays. Sets are asked about together if there are
// several.
func (c *Commit) hoist() int {
	sets := 0
	for _, k := range c.keys {
		if !k.proven && k.before == typeSet {
			sets++
		}
	}
	adds := 0
	for i, w := range c.writes {
		if w.command == "XADD" {
			adds++ // their order is that of Result.IDs
		}
		k := c.keys[w.key]
		if !w.first || k.proven || k.before == "" || k.before == typeString || k.before == typeSet && sets > 1 || w.command == "XADD" && adds > 1 {
			continue
		}
		copy(c.writes[1:i+1], c.writes[:i])
		c.writes[0] = w
		return w.key
	}
	return -1
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}
