package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// books stand for the systems of the company that are not Takt's: credit, shipping, invoices, letters. They outlive every process. What matters about them is that they know a request again by
// its key, and answer it as the first time: an activity whose worker died before it could say so is done again.
type books struct{ dir string }

// kinds of entries. An entry has a kind and an order: "invoice SO-1001".
var kinds = []string{"credit", "shipment", "invoice", "release", "delay", "apology"}

// once enters text under a key and returns it, or what was entered first.
func (b books) once(key, text string) (string, error) {
	draft, err := os.CreateTemp(b.dir, ".draft-")
	if err != nil {
		return "", err
	}
	defer os.Remove(draft.Name())
	defer draft.Close()
	if _, err := draft.WriteString(text); err != nil {
		return "", err
	}
	err = os.Link(draft.Name(), filepath.Join(b.dir, key)) // a whole entry, or none; and never a second one
	if errors.Is(err, fs.ErrExist) {
		text, _, err = b.find(key)
	}
	return text, err
}

// find returns what stands under a key.
func (b books) find(key string) (text string, there bool, err error) {
	entry, err := os.ReadFile(filepath.Join(b.dir, key))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	return string(entry), err == nil, err
}
