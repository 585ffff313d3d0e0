package task

import (
	"context"
	"maps"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

const (
	marksOverlap = time.Second // of scores that are read once more: whoever marks may have a clock of its own
	marksPage    = 5000        // marks of one round trip, when all are read
	marksAnew    = time.Minute // after which all are read again, should one removal and one addition have hidden each other
	marksShare   = 20          // at most one part in so many of the time goes to reading all because some were removed
)

// marks is a copy of the cancel marks, all of them. What is new comes by its score; when the number does not match, all are read. It is for one goroutine.
type marks struct {
	ids    map[string]bool // never changed, for others read it; nil = none
	newest float64         // highest score seen, ms
	at     time.Time       // when all were read
	took   time.Duration   // to read all
}

// news asks for the marks since the last read.
func (m *marks) news(b rueidis.Builder, key string) rueidis.Completed {
	from := "-inf"
	if m.at.IsZero() {
		from = "+inf" // read asks for all
	} else if m.newest > 0 {
		from = strconv.FormatFloat(m.newest-float64(marksOverlap.Milliseconds()), 'f', -1, 64)
	}
	return b.Zrange().Key(key).Min(from).Max("+inf").Byscore().Withscores().Build()
}

// read takes in what news brought. card is how many marks there were just before.
func (m *marks) read(ctx context.Context, rdb rueidis.Client, key string, card, news rueidis.RedisResult) (map[string]bool, error) {
	n, err := card.AsInt64()
	if err != nil {
		return nil, err
	}
	fresh, err := news.AsZScores()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, err
	}
	if n == 0 && len(fresh) == 0 {
		*m = marks{at: time.Now()}
		return nil, nil
	}
	m.add(fresh)
	have, since := int64(len(m.ids)), time.Since(m.at)
	if m.at.IsZero() || have < n || have > n && since > marksShare*m.took || since > marksAnew {
		if err := m.all(ctx, rdb, key); err != nil {
			return nil, err
		}
	}
	return m.ids, nil
}

func (m *marks) add(fresh []rueidis.ZScore) {
	var ids map[string]bool
	for _, z := range fresh {
		m.newest = max(m.newest, z.Score)
		if m.ids[z.Member] {
			continue
		}
		if ids == nil {
			if ids = maps.Clone(m.ids); ids == nil {
				ids = make(map[string]bool)
			}
		}
		ids[z.Member] = true
	}
	if ids != nil {
		m.ids = ids
	}
}

// all reads all marks. A scan misses none that is there from its beginning to its end.
func (m *marks) all(ctx context.Context, rdb rueidis.Client, key string) error {
	begin, ids, newest := time.Now(), make(map[string]bool), 0.0
	for cursor := uint64(0); ; {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		page, err := rdb.Do(call, rdb.B().Zscan().Key(key).Cursor(cursor).Count(marksPage).Build()).AsScanEntry()
		cancel()
		if err != nil {
			return err
		}
		for i := 0; i+1 < len(page.Elements); i += 2 {
			ids[page.Elements[i]] = true
			if score, err := strconv.ParseFloat(page.Elements[i+1], 64); err == nil {
				newest = max(newest, score)
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			break
		}
	}
	m.ids, m.newest, m.at, m.took = ids, newest, time.Now(), time.Since(begin)
	return nil
}
