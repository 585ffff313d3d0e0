package task

import (
	"context"

	"github.com/redis/rueidis"
)

// pairsPage is about how much one HSCAN or ZSCAN reads.
const pairsPage = 200

// pairs calls f for each pair of a hash or sorted set, some perhaps twice, with HSCAN or ZSCAN.
func (c *Client) pairs(ctx context.Context, page func(cursor uint64) rueidis.Completed, f func(name, value string)) error {
	for cursor := uint64(0); ; {
		r, err := c.rdb.Do(ctx, page(cursor)).AsScanEntry()
		if err != nil {
			return err
		}
		for i := 0; i+1 < len(r.Elements); i += 2 {
			f(r.Elements[i], r.Elements[i+1])
		}
		if cursor = r.Cursor; cursor == 0 {
			return nil
		}
	}
}

func (c *Client) hashPairs(ctx context.Context, key string, f func(field, value string)) error {
	return c.pairs(ctx, func(cursor uint64) rueidis.Completed {
		return c.rdb.B().Hscan().Key(key).Cursor(cursor).Count(pairsPage).Build()
	}, f)
}

func (c *Client) zsetPairs(ctx context.Context, key string, f func(member, score string)) error {
	return c.pairs(ctx, func(cursor uint64) rueidis.Completed {
		return c.rdb.B().Zscan().Key(key).Cursor(cursor).Count(pairsPage).Build()
	}, f)
}
