// Package users is who may use the web console: sessions, and the file of users and tokens with a line for each, with a role and the hash of a password or token.
//
//	user anna operator $2a$12$...
//	token dashboard viewer 6bbc8c... 2027-01-31T00:00:00Z
package users

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// User is a line of the file of users: a person who logs in with a password, or that a proxy has logged in, or a program with a token.
type User struct {
	Name    string
	Role    string    // one of Roles
	Token   bool      // a program
	Expires time.Time // of a token; zero = never
	hash    string    // bcrypt of the password, NoPassword, or SHA-256 of the token in hex
}

// Bounds of passwords, in bytes: bcrypt reads no more.
const (
	MinPassword = 12
	maxPassword = 72
)

const (
	passwordCost = 12  // of bcrypt, the same for all: an answer that takes longer would tell names
	noPassword   = "-" // of a user whom a proxy knows
)

// noUser is compared in the place of a user that is not in the file, which takes as long. No password has this hash.
const noUser = "$2a$12$asH6J81z9I9YFQhZtmiswedUe1iStoRsDu0C6zN9xEi7p2BciWNVW"

// Roles are those that there are. Each may do what those before it may.
var Roles = []string{"viewer", "operator", "admin"}

// NewUser is a user with a password; "" = none, for one whom a proxy knows.
func NewUser(name, role, password string) (User, error) {
	u := User{Name: name, Role: role, hash: noPassword}
	if password == "" {
		return u, nil
	}
	if len(password) < MinPassword || len(password) > maxPassword {
		return u, fmt.Errorf("the password has %d bytes: must have %d to %d", len(password), MinPassword, maxPassword)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), passwordCost)
	u.hash = string(hash)
	return u, err
}

// NewToken is a program with a new token, which is nowhere but in the answer. A zero expires is never.
func NewToken(name, role string, expires time.Time) (u User, token string) {
	token = "takt_" + Secret()
	return User{Name: name, Role: role, Token: true, Expires: expires.UTC(), hash: Hash(token)}, token
}

// Secret is a text of 256 random bits.
func Secret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails, see crypto/rand
	return base64.RawURLEncoding.EncodeToString(b)
}

// Hash is what is kept of a secret of 256 random bits, which cannot be guessed from it.
func Hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func (u User) kind() string {
	if u.Token {
		return "token"
	}
	return "user"
}

// line is how a user stands in the file.
func (u User) line() string {
	if !u.Token {
		return fmt.Sprintf("user %s %s %s\n", u.Name, u.Role, u.hash)
	}
	expires := "never"
	if !u.Expires.IsZero() {
		expires = u.Expires.Format(time.RFC3339)
	}
	return fmt.Sprintf("token %s %s %s %s\n", u.Name, u.Role, u.hash, expires)
}

// Error is a file of users that cannot be used.
type Error struct {
	File string
	Line int // from 1; 0 = the whole file
	Rule string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("file of users %s: %s", e.File, e.Rule)
	}
	return fmt.Sprintf("file of users %s, line %d: %s", e.File, e.Line, e.Rule)
}

const nameRule = "must be 1 to 64 letters, digits and . _ @ + -, the first a letter or digit"

var (
	userName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$`)
	tokenHash = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// parseLine reads a line of the file. Its errors name no hash.
func parseLine(words []string) (u User, err error) {
	kind, rest := words[0], words[1:]
	u.Token = kind == "token"
	switch {
	case kind != "user" && kind != "token":
		return u, fmt.Errorf("begins with %.20q: must begin with user or token, or with # for a comment", kind)
	case kind == "user" && len(rest) != 3:
		return u, errors.New("must be: user NAME ROLE HASH")
	case u.Token && len(rest) != 4:
		return u, errors.New("must be: token NAME ROLE HASH EXPIRES")
	case !userName.MatchString(rest[0]):
		return u, fmt.Errorf("name %.80q: %s", rest[0], nameRule)
	}
	u.Name, u.hash = rest[0], rest[2]
	if u.Role = rest[1]; !slices.Contains(Roles, u.Role) {
		return u, fmt.Errorf("role %.20q: must be %s", u.Role, strings.Join(Roles, ", "))
	}
	if u.Token {
		if rest[3] != "never" {
			if u.Expires, err = time.Parse(time.RFC3339, rest[3]); err != nil {
				return u, fmt.Errorf("expires %.40q: must be never, or a time such as 2027-01-31T00:00:00Z", rest[3])
			}
		}
		if !tokenHash.MatchString(u.hash) {
			return u, errors.New("the hash must be SHA-256 in 64 hex digits: takt console token add makes it")
		}
		return u, nil
	}
	if cost, err := bcrypt.Cost([]byte(u.hash)); u.hash != noPassword && (err != nil || cost != passwordCost || len(u.hash) != len(noUser)) {
		return u, fmt.Errorf("the hash must be bcrypt of cost %d, or - for a user whom a proxy knows: takt console user add makes it", passwordCost)
	}
	return u, nil
}

// parse reads the file: a line for each user, empty lines and comments.
func parse(file string, text []byte) (users []User, err error) {
	seen := make(map[string]int)
	n := 0
	for line := range bytes.Lines(text) {
		n++
		words := strings.Fields(string(line))
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		u, err := parseLine(words)
		if err != nil {
			return nil, &Error{file, n, err.Error()}
		}
		key := words[0] + " " + u.Name
		if first := seen[key]; first > 0 {
			return nil, &Error{file, n, fmt.Sprintf("%s is in line %d, too: remove one of the lines", key, first)}
		}
		seen[key] = n
		users = append(users, u)
	}
	return users, nil
}

// Read reads a file of users. A file that cannot be used is a *Error.
func Read(file string) ([]User, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, &Error{file, 0, fmt.Sprintf("cannot be read (%v): takt console user add makes it", errors.Unwrap(err))}
	}
	return parse(file, text)
}

// Add adds a line to a file of users, which is made if there is none.
func Add(file string, u User) error {
	if !userName.MatchString(u.Name) {
		return fmt.Errorf("name %.80q: %s", u.Name, nameRule)
	}
	return rewrite(file, func(text []byte, users []User) ([]byte, error) {
		if slices.ContainsFunc(users, func(one User) bool { return one.Name == u.Name && one.Token == u.Token }) {
			return nil, &Error{file, 0, fmt.Sprintf("has a %s %q already: remove it first, takt console %s remove %s", u.kind(), u.Name, u.kind(), u.Name)}
		}
		if len(text) == 0 {
			text = []byte("# Users and tokens of the web console: takt console user add, takt console token add.\n")
		}
		if !bytes.HasSuffix(text, []byte("\n")) {
			text = append(text, '\n')
		}
		return append(text, u.line()...), nil
	})
}

// Remove takes a user, or a token, out of a file of users. Comments stay.
func Remove(file, name string, token bool) error {
	kind := User{Token: token}.kind()
	return rewrite(file, func(text []byte, _ []User) (kept []byte, err error) {
		found := false
		for line := range bytes.Lines(text) {
			if words := strings.Fields(string(line)); len(words) > 1 && words[0] == kind && words[1] == name {
				found = true
				continue
			}
			kept = append(kept, line...)
		}
		if !found {
			return nil, &Error{file, 0, fmt.Sprintf("has no %s %q: takt console %s list shows them", kind, name, kind)}
		}
		return kept, nil
	})
}

// rewrite replaces a file of users by a changed one that can be read, at once: a reader sees the old one or the new one. It has the owner and the group of the old one, or is new
// and readable for its owner alone; others may never read it. A symbolic link stays one.
func rewrite(file string, change func(text []byte, users []User) ([]byte, error)) (err error) {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	temp, err := os.OpenFile(file+".tmp", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // a lock, too
	if errors.Is(err, fs.ErrExist) {
		return &Error{file, 0, fmt.Sprintf("is being changed by another command; if there is none, one was ended in its work: remove %s.tmp", file)}
	}
	if err != nil {
		return &Error{file, 0, "cannot be written: " + err.Error()}
	}
	defer func() {
		if err != nil {
			temp.Close()
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &Error{file, 0, "cannot be read: " + err.Error()}
	}
	users, err := parse(file, text)
	if err != nil {
		return err
	}
	if text, err = change(text, users); err != nil {
		return err
	}
	if old, err := os.Stat(file); err == nil {
		if err := errors.Join(keepOwner(temp, old), os.Chmod(temp.Name(), old.Mode().Perm()&0o640|0o600)); err != nil {
			return &Error{file, 0, "cannot be given to its owner again: " + err.Error() + "; run the command as its owner"}
		}
	}
	if _, err = temp.Write(text); err != nil {
		return err
	}
	if err = errors.Join(temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), file)
}
