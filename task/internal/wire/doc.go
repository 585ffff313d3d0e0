// Package wire writes and reads what tasks are in Redis: messages, results and callback records, all msgpack, byte for byte
// as the Python workers and clients of the same streams write them.
//
//	T ──Codec──► args ─┐                                     ┌─► args ──Codec──► T
//	JSON ─FromJSON─►   ├─► Message.Append ──► stream ──► Decode                      (worker)
//	                   │                                     └─► args ──ToJSON─► JSON (console)
//	labels, Meta ──────┘
//
// It promises: what Append wrote, Decode reads, so a task that cannot arrive is refused where it is submitted; what Decode
// read, Append writes again with all it did not know, so a retry by an older worker loses nothing of a newer one.
//
// Readers are strict, for they read what anybody may have written: lengths are believed only as far as there are bytes, text
// is UTF-8, map keys are text or bytes, nothing follows the value, and containers are nested at most MaxDepth deep, the map of the message
// included. Of a member that is there twice the last one counts, as in Python.
//
// Structs travel by name, as the map of their exported fields, named by their json tags if they have one: fields may change places, be added or be removed. A map that lacks a field while it has a member that
// is none is of another version of the type, and refused. Types that are shared with Python travel by position: a struct is the array of its exported fields, and new
// fields are added at the end. No number is ever cut: one that does not fit its field is an error that names the field.
//
// Nothing here blocks or keeps state; everything may be called at once, but not on the same Message.
package wire
