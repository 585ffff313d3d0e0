package console

import (
	"context"

	"github.com/taktworks/takt/internal/users"
)

type (
	Role    = users.Role
	Visitor = users.Visitor
)

const (
	Viewer   = users.Viewer
	Operator = users.Operator
	Admin    = users.Admin
)

type visitorKey struct{}

// visitorOf is the visitor who sent a request.
func visitorOf(ctx context.Context) Visitor {
	v, _ := ctx.Value(visitorKey{}).(Visitor)
	return v
}
