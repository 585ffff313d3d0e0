package jobstore

import "context"

// CheckLosses is one look of RunWorker at what this process committed.
func (s *Store) CheckLosses(ctx context.Context) error { return s.checkLosses(ctx) }

// BoundHistories sets the limits of histories.
func (s *Store) BoundHistories(entries, bytes int64) { s.history = historyBounds{entries, bytes} }

// BoundLetters sets the bounds of the dead letters of the intake.
func (s *Store) BoundLetters(number, bytes int) { s.letters = letterBounds{number, bytes} }

// GiveUpAfter sets how often a message fails before it is given up.
func (s *Store) GiveUpAfter(tries int) { s.suspects.tries = tries }
