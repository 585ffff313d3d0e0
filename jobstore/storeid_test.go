package jobstore_test

import (
	"testing"

	"github.com/google/uuid"
)

// A store has no id until a process serves it. Then it keeps the one it has; another store, and a flushed one, have another, which is higher the later it was given.
func TestStoreID(t *testing.T) {
	s, other := newShop(t), newShop(t)
	ensure := func(s *shop) string {
		t.Helper()
		id, err := s.EnsureID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if read, err := s.ID(t.Context()); err != nil || read != id {
			t.Fatalf("ID: %q %v, want %q", read, err, id)
		}
		return id
	}
	if id, err := s.ID(t.Context()); id != "" || err != nil {
		t.Errorf("before any process: %q %v", id, err)
	}
	first := ensure(s)
	if _, err := uuid.Parse(first); err != nil {
		t.Error(err)
	}
	if again := ensure(s); again != first {
		t.Errorf("%s, then %s", first, again)
	}
	if id := ensure(other); id <= first {
		t.Errorf("%s of a later store is not above %s", id, first)
	}
	s.do("DEL", s.keys.StoreID())
	if flushed := ensure(s); flushed <= first {
		t.Errorf("%s of a flushed store is not above %s", flushed, first)
	}
	s.do("DEL", s.keys.StoreID())
	s.do("LPUSH", s.keys.StoreID(), "another program's")
	if id, err := s.EnsureID(t.Context()); err == nil {
		t.Errorf("a key of another type gave the id %q", id)
	}
}
