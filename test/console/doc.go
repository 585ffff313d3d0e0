// Package console has a real browser use the web console of a real system: make test-console.
package console
