package task

import (
	"context"
	"strconv"
)

// pairsPage is about how much one HSCAN or ZSCAN reads.
const pairsPage = "200"

// pairs calls f for each pair of a hash or sorted set, some perhaps twice. scan is HSCAN or ZSCAN.
func (c *Client) pairs(ctx context.Context, scan, key string, f func(name, value string)) error {
	for cursor := uint64(0); ; {
		page := c.rdb.B().Arbitrary(scan).Keys(key).Args(strconv.FormatUint(cursor, 10), "COUNT", pairsPage)
		r, err := c.rdb.Do(ctx, page.ReadOnly()).AsScanEntry()
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
	return c.pairs(ctx, "HSCAN", key, f)
}

func (c *Client) zsetPairs(ctx context.Context, key string, f func(member, score string)) error {
	return c.pairs(ctx, "ZSCAN", key, f)
}
