// Package schemas holds the JSON Schemas (draft-07) of every body on the wire, and the AsyncAPI 3 document of the topics that they travel on. They are made of the Go types; the tests
// check every message that they see against them.
//
// Additional members are allowed, so that a reader of today can read messages of tomorrow. In what Takt receives it refuses members that it does not know, unless
// --unknown-members says otherwise.
package schemas

import "embed"

// Files are the documents by their names: job-order.json and so on, and asyncapi.yaml.
//
//go:embed *.json asyncapi.yaml
var Files embed.FS
