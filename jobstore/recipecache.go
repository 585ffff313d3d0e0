package jobstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
)

// RecipeCache has what lists say of recipes by the hash of what is stored, which never changes. The zero value is empty.
type RecipeCache struct {
	mu sync.Mutex
	of map[string]RecipeFacts
}

const (
	factsKept   = 5000
	textsAtOnce = 50 // that are read and checked, to bound memory
)

// Learn fills in the facts of recipes, without their texts. Those that cannot be read are joined to the error.
func (c *RecipeCache) Learn(ctx context.Context, store *Store, used []*UsedRecipe) (unread error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.of) > factsKept || c.of == nil {
		c.of = make(map[string]RecipeFacts)
	}
	hash := func(u *UsedRecipe) string { return cmp.Or(u.Content, u.SHA256) }
	var unknown []*UsedRecipe
	for _, u := range used {
		if u.RecipeFacts = c.of[hash(u)]; !u.Read {
			unknown = append(unknown, u)
		}
	}
	for some := range slices.Chunk(unknown, textsAtOnce) {
		unread = errors.Join(unread, store.ReadRecipes(ctx, some...))
		for _, u := range some {
			if u.Text = nil; u.Read {
				c.of[hash(u)] = u.RecipeFacts
			}
		}
	}
	return unread
}

// Forget empties it.
func (c *RecipeCache) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of = nil
}
