#!/bin/sh
# expr 1.17.8 compares an integer with a float as floats: two different numbers are equal.
#
# Counters and serial numbers beyond 2^53 are usual in plants. With one operand from a typed field (int) and the other from decoded JSON (float64), expr converts the integer to
# float64 first, which rounds it: a condition on one number holds for its neighbor. Between two integers the comparison is exact.
#
# Seen with github.com/expr-lang/expr v1.17.8:
#   9007199254740993 == 9007199254740992.0: true
#   9007199254740993 == 9007199254740992: false
# Needs go. Exit status 0: as seen. 1: the behavior has changed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'EOF'
module probe

go 1.26
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"github.com/expr-lang/expr"
)

func main() {
	for _, other := range []struct {
		text  string
		value any
	}{{"9007199254740992.0", 9007199254740992.0}, {"9007199254740992", 9007199254740992}} {
		is, err := expr.Eval("serial == other", map[string]any{"serial": 9007199254740993, "other": other.value})
		if err != nil {
			panic(err)
		}
		fmt.Printf("9007199254740993 == %s: %v\n", other.text, is)
	}
}
EOF
go get github.com/expr-lang/expr@v1.17.8 >/dev/null 2>&1
got=$(go run .)
echo "$got"
[ "$got" = '9007199254740993 == 9007199254740992.0: true
9007199254740993 == 9007199254740992: false' ]
