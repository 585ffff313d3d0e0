package redis

import (
	"context"
	"strings"

	"github.com/redis/rueidis"
)

const scanPage = 1000

// Scan calls page with the names of all keys that match pattern, in pages, those of each node of a cluster in turn. A key may come twice; one that comes or
// goes meanwhile may be there or not. An error of page ends it.
func Scan(ctx context.Context, rdb rueidis.Client, pattern string, page func(keys []string) error) error {
	for _, node := range Nodes(rdb) {
		for cursor := uint64(0); ; {
			found, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(scanPage).Build()).AsScanEntry()
			if err != nil {
				return err
			}
			if len(found.Elements) > 0 {
				if err := page(found.Elements); err != nil {
					return err
				}
			}
			if cursor = found.Cursor; cursor == 0 {
				break
			}
		}
	}
	return nil
}

// Nodes are the servers to be asked for what has no key: one, or all of a cluster.
func Nodes(rdb rueidis.Client) []rueidis.Client {
	if rdb.Mode() != rueidis.ClientModeCluster {
		return []rueidis.Client{rdb}
	}
	var all []rueidis.Client
	for _, node := range rdb.Nodes() {
		all = append(all, node)
	}
	return all
}

var globs = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// Glob is a pattern that text alone matches.
func Glob(text string) string { return globs.Replace(text) }
