package task

import (
	"time"

	"github.com/taktworks/takt/task/internal/wire"
)

// letter is a dead letter as it is stored: an array of its fields, to which later versions may append.
type letter struct {
	Died       time.Time
	Queue      string
	Entry      string // id of its last entry
	Worker     string
	Deliveries int64
	ErrType    string
	ErrMessage string
	Traceback  string
	Message    []byte // TaskMessage, or whatever was found in its place
	Readable   bool   // Message is a TaskMessage
}

var letterCodec = must(wire.NewCodec[letter](wire.ByPosition))

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// letter is the dead letter of a run. raw is the message as it was delivered; if it can be read, its history is up to date.
func (r *run) letter(said *wire.Error, raw []byte, readable bool) []byte {
	if readable {
		if r.msg.Meta.Enqueued == 0 {
			r.msg.Meta.Enqueued = entryTime(r.entry.ID).UnixMilli()
		}
		r.msg.Meta.Fence = int64(r.fence) // of whatever comes after a requeue
		if b, err := r.msg.Append(nil); err == nil {
			raw = b
		}
	}
	return encodeLetter(letter{
		Died: time.Now().UTC(), Queue: string(r.queue), Entry: r.entry.ID, Worker: r.worker.opts.ID, Deliveries: r.entry.Deliveries,
		ErrType: said.Type, ErrMessage: said.Message, Traceback: said.Traceback, Message: raw, Readable: readable,
	})
}

// rawLetter is the dead letter of a delayed message that no worker has seen.
func rawLetter(err error, raw []byte) []byte {
	return encodeLetter(letter{Died: time.Now().UTC(), Queue: "delayed", ErrType: "undecodable", ErrMessage: clip(err.Error(), maxErrorText), Message: raw})
}

func encodeLetter(l letter) []byte {
	b, err := letterCodec.AppendValue(nil, l)
	if err != nil { // its texts are clipped to UTF-8, and its other fields always fit
		panic(err)
	}
	return b
}
