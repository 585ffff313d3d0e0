package wire

import "github.com/taktworks/takt/internal/msgpack"

// FormatError says what is wrong with bytes that were read, and in which field.
type FormatError = msgpack.FormatError

// ValueError says which value, or which part of a type, cannot travel.
type ValueError = msgpack.ValueError
