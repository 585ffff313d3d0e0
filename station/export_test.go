package station

// Hold keeps the station from everything that its state is needed for, such as beginning to take work, until release.
func (s *Station) Hold() (release func()) {
	s.mu.Lock()
	return s.mu.Unlock
}
