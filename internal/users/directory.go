package users

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/taktworks/takt/internal/filewatch"
)

// Directory has the users of a file, as it is now. A file that breaks is logged, and the users stay those that it had.
type Directory struct {
	file string
	log  *slog.Logger

	mu     sync.Mutex
	watch  filewatch.Watch
	users  map[string]User // by name
	tokens map[string]User // by hash
}

// Open reads a file of users. A file that cannot be used is an *Error.
func Open(file string, log *slog.Logger, now time.Time) (*Directory, error) {
	d := &Directory{file: file, log: log, watch: filewatch.Watch{Files: []string{file}}}
	d.watch.Read = d.read
	return d, d.watch.Look(now)
}

func (d *Directory) read() error {
	all, err := Read(d.file)
	if err != nil {
		return err
	}
	d.users, d.tokens = make(map[string]User), make(map[string]User)
	for _, u := range all {
		if u.Token {
			d.tokens[u.hash] = u
		} else {
			d.users[u.Name] = u
		}
	}
	return nil
}

// refresh reads the file if it changed, or could not be read before. The caller holds the lock.
func (d *Directory) refresh(now time.Time) {
	had := len(d.users) + len(d.tokens)
	if err := d.watch.Look(now); err == nil && had > 0 && len(d.users)+len(d.tokens) == 0 {
		d.log.Warn("the file of users of the console is empty now: all sessions and tokens have ended", "file", d.file)
	} else if err != nil {
		d.log.Error("the users of the console stay as they were, also those removed since: mend the file, or let the console read it", "err", err)
	}
}

// User is the person of a name.
func (d *Directory) User(name string, now time.Time) (User, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refresh(now)
	u, ok := d.users[name]
	return u, ok
}

// Token is the program that has a token which has not expired.
func (d *Directory) Token(token string, now time.Time) (User, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refresh(now)
	u, ok := d.tokens[Hash(token)]
	return u, ok && (u.Expires.IsZero() || now.Before(u.Expires))
}

// Judge bounds how many passwords are judged at once, for each takes a core for a quarter of a second.
type Judge chan struct{}

// Password tells whether a password is that of a user. It takes as long for a user that there is not.
func (p Judge) Password(ctx context.Context, u User, password string) (bool, error) {
	select {
	case p <- struct{}{}:
		defer func() { <-p }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	hash := cmp.Or(u.hash, noUser)
	if hash == noPassword {
		hash = noUser
	}
	within := password[:min(len(password), maxPassword)]
	right := bcrypt.CompareHashAndPassword([]byte(hash), []byte(within)) == nil
	return right && hash != noUser && within == password, nil
}
