package takt_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the house may hold. A number is raised with a sentence in the commit that says what a user gets for it, and lowered with what a change removes.
var budgets = map[string]int{
	"production lines":                  107031,
	"test lines":                        93589,
	"exported methods of task.Client":   44,
	"positional references in Lua":      912,
	"constants and variables of a time": 275,
	"production lines of board":         7011,
	"production lines of cmd":           12033,
	"production lines of internal":      14000,
	"production lines of jobstore":      8232,
	"production lines of mqtt":          3712,
	"production lines of recipe":        8046,
	"production lines of task":          14698,
	"production lines of workflow":      7334,
}

var (
	positional = regexp.MustCompile(`\b(?:KEYS|ARGV)\[\d+\]`)
	timeValue  = regexp.MustCompile(`(?m)^\s*(?:(?:const|var)\s+)?\w+(?:\s+time\.Duration)?\s*=\s*[^/\n]*\btime\.(?:Nanosecond|Microsecond|Millisecond|Second|Minute|Hour)\b`)
)

func TestBudget(t *testing.T) {
	has := make(map[string]int)
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		ext := filepath.Ext(path)
		if d.IsDir() || ext != ".go" && ext != ".lua" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines := bytes.Count(text, []byte("\n"))
		wing, _, _ := strings.Cut(filepath.ToSlash(path), "/")
		switch {
		case ext == ".lua":
			for line := range strings.Lines(string(text)) {
				if code, _, _ := strings.Cut(line, "--"); code != "" {
					has["positional references in Lua"] += len(positional.FindAllString(code, -1))
				}
			}
		case strings.HasSuffix(path, "_test.go"):
			has["test lines"] += lines
		default:
			has["production lines"] += lines
			has["production lines of "+wing] += lines
			has["constants and variables of a time"] += len(timeValue.FindAll(text, -1))
			if filepath.Dir(path) == "task" {
				has["exported methods of task.Client"] += clientMethods(t, path, text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, most := range budgets {
		if has[what] > most {
			t.Errorf("%d %s, at most %d: remove some, or raise the number with the reason in the commit", has[what], what, most)
		}
		t.Logf("%d %s of %d", has[what], what, most)
	}
}

func clientMethods(t *testing.T, path string, text []byte) (n int) {
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil || !f.Name.IsExported() {
			continue
		}
		if star, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok {
			if name, ok := star.X.(*ast.Ident); ok && name.Name == "Client" {
				n++
			}
		}
	}
	return n
}
