package jsonscan

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzScanner: a text is taken exactly if encoding/json takes it, and its strings are the same; what is written is read as it was.
func FuzzScanner(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,-0.5e+3,true,false,null,"x\u00e4\ud83d\ude80\n"],"b":{}}`, `[]`, ` [ 1 , 2 ] `, `[1,]`, `{,}`, `{"a" 1}`, `{"a":1`, `"\ud800"`, `"a`, "\"\t\"", `01`, `1.`, `-`, `nul`, ``, `1 2`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := Scanner{Data: []byte(text), MaxDepth: 1000, MaxElements: math.MaxInt}
		err := s.Skip()
		if err == nil {
			err = s.End()
		}
		if valid := json.Valid([]byte(text)) && utf8.ValidString(text); (err == nil) != valid && strings.Count(text, "[")+strings.Count(text, "{") < 1000 {
			t.Fatalf("%q: %v, valid %v", text, err, valid)
		}
		if err == nil && strings.HasPrefix(text, `"`) {
			var want string
			if err := json.Unmarshal([]byte(text), &want); err != nil {
				t.Fatal(err)
			}
			got, whole := Unescape([]byte(strings.Trim(text, " \t\r\n")[1 : len(strings.Trim(text, " \t\r\n"))-1]))
			if string(got) != want || !whole && !strings.Contains(want, "\uFFFD") {
				t.Fatalf("%q: %q %v, want %q", text, got, whole, want)
			}
		}
		var back string
		if err := json.Unmarshal(AppendString(nil, text), &back); err != nil || back != strings.ToValidUTF8(text, "\uFFFD") && utf8.ValidString(text) {
			t.Fatalf("%q: %q, %v", text, back, err)
		}
	})
}
