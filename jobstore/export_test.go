package jobstore

import "context"

// CheckLosses is one look of RunWorker at what this process committed.
func (s *Store) CheckLosses(ctx context.Context) error { return s.checkLosses(ctx) }
