package console

import (
	"context"
	"net/http"
)

// Role says what a visitor may do. Each role may do what those below it may.
type Role int

// Viewers look, operators steer what is there, admins take things away for good, or from many at once.
const (
	Viewer Role = iota + 1
	Operator
	Admin
)

func (r Role) String() string { return [...]string{"", "viewer", "operator", "admin"}[r] }

// Visitor is who asks for a page.
type Visitor struct {
	Name string // "" = not known
	Role Role
}

type visitorKey struct{}

// visitorOf is who asked.
func visitorOf(ctx context.Context) Visitor {
	v, _ := ctx.Value(visitorKey{}).(Visitor)
	return v
}

// visitor says who asks: everyone who reaches a console of this machine is an operator.
func (c *Console) visitor(*http.Request) Visitor { return Visitor{Role: Operator} }
