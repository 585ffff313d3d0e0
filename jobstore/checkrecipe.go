package jobstore

import (
	"context"
	"fmt"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

const nextMend = "orders run it as before; mend it and deliver it again, `takt recipe check` says the same of its file"

// oldRecipes names recipes that a delivery would be refused for today: an earlier version took them, so they run on.
func (c *checker) oldRecipes(ctx context.Context) error {
	return c.each("workmaster:{id}", func(key, _ string) error {
		doc, ok, err := read(ctx, c, key, c.store.rdb.B().Get().Key(key).Build(), asBytes)
		if !ok {
			return err // nil: deleted meanwhile
		}
		var wm isa95.WorkMaster
		if err := isa95.Unmarshal(doc, &wm); err != nil {
			c.violation(key, nextDelete, "cannot be read: %v", err)
			return nil
		}
		if wm.DataSchema == recipe.SchemaURI {
			c.oldRecipe(key, wm.Data)
		}
		return nil
	})
}

// oldRecipe reports the first of the findings that are for deliveries only, and how many there are.
func (c *checker) oldRecipe(key string, text []byte) {
	delivery := map[string]bool{}
	for _, r := range recipe.Rules() {
		delivery[r.Code] = r.Delivery
	}
	var found []recipe.Finding
	for _, f := range recipe.Check(text, recipe.Options{}) {
		if delivery[f.Code] && f.Severity == recipe.SeverityError {
			found = append(found, f)
		}
	}
	if len(found) == 0 {
		return
	}
	more := ""
	if len(found) > 1 {
		more = fmt.Sprintf(", and %d more", len(found)-1)
	}
	c.violation(key, nextMend, "its recipe would be refused today: %s at %s: %s%s", found[0].Code, found[0].Pointer, found[0].Message, more)
}
