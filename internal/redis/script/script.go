// Package script runs a Lua script on the server by its hash, and by its text when the server does not know the hash.
package script

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Redis checks the user's rights at each command of a script, and keeps what was written before it refused one. So a script that writes more
// than once calls denied for all of its writes before the first. The function stands before each script that names it.
//
//go:embed denied.lua
var deniedLua string

// A key that expires tells whether its holder lives, unless the server's clock stepped back. shorten stands before each script that calls it.
//
//go:embed shorten.lua
var shortenLua string

// SteppedBack is what a caller logs, at level WARN, when a script says that shorten was needed.
const SteppedBack = "the clock of Redis stepped back: a lease or heartbeat would have outlived its time to live, and now ends after it; look at the time service of that machine"

const ttlMark = " ttl=" // as in shorten.lua

// WithTTL adds to a token, which is the value of a key that expires, its time to live: shorten reads it there.
func WithTTL(token string, ttl time.Duration) string {
	return token + ttlMark + strconv.FormatInt(ttl.Milliseconds(), 10)
}

// WithoutTTL is the token that WithTTL was given, or that an older build wrote without one.
func WithoutTTL(value string) string {
	i := strings.LastIndex(value, ttlMark)
	if i < 0 || strings.Trim(value[i+len(ttlMark):], "0123456789") != "" {
		return value
	}
	return value[:i]
}

// Script is one embedded .lua file. It is safe for concurrent use.
type Script struct {
	name string
	src  string
	lua  *rueidis.Lua
	hash string // SHA-1 of src, in hex
}

// New makes a Script. name is "package/file" and appears in errors; src is the text, whose header is the contract of its
// KEYS, ARGV and reply. It may call what denied.lua and shorten.lua define.
func New(name, src string) *Script {
	if strings.Contains(src, "shorten(") {
		src = shortenLua + src
	}
	if strings.Contains(src, "denied(") {
		src = deniedLua + src
	}
	sum := sha1.Sum([]byte(src))
	return &Script{name: name, src: src, lua: rueidis.NewLuaScript(src), hash: hex.EncodeToString(sum[:])}
}

// NewReader is New for a script that only reads. It is sent as EVALSHA_RO and EVAL_RO: the server refuses its writes, and rights to read are enough for its keys. It has no RunMulti and RunApart.
func NewReader(name, src string) *Script {
	s := New(name, src)
	s.lua = rueidis.NewLuaScriptReadOnly(s.src)
	return s
}

// Name is the name given to New.
func (s *Script) Name() string { return s.name }

// Source is the text that the server runs: that given to New, and before it those of denied.lua and shorten.lua that it uses.
func (s *Script) Source() string { return s.src }

// ErrCrossSlot is a script whose keys fall on more than one slot of a cluster; it was not sent.
var ErrCrossSlot = errors.New("keys of one script on several cluster slots")

// Run sends EVALSHA, and EVAL if the server answers NOSCRIPT (after a restart, a failover or SCRIPT FLUSH: E-S20). One round
// trip, two in that case. It is never sent twice for another reason: after a cut connection the outcome is unknown. Keys of
// several slots on a cluster are an error here, not the library's panic.
func (s *Script) Run(ctx context.Context, rdb rueidis.Client, keys []string, args ...string) rueidis.RedisResult {
	if err := s.check(rdb, keys); err != nil {
		return rueidis.NewErrorResult(err)
	}
	return s.lua.Exec(ctx, rdb, keys, args)
}

// RunApart is Run on a connection of its own, which nothing else uses meanwhile: for what must not wait behind megabytes that others send or are sent, such as a
// heartbeat on a slow link. On a cluster it is Run, for such a connection follows no redirection.
// What ctx ends may be carried out all the same, as with Run.
func (s *Script) RunApart(ctx context.Context, rdb rueidis.Client, keys []string, args ...string) rueidis.RedisResult {
	if rdb.Mode() == rueidis.ClientModeCluster {
		return s.Run(ctx, rdb, keys, args...)
	}
	apart, cancel := context.WithTimeout(context.WithoutCancel(ctx), apartCall)
	send := func(command, text string) rueidis.RedisResult {
		return rdb.Do(apart, rdb.B().Arbitrary(command, text, strconv.Itoa(len(keys))).Keys(keys...).Args(args...).Blocking())
	}
	done := make(chan rueidis.RedisResult, 1)
	go func() {
		defer cancel()
		r := send("EVALSHA", s.hash)
		if err, ok := rueidis.IsRedisErr(r.Error()); ok && err.IsNoScript() {
			r = send("EVAL", s.src)
		}
		done <- r
	}()
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
		return rueidis.NewErrorResult(ctx.Err())
	}
}

// apartCall is how long a connection of RunApart is waited for beyond the end of its context: a slow one must not be made anew for each call, which is slower.
const apartCall = 10 * time.Second
