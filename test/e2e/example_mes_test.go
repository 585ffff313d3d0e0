package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/test/rig"
)

// killable is examples/mes for the broker at port, which kills itself before the statement whose number is in KILL_AT, and takes the
// name of order and client from NAME. It says which statements it comes to. points is how many it has, last is the last one of main.
func killable(t *testing.T, port string) (binary string, points, last int) {
	t.Helper()
	root := rig.Root(t)
	text, err := os.ReadFile(filepath.Join(root, "examples", "mes", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	program := string(text)
	for old, new := range map[string]string{
		`"mqtt://127.0.0.1:1883"`: `"mqtt://127.0.0.1:` + port + `"`,
		`ClientID: "my-mes"`:      `ClientID: "mes-" + os.Getenv("NAME")`,
		`"JobOrderID": "MY-3"`:    "\"JobOrderID\": \"` + os.Getenv(\"NAME\") + `\"",
	} {
		if strings.Count(program, old) != 1 {
			t.Fatalf("the MES program does not have %s once", old)
		}
		program = strings.Replace(program, old, new, 1)
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "main.go", program, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		block, ok := n.(*ast.BlockStmt)
		if !ok {
			return true
		}
		var with []ast.Stmt
		for _, statement := range block.List {
			points++
			call := &ast.CallExpr{Fun: ast.NewIdent("dieAt"), Args: []ast.Expr{&ast.BasicLit{Kind: token.INT, Value: strconv.Itoa(points)}}}
			with = append(with, &ast.ExprStmt{X: call}, statement)
		}
		block.List = with
		if last == 0 {
			last = points // main is the first block
		}
		return true
	})
	file.Comments = nil
	var out bytes.Buffer
	if err := format.Node(&out, files, file); err != nil {
		t.Fatal(err)
	}
	const die = `package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

func dieAt(n int) {
	fmt.Fprintf(os.Stderr, "at %d.\n", n)
	if os.Getenv("KILL_AT") == strconv.Itoa(n) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
`
	dir := t.TempDir()
	folder := filepath.Join(root, "test", "e2e", "killable-mes") // there only for the build
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(folder, "main.go"): filepath.Join(dir, "main.go"), filepath.Join(folder, "die.go"): filepath.Join(dir, "die.go"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	rig.Write(t, filepath.Join(dir, "main.go"), out.String())
	rig.Write(t, filepath.Join(dir, "die.go"), die)
	rig.Write(t, filepath.Join(dir, "overlay.json"), string(replace))
	binary = filepath.Join(dir, "mes")
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, "./test/e2e/killable-mes")
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, text, out.String())
	}
	return binary, points, last
}

// examples/mes is killed at each of its statements, and started ten times in all, each time to be killed at another one or
// after the order has left Takt: one part is made, and its result is printed at least once.
func TestExampleMESKilledAtEachLine(t *testing.T) {
	long.Test(t, "kills a process at each line")
	t.Parallel()
	dir := t.TempDir()
	_, port := startDev(t, dir)
	binary, points, last := killable(t, port)
	if points < 15 || last < 8 {
		t.Fatalf("the program has %d statements, %d of them in main", points, last)
	}
	const starts = 10
	random := rig.Seeded(t)
	for first := 1; first <= points; first++ { // one after the other: a station has one MES
		at := []int{first}
		for len(at) < starts-1 {
			at = append(at, 1+random.IntN(points))
		}
		at = append(at, 0) // never
		folder, name, printed := t.TempDir(), fmt.Sprintf("MY-%d", 1000+first), 0
		for _, n := range at {
			printed += startMES(t, binary, folder, name, n, last)
		}
		if printed < 1 {
			t.Errorf("%s: killed at %v, its result was never printed", name, at)
		}
	}

	text, err := os.ReadFile(filepath.Join(dir, "takt-data", "station.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	type entry struct{ Kind, Order, Action string }
	made := map[string]map[string]int{}
	for _, e := range rig.Lines[entry](t, string(text)) {
		if e.Kind == "executed" {
			if made[e.Order] == nil {
				made[e.Order] = map[string]int{}
			}
			made[e.Order][e.Action]++
		}
	}
	if len(made) != points {
		t.Errorf("%d parts were made of %d orders", len(made), points)
	}
	for order, actions := range made {
		for action, n := range actions {
			if n != 1 {
				t.Errorf("%s: %s was carried out %d times", order, action, n)
			}
		}
	}
}

// startMES runs the program until it kills itself at a statement, or has come to the last one of main and its order has left Takt. It returns how
// often the result was printed.
func startMES(t *testing.T, binary, folder, name string, at, last int) (printed int) {
	t.Helper()
	p := rig.StartCommand(t, rig.Command{Path: binary, Dir: folder, Env: []string{"NAME=" + name, "KILL_AT=" + strconv.Itoa(at)}})
	testenv.Eventually(t, name+" has left Takt, or its MES is dead", func() bool {
		if p.Gone() {
			return true
		}
		order, err := rig.ReadMemory(t, filepath.Join(folder, "my-mes.json")).Order(t.Context(), "cell-07", isa95.JobOrderID(name))
		if err != nil {
			t.Fatal(err)
		}
		return order.State == mes.OrderGone && strings.Contains(p.Stderr(), fmt.Sprintf("at %d.\n", last))
	})
	if p.Gone() && at == 0 {
		t.Fatalf("the program has ended: %s", p.Stderr())
	}
	p.Kill()
	return strings.Count(p.Stdout(), "cell-07 "+name+" ")
}
