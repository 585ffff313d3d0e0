package console

import (
	"context"
	"slices"

	"github.com/taktworks/takt/internal/users"
)

// Role says what a visitor may do. Each role may do what those below it may.
type Role int

// Viewers look, operators steer what is there, admins take things away for good, or from many at once.
const (
	Viewer Role = iota + 1
	Operator
	Admin
)

func (r Role) String() string {
	if r == 0 {
		return ""
	}
	return users.Roles[r-1]
}

// roleOf is the role of a name; 0 = there is none.
func roleOf(name string) Role { return Role(slices.Index(users.Roles, name) + 1) }

// Visitor is who asks for a page.
type Visitor struct {
	Name    string // "" = nobody logs in here
	Role    Role
	Address string // without port
	Session bool   // began here, so that it can be ended here
}

// alone tells whether nobody logs in here, so that there are no admins.
func (v Visitor) alone() bool { return v.Name == "" && v.Role == Operator }

type visitorKey struct{}

// visitorOf is who asked.
func visitorOf(ctx context.Context) Visitor {
	v, _ := ctx.Value(visitorKey{}).(Visitor)
	return v
}
