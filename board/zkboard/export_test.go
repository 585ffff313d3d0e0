package zkboard

// Path is the folder of the board.
func (s *Store) Path() string { return s.path }

// Session is the number of the session, 0 if there is none.
func (s *Store) Session() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return 0
	}
	return s.current.sessionID()
}
