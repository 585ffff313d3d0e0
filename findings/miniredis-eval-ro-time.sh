#!/bin/sh
# miniredis 2.40.0 refuses TIME in scripts that only read.
#
# Redis flags TIME as a command that does not write, so EVAL_RO and EVALSHA_RO may call it: a script that compares expiry times with the server's clock runs with rights to
# read only. miniredis takes each command without its own read-only mark for one that writes, and TIME has none. A program whose read-only scripts ask for the time passes its
# tests on Redis and fails on miniredis with an error about write commands.
#
# Seen with github.com/alicebob/miniredis/v2 v2.40.0 and redis-server 7.0.15:
#   miniredis: Write commands are not allowed in read-only scripts
#   redis-server: ok
# Needs go, and redis-server for the second line. Exit status 0: as seen. 1: the behavior has changed.
set -eu
dir=$(mktemp -d)
server=
trap 'if [ -n "$server" ]; then kill "$server"; fi; rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'EOF'
module probe

go 1.26
EOF
cat >main.go <<'EOF'
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/alicebob/miniredis/v2"
)

func main() {
	addr := ""
	if len(os.Args) > 1 {
		addr = os.Args[1]
	} else {
		m := miniredis.NewMiniRedis()
		if err := m.Start(); err != nil {
			panic(err)
		}
		defer m.Close()
		addr = m.Addr()
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		panic(err)
	}
	script := "redis.call('TIME') return 'ok'"
	fmt.Fprintf(c, "*3\r\n$7\r\nEVAL_RO\r\n$%d\r\n%s\r\n$1\r\n0\r\n", len(script), script)
	r := bufio.NewReader(c)
	line, _ := r.ReadString('\n')
	if strings.HasPrefix(line, "$") {
		line, _ = r.ReadString('\n')
	}
	if at := strings.Index(line, "Write commands"); at >= 0 {
		line = line[at : at+len("Write commands are not allowed in read-only scripts")]
	}
	fmt.Println(strings.TrimSpace(line))
}
EOF
go get github.com/alicebob/miniredis/v2@v2.40.0 >/dev/null 2>&1
got=$(go run .)
echo "miniredis: $got"
redis=ok
if command -v redis-server >/dev/null; then
	redis-server --port 21884 --bind 127.0.0.1 --save '' >log 2>&1 &
	server=$!
	tries=0
	until grep -q 'Ready to accept' log; do
		tries=$((tries + 1))
		[ $tries -lt 50 ] || { cat log; exit 2; }
		sleep 0.1
	done
	redis=$(go run . 127.0.0.1:21884)
	echo "redis-server: $redis"
fi
[ "$got" = 'Write commands are not allowed in read-only scripts' ] && [ "$redis" = ok ]
