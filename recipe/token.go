package recipe

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"log/slog"
)

// Seed is what the tokens of the commands of one decision are made of: random bytes, drawn before the decision, so that the decision itself is a function of what it gets.
type Seed [32]byte

// Token is the proof that an answer comes from where its command went: it stands in the response topic of the command and nowhere else on the wire. Who does not read the
// commands of a station cannot answer for it.
//
// It is a secret: formatted or logged it shows nothing of itself. Convert it to a string where it is needed.
type Token string

// Token is the token of a command: 128 bits, the same for the same command. It gives away neither the seed nor another token.
func (s Seed) Token(commandID string) Token {
	mac := hmac.New(sha256.New, s[:])
	mac.Write([]byte(commandID))
	return Token(hex.EncodeToString(mac.Sum(nil)[:16]))
}

// Tokens gives the commands that are sent for the first time their tokens.
func (s Seed) Tokens(commands []Command) []Command {
	for i := range commands {
		if c := &commands[i]; !c.Again {
			c.Token = s.Token(c.ID)
		}
	}
	return commands
}

// Matches says whether given is t, in a time that does not depend on where they differ.
func (t Token) Matches(given Token) bool {
	return t != "" && subtle.ConstantTimeCompare([]byte(t), []byte(given)) == 1
}

// String hides the token.
func (t Token) String() string {
	if t == "" {
		return "no token"
	}
	return "(token)"
}

// GoString is String, for %#v.
func (t Token) GoString() string { return t.String() }

// LogValue is String, for slog.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }
