package redisboard

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/testenv"
)

// Between what a board has read and its script, another process, or TaskFlow, may have changed the posting. The script says so, and changes those keys only.
func TestScriptsComeTooLate(t *testing.T) {
	srv := testenv.Redis(t)
	sum := sha1.Sum([]byte("old"))
	old, none := hex.EncodeToString(sum[:]), "da39a3ee5e6b4b0d3255bfef95601890afd80709" // of nothing
	for name, c := range map[string]struct {
		script  *script.Script
		given   []string
		keys    string
		args    []string
		want    string // end of the reply
		changes string
	}{
		"extend: the posting is gone":             {extendScript, []string{"SET b me"}, "a b", []string{"me", "1000", "f"}, "lost", ""},
		"extend: another owns it":                 {extendScript, []string{"HSET a f r", "SET b other"}, "a b", []string{"me", "1000", "f"}, "lost", ""},
		"heal: the posting is there":              {healScript, []string{"SET a 5", "HSET b f r", "HSET c f 2"}, "a b c", []string{"1"}, "ok", ""},
		"heal: the counter is higher":             {healScript, []string{"SET a 5"}, "a b c", []string{"4"}, "ok", ""},
		"post: the posting is there":              {postScript, []string{"HSET a f stored", "SET b 7"}, "a b c", []string{"1000", "ch", "0", "f", "new"}, " stored", "c"},
		"post: it ran before":                     {postScript, []string{"SET c \x91\x07", "SET b 7"}, "a b c", []string{"1000", "ch", "0", "f", "new"}, " 7", ""},
		"post: the counter is lost":               {postScript, []string{"HSET a f stored"}, "a b c", []string{"1000", "ch", "1", "g", "new"}, " lost", ""},
		"purge: the posting is on the board":      {purgeScript, []string{"HSET a f r", "HSET b f r", "SET c modified"}, "a b c", []string{"f"}, "ok", "b"},
		"purge: it is not in the trash":           {purgeScript, []string{"HSET a f r", "SET c modified"}, "a b c", []string{"f"}, "not_found", ""},
		"quarantine: the record is gone":          {quarantineScript, []string{"SET c owner", "SET d modified"}, "a b c d", []string{"f", old, "ch"}, "not_found", ""},
		"quarantine: an empty record is gone":     {quarantineScript, []string{"SET c owner", "SET d modified"}, "a b c d", []string{"f", none, "ch"}, "not_found", ""},
		"quarantine: it is another record":        {quarantineScript, []string{"HSET a f new", "SET c owner", "SET d modified"}, "a b c d", []string{"f", old, "ch"}, "not_found", ""},
		"restore: it is on the board":             {restoreScript, []string{"HSET a f new", "HSET b f old", "SET c modified"}, "a b c", []string{"f", "ch"}, "exists", ""},
		"restore: it is not in the trash":         {restoreScript, []string{"SET c modified"}, "a b c", []string{"f", "ch"}, "not_found", ""},
		"finish: the posting is gone":             {finishScript, []string{"SET d me"}, "a b c d e", []string{"consume", "m", "ch", "f", "me"}, "not_found ", ""},
		"finish: another owns it":                 {finishScript, []string{"HSET a f r", "SET d other"}, "a b c d e", []string{"consume", "m", "ch", "f", "me"}, "not_owner other", ""},
		"finish: it has no owner":                 {finishScript, []string{"HSET a f r"}, "a b c d e", []string{"consume", "m", "ch", "f", "me"}, "unowned ", ""},
		"claim: another owns it":                  {claimScript, []string{"HSET a f r", "SET e other"}, "a b c d e f", []string{"me", "", "m", "0", "1", "f"}, "claimed 1 other", ""},
		"claim: another owns it, with Reclaim":    {claimScript, []string{"HSET a f r", "SET e other"}, "a b c d e f", []string{"me", "", "m", "1", "1", "f"}, "claimed 1 other", ""},
		"claim: the posting is gone":              {claimScript, nil, "a b c d e f", []string{"me", "", "m", "0", "1", "f"}, "not_found", ""},
		"claim: its owner is a key of other type": {claimScript, []string{"HSET a f r", "RPUSH e x"}, "a b c d e f", []string{"me", "", "m", "0", "1", "f"}, "claimed 1 a key that is no text", "b c"},
	} {
		t.Run(name, func(t *testing.T) {
			b := testenv.NewBed(t, srv, c.given...)
			before := b.Dump()
			if got := b.Run(c.script, c.keys, c.args...); !strings.HasSuffix(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if got := strings.Join(testenv.Changed(before, b.Dump()), " "); got != c.changes {
				t.Errorf("changed: %q, want %q", got, c.changes)
			}
		})
	}
}

// Whichever right is missing, a script does all of its work or none.
func TestScriptsWithoutEachRight(t *testing.T) {
	sum := sha1.Sum([]byte("old"))
	owned := []string{"HSET a f r g s", "HSET c f 2", "SET d me", "SET e before"}
	trial := testenv.NewTrial
	testenv.EachRight(t, testenv.Redis(t), map[string]testenv.Trial{
		"post":       trial(postScript, []string{"HSET a f stored", "SET b 7"}, "a b c", []string{"1000", "ch", "0", "f", "new", "g", "new"}),
		"claim":      trial(claimScript, []string{"HSET a f r g s", "SET b 7"}, "a b c d e f g h", []string{"me", "1000", "m", "0", "2", "f", "g"}),
		"consume":    trial(finishScript, owned, "a b c d e", []string{"consume", "m", "ch", "f", "me"}),
		"abandon":    trial(finishScript, owned, "a b c d e", []string{"abandon", "m", "ch", "f", "me"}),
		"unclaim":    trial(finishScript, owned, "a b c d e", []string{"unclaim", "m", "ch", "f", "me"}),
		"trash":      trial(finishScript, owned, "a b c d e", []string{"trash", "m", "ch", "f", "me"}),
		"purge":      trial(purgeScript, []string{"HSET b f r", "SET c modified"}, "a b c", []string{"f"}),
		"quarantine": trial(quarantineScript, []string{"HSET a f old", "SET c me", "SET d modified"}, "a b c d", []string{"f", hex.EncodeToString(sum[:]), "ch"}),
		"restore":    trial(restoreScript, []string{"HSET b f old", "SET c modified"}, "a b c", []string{"f", "ch"}),
		"register":   trial(registerScript, []string{"HSET a old 1"}, "a", []string{"f", "{}", "1000", "1"}),
		"extend":     trial(extendScript, []string{"HSET a f r", "SET b me"}, "a b", []string{"me", "1000", "f"}),
	})
}
