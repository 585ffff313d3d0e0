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
	named := make(map[string]bool) // contents that workmaster:{id} has, too
	judge := func(key string) (content []byte, err error) {
		doc, ok, err := read(ctx, c, key, c.store.rdb.B().Get().Key(key).Build(), asBytes)
		if !ok {
			return nil, err // nil: deleted meanwhile
		}
		content, _ = unsign(doc)
		var wm isa95.WorkMaster
		if err := isa95.Unmarshal(content, &wm); err != nil {
			c.violation(key, nextDelete, "cannot be read: %v", err)
			return nil, nil
		}
		if wm.DataSchema == recipe.SchemaURI {
			c.oldRecipe(key, wm.Data)
		}
		return content, nil
	}
	if err := c.each("workmaster:{id}", func(key, _ string) error {
		content, err := judge(key)
		named[Hash(content)] = true
		return err
	}); err != nil {
		return err
	}
	return c.each("wmx:content:{sha}", func(key, sha string) error {
		if named[sha] {
			return nil
		}
		if stays, err := c.stays(ctx, key); !stays {
			return err // no station runs it any more
		}
		_, err := judge(key)
		return err
	})
}

// oldRecipe reports the first of the findings that are for deliveries only, and how many there are.
func (c *checker) oldRecipe(key string, text []byte) {
	delivery := map[string]bool{}
	for _, r := range recipe.Rules() {
		delivery[r.Code] = r.Delivery
	}
	var found []recipe.Finding
	for _, f := range recipe.Check(text, c.opt.Recipes) {
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
