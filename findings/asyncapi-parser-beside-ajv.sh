#!/bin/sh
# The AsyncAPI parser cannot be loaded beside another ajv.
#
# @asyncapi/parser 3.6.3 and two packages below it want ajv ^8.18.0; ajv-errors, which they use, wants ajv ^8.0.1. In a project that pins ajv 8.17.1 npm reports no conflict: it puts 8.17.1 and ajv-errors
# at the top, and a newer ajv below each of the three. ajv-errors then generates code with the classes of one copy for another: to import the parser ends with a SyntaxError in generated code, whatever
# document is to be parsed. With ajv 8.20.0 pinned there is one copy, and the parser loads.
#
# Seen with Node.js 20.20.2 and npm 11. Whoever compiles schemas beside the parser pins the parser's own ajv.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
try() { # version of ajv
	rm -rf node_modules package.json package-lock.json
	printf '{"private": true, "type": "module", "dependencies": {"@asyncapi/parser": "3.6.3", "ajv": "%s"}}' "$1" >package.json
	npm install --ignore-scripts --no-audit --no-fund --silent
	copies=$(find node_modules -path '*/ajv/package.json' | wc -l | tr -d " ")
	printf 'import { Parser } from "@asyncapi/parser";\nnew Parser();\nconsole.log("loaded");\n' >load.mjs
	said=$(node load.mjs 2>&1 | grep -o -e '^loaded' -e '^SyntaxError' || true)
	echo "ajv $1: $copies copies, $said"
}
older=$(try 8.17.1)
newer=$(try 8.20.0)
echo "$older"
echo "$newer"
[ "$older" = "ajv 8.17.1: 4 copies, SyntaxError" ] && [ "$newer" = "ajv 8.20.0: 1 copies, loaded" ]
