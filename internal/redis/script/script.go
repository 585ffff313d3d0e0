// Package script runs a Lua script on the server by its hash, and by its text when the server does not know the hash.
package script

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Script is one embedded .lua file. It is safe for concurrent use.
type Script struct {
	name  string
	src   string
	lua   *rueidis.Lua
	hash  string // SHA-1 of src, in hex
	reads bool   // and writes nothing
}

// New makes a Script. name is "package/file" and appears in errors; src is the text, whose header is the contract of its
// KEYS, ARGV and reply.
func New(name, src string) *Script {
	return &Script{name: name, src: src, lua: rueidis.NewLuaScript(src), hash: SHA1(src)}
}

// SHA1 is the hash of a text in hex, as redis.sha1hex of a script makes it.
func SHA1(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Load is New for a file: name is "package/file", as files has it without ".lua" and the package. The files named by parts come before it. It panics if there is no such file: they are
// embedded.
func Load(files fs.FS, name string, parts ...string) *Script {
	var src strings.Builder
	for _, part := range append(parts, path.Base(name)) {
		text, err := fs.ReadFile(files, part+".lua")
		if err != nil {
			panic(err)
		}
		src.Write(text)
	}
	return New(name, src.String())
}

// LoadReader is Load for a script that only reads, as NewReader makes it.
func LoadReader(files fs.FS, name string, parts ...string) *Script {
	return Load(files, name, parts...).reader()
}

// NewReader is New for a script that only reads. It is sent as EVALSHA_RO and EVAL_RO: the server refuses its writes, and rights to read are enough for its keys. It has no RunMulti and RunApart.
func NewReader(name, src string) *Script { return New(name, src).reader() }

func (s *Script) reader() *Script {
	s.lua, s.reads = rueidis.NewLuaScriptReadOnly(s.src), true
	return s
}

// Name is the name given to New.
func (s *Script) Name() string { return s.name }

// Call is EVALSHA, or EVALSHA_RO of a script that only reads, for a pipeline; a server that does not know the script answers NOSCRIPT.
func (s *Script) Call(rdb rueidis.Client, keys, args []string) rueidis.Completed {
	if s.reads {
		return rdb.B().EvalshaRo().Sha1(s.hash).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
	}
	return rdb.B().Evalsha().Sha1(s.hash).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// Source is the text given to New.
func (s *Script) Source() string { return s.src }

// ErrCrossSlot is a script whose keys fall on more than one slot of a cluster; it was not sent.
var ErrCrossSlot = errors.New("keys of one script on several cluster slots")

// Run sends EVALSHA, and EVAL if the server answers NOSCRIPT (after a restart, a failover or SCRIPT FLUSH). One round
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
