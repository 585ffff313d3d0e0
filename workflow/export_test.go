package workflow

import "context"

// Clean is what a worker does once a minute.
func Clean(ctx context.Context, c *Client) error {
	for _, s := range c.shards {
		if err := s.clean(ctx); err != nil {
			return err
		}
	}
	return nil
}
