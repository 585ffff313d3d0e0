// Package msgpack appends and reads MessagePack one value, or the head of one, at a time. What the values mean is decided elsewhere:
// task/internal/wire has the messages and typed arguments of tasks, internal/msgpack/oslo the values of job boards.
//
// What is appended has its shortest form, which is the form of the Python encoder. Any form is read.
//
// A Reader is strict, for it reads what anybody may have written: lengths are believed only as far as there are bytes, text is
// UTF-8, map keys are text or bytes, timestamps are timestamps, and whoever skips or enters a container says how many levels
// of them there may be. Those are the rules of Python's decoder, too: what is refused here would be refused there. A Reader allocates nothing
// but its errors, and says of each value where it began, so that its bytes can be kept as they are.
//
// Nothing here blocks or keeps state; a Reader is for one goroutine.
package msgpack
