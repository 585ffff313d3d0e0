package users

import (
	"sync"
	"time"
)

// How long a session lasts, and without a page that a person asked for; and how many one user may have, the oldest of which ends.
const (
	sessionLasts = 12 * time.Hour
	sessionIdle  = time.Hour
	sessionsEach = 20
)

// session is a user who logged in. It ends when the user of the file is another one.
type session struct {
	user        User
	begun, used time.Time
}

func (s *session) over(now time.Time) bool {
	return now.Sub(s.begun) >= sessionLasts || now.Sub(s.used) >= sessionIdle
}

// Sessions are in memory alone, by the hash of their cookie. The zero value is ready.
type Sessions struct {
	mu sync.Mutex
	of map[string]*session
}

// Begin makes a session and returns its cookie.
func (s *Sessions) Begin(u User, now time.Time) (cookie string) {
	cookie = Secret()
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest, has := "", 0
	for id, one := range s.of {
		if one.over(now) {
			delete(s.of, id)
			continue
		}
		if one.user.Name == u.Name {
			if has++; oldest == "" || one.begun.Before(s.of[oldest].begun) {
				oldest = id
			}
		}
	}
	if has >= sessionsEach {
		delete(s.of, oldest)
	}
	if s.of == nil {
		s.of = make(map[string]*session)
	}
	s.of[Hash(cookie)] = &session{u, now, now}
	return cookie
}

// Find is the user of a cookie. use counts as a sign of the person.
func (s *Sessions) Find(cookie string, now time.Time, use bool) (User, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.of[Hash(cookie)]
	if one == nil || one.over(now) {
		return User{}, false
	}
	if use {
		one.used = now
	}
	return one.user, true
}

// End ends the session of a cookie, if there is one.
func (s *Sessions) End(cookie string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, Hash(cookie))
}
