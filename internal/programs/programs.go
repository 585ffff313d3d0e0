// Package programs keeps compiled recipes.
package programs

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/taktworks/takt/internal/recent"
	"github.com/taktworks/takt/recipe"
)

// Cache keeps compiled recipes by the SHA-256 of their text, so that an answer or an order compiles nothing. Its methods may
// be called at once from any goroutine.
type Cache struct {
	recent *recent.Cache[string, *recipe.Program]
}

// New makes a cache that takes about so many bytes.
func New(budget int) *Cache {
	return &Cache{recent.New[string, *recipe.Program](budget)}
}

// A compiled recipe takes about so many times the bytes of its text: 3 without conditions, more with them.
const programFactor = 8

// Known returns the program of a recipe text, nil if it is not compiled here.
func (p *Cache) Known(sha string) *recipe.Program {
	program, _ := p.recent.Get(sha)
	return program
}

// Compile returns the program of text, compiled now if it was not. Two callers may compile the same text at once, which
// costs time and nothing else. The error is a *recipe.InvalidError.
func (p *Cache) Compile(text []byte) (*recipe.Program, error) {
	sum := sha256.Sum256(text)
	if program := p.Known(hex.EncodeToString(sum[:])); program != nil {
		return program, nil
	}
	program, err := recipe.Compile(text)
	if err != nil {
		return nil, err
	}
	p.recent.Put(program.SHA(), program, programFactor*len(text))
	return program, nil
}
