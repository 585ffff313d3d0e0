package wire

import "github.com/taktworks/takt/internal/msgpack"

// MaxDepth is how many arrays and maps may be one within the other in a message or result, its own map included.
const MaxDepth = 32

// MaxValueDepth is the same for arguments, results and labels alone, as they stand in the map of a message or result.
const MaxValueDepth = MaxDepth - 1

// Check says whether raw is one well-formed msgpack value that every reader takes: map keys are text or bytes, text
// is UTF-8, timestamps are timestamps, containers are at most maxDepth deep ([] is 1 deep), nothing follows. It keeps nothing of raw and
// allocates nothing but its error, a *FormatError.
func Check(raw []byte, maxDepth int) error {
	r := newReader(raw)
	if err := r.Skip(maxDepth); err != nil {
		return err
	}
	return r.End()
}

// checkKind is Check for a value that must be of kind k.
func checkKind(raw []byte, k msgpack.Kind, path string) error {
	r := newReader(raw)
	n, err := r.Members(k)
	if err == nil {
		err = r.SkipMembers(k, n, 0, MaxValueDepth)
	}
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return msgpack.Within(path, err)
	}
	return nil
}
