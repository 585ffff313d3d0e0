package recipe

import (
	"strings"
	"testing"
)

// The tree of a long list takes little more room than its elements do, and is the same as of a short one.
func TestLongLists(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65, 200, 50_000} {
		for name, element := range map[string]string{"numbers": "1", "texts": `",]\"}"`, "objects": `{"a":[1,2],"b":"]"}`, "lists": "[ [] , [3] ]"} {
			text := "[" + strings.TrimSuffix(strings.Repeat(element+", ", n), ", ") + `]`
			for _, text := range []string{text, `{"x":` + text + `,"y":[` + text + `,4]}`} {
				src, err := parse([]byte(text), maxDepth)
				if err != nil {
					t.Fatalf("%d %s: %v", n, name, err)
				}
				list := &src.root
				if list.kind == '{' {
					list = list.member("x")
				}
				if len(list.kids) != n {
					t.Errorf("%d %s: %d elements", n, name, len(list.kids))
				}
				if c := cap(list.kids); n >= 200 && c > n+n/4 {
					t.Errorf("%d %s take room for %d", n, name, c)
				}
				for i, kid := range list.kids {
					if got := string(src.data[kid.start:kid.end]); got != element {
						t.Fatalf("%d %s: element %d is %s", n, name, i, got)
					}
				}
			}
		}
	}
}

func BenchmarkLongList(b *testing.B) {
	text := []byte("[" + strings.Repeat("1,", 120_000) + "1]")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := payload(text); err != nil {
			b.Fatal(err)
		}
	}
}
