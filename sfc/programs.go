package sfc

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/taktworks/takt/recipe"
)

// programs keeps compiled recipes by the SHA-256 of their text, so that an answer compiles nothing.
type programs struct {
	*recent[string, *recipe.Program]
}

func newPrograms(budget int) *programs {
	return &programs{newRecent[string, *recipe.Program](budget)}
}

// A compiled recipe takes about so many times the bytes of its text: 3 without conditions, more with them.
const programFactor = 8

// known returns the program of a recipe text, nil if it is not compiled here.
func (p *programs) known(sha string) *recipe.Program {
	program, _ := p.get(sha)
	return program
}

// compile returns the program of text, compiled now if it was not. Two callers may compile the same text at once, which
// costs time and nothing else. The error is a *recipe.InvalidError.
func (p *programs) compile(text []byte) (*recipe.Program, error) {
	sum := sha256.Sum256(text)
	if program := p.known(hex.EncodeToString(sum[:])); program != nil {
		return program, nil
	}
	program, err := recipe.Compile(text)
	if err != nil {
		return nil, err
	}
	p.put(program.SHA(), program, programFactor*len(text))
	return program, nil
}
