#!/bin/sh
# Both YAML libraries for Go store a fraction in an integer field without its fraction, and without an error.
#
# A configuration that says 2.7 where the program has an int is wrong, and encoding/json refuses it. goccy/go-yaml and gopkg.in/yaml.v3 store 2, also in their strict modes, so
# a limit or a number of retries is another one than the file says. Digits with a leading zero are octal, as in YAML 1.1 (YAML 1.2 core schema, 10.3.2: 014 is 14): 014 becomes 12.
#
# Seen with github.com/goccy/go-yaml v1.19.2 and gopkg.in/yaml.v3 v3.0.1:
#   goccy/go-yaml: retries: 2.7 is 2, error <nil>; retries: 014 is 12, error <nil>
#   yaml.v3: retries: 2.7 is 2, error <nil>; retries: 014 is 12, error <nil>
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
	"bytes"
	"fmt"

	goccy "github.com/goccy/go-yaml"
	v3 "gopkg.in/yaml.v3"
)

func main() {
	for name, decode := range map[string]func([]byte, any) error{
		"goccy/go-yaml": func(text []byte, v any) error { return goccy.NewDecoder(bytes.NewReader(text), goccy.Strict()).Decode(v) },
		"yaml.v3": func(text []byte, v any) error {
			d := v3.NewDecoder(bytes.NewReader(text))
			d.KnownFields(true)
			return d.Decode(v)
		},
	} {
		var says []string
		for _, text := range []string{"retries: 2.7", "retries: 014"} {
			var c struct {
				Retries int `yaml:"retries"`
			}
			err := decode([]byte(text), &c)
			says = append(says, fmt.Sprintf("%s is %d, error %v", text, c.Retries, err))
		}
		fmt.Printf("%s: %s; %s\n", name, says[0], says[1])
	}
}
EOF
go get github.com/goccy/go-yaml@v1.19.2 gopkg.in/yaml.v3@v3.0.1 >/dev/null 2>&1
got=$(go run . | sort)
echo "$got"
[ "$got" = 'goccy/go-yaml: retries: 2.7 is 2, error <nil>; retries: 014 is 12, error <nil>
yaml.v3: retries: 2.7 is 2, error <nil>; retries: 014 is 12, error <nil>' ]
