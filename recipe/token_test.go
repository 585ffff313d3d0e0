package recipe_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/taktworks/takt/recipe"
)

// A token is one per command id and seed, has 128 bits, and matches itself only.
func TestToken(t *testing.T) {
	one, two := recipe.Seed{1}, recipe.Seed{2}
	a := one.Token("c-1")
	if a != one.Token("c-1") {
		t.Error("a repeat has another token")
	}
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(string(a)) {
		t.Errorf("%d characters", len(string(a)))
	}
	for _, other := range []recipe.Token{one.Token("c-2"), two.Token("c-1"), "", a[:31], a + "0", recipe.Token(strings.ToUpper(string(a)))} {
		if a == other || a.Matches(other) || other.Matches(a) {
			t.Errorf("%q matches", string(other))
		}
	}
	if !a.Matches(a) || recipe.Token("").Matches("") {
		t.Error("a token does not match itself, or none matches none")
	}
}

// No way of printing shows a token; JSON, which is for Redis, has it.
func TestTokenIsNotShown(t *testing.T) {
	c := recipe.Command{ID: "c-1", Token: recipe.Seed{1}.Token("c-1")}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "token", c.Token, "command", c)
	for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %#v %v %s %q %x", c, c, c.Token, c.Token, c.Token, c.Token), log.String(), fmt.Sprint(fmt.Errorf("no: %v", c.Token))} {
		if strings.Contains(text, string(c.Token)) || strings.Contains(text, string(c.Token)[:8]) {
			t.Errorf("it shows: %s", text)
		}
	}
	text, err := json.Marshal(c)
	if err != nil || !bytes.Contains(text, []byte(c.Token)) {
		t.Errorf("%s, %v", text, err)
	}
	if recipe.Token("").String() == c.Token.String() {
		t.Error("none looks like one")
	}
}
