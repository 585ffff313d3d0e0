package wire

import "github.com/taktworks/takt/internal/msgpack"

// reader adds to a msgpack.Reader the values that messages and results are made of.
type reader struct{ msgpack.Reader }

func newReader(in []byte) reader { return reader{msgpack.NewReader(in)} }
