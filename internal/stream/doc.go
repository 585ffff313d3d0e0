// Package stream is the one consumer-group loop of Takt: recipe work and outboxes run on it.
//
// It promises: an entry of a stream is handled at least once and settled exactly once, whatever dies in between; a settled entry is
// gone from the stream. What was settled by whom is decided in Redis, by the token of the worker.
//
//	          XADD                     XREADGROUP                  Handle
//	producer ──────► stream ─────────────────────► ready buffer ──────────► slots
//	                   ▲    own pending first          ≤ 256                  │ Settled: by the handler's commit
//	                   │                                                      ▼ Ack: in batches, ack.lua
//	                   └──────────────── XACK + XDEL, if the worker's token is still its own
//
// A Worker is this process: one key with a token that expires unless it is renewed. Entries are delivered under a token and can be
// settled only under that token. A worker whose key is missing is dead: any other takes its entries over, after putting a take-over
// mark where the token was, so that the dead one, should it only have slept, can settle nothing any more; it finds its token gone,
// drops what it holds and begins anew under another.
//
// When Redis is away, everything held goes on being tried, with growing pauses, until the token has certainly expired. When the process
// dies, others take over after the token's time to live and at most a second more; after a clean stop, in at most a second, or a third of the time to live if
// it was the only other one and had just come. When a handler
// fails, its entry is tried again, and after MaxDeliveries it goes to the dead letter stream; handlers that kill the process count too:
// an entry that was delivered before is counted when it starts, and from the third start on such entries run one at a time, so that
// the innocent around a killer are not counted with it.
//
// Entries may be handed to others instead of being handled: Handle returns Later, and Entry.End says when they are done. Group.Free then says how many
// takers wait, and nothing is read that no one waits for. A script of theirs that settles one entry may read the next one at once and Offer it.
//
// What the loop cannot see: an operator who destroys the group lets entries that are being handled be delivered again.
package stream
