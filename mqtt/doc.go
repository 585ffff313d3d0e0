// Package mqtt is Takt's wire: an MQTT 5 connection that comes back by itself, CloudEvents in
// binary and structured mode on it, requests with their replies, and retained topics.
//
//	MES                      broker                        Takt
//	Client.Request ─pub────▶ takt/m42/commands ───────recv▶ Server: Decode
//	  again under the        (keeps the session:            lane (one order, one after the other)
//	  same id until          unacknowledged = comes again)  Handler.Handle: load, decide, commit
//	  answered                                              Encode
//	Client ◀recv──────────── mes/answers ◀────────────pub── reply, wait for PUBACK
//	                                          ◀───────recv─ acknowledge the command
//
// # What is promised
//
// Every message a Server gets that asks for an answer gets one, good or bad: what cannot be read,
// a panic, and a store that stays away too. Acknowledgement comes last, after the effect is
// stored and the reply is with the broker. So:
//
//   - Our process dies: what was not acknowledged comes again to the next process with the same
//     client id (Options.SessionExpiry), marked Duplicate. The Handler knows a repeated id and gives
//     the stored reply.
//   - The connection breaks, or the broker dies and remembers: the same, in this process. A reply
//     not yet out is left to the repetition, so that there are not two.
//   - The broker dies and forgets: nobody sends the command again, so the Server sends the reply
//     it has. Commands not yet received are lost at the broker; requesters repeat what is not
//     answered (Client does).
//   - The store is away: a command is held for ServerOptions.Hold, then answered with
//     SERVICE_UNAVAILABLE.
//
// Publish tells what happened: nil is the broker's PUBACK, everything else says whether the
// message may be there (ErrLost, ErrTimeout), is not there (ErrDown, PublishError), or can never be
// (MessageError, SizeError). Nothing is queued or sent again behind the caller's back; who must
// not lose anything has an outbox.
//
// # Order
//
// Subscription.Handle is called in the order of arrival. A Server keeps that order within a lane;
// lanes run side by side. Acknowledgements follow the order of arrival whatever the lanes do
// [MQTT-4.6.0-2], so one lane that hangs lets the broker's window fill up: a Handler gives up what it
// cannot decide, and a call that takes a minute is logged. Mosquitto's max_inflight_messages is 20 by default and should be 0.
//
// # Which broker
//
// Any with MQTT 5. Facts has what it said of itself. Mosquitto 2.0.11 is used in the tests and has
// two habits to know: it gives no reason when another client takes a session over, and it closes
// the connection of who publishes where it must not. The embedded broker (mochi) sends again
// in any order.
//
// Of the client library this package uses the connection: CONNECT, keep-alive, SUBSCRIBE, and
// what is rare. PUBLISH and PUBACK, which come by the thousand, are read and written here
// (frame.go, wire.go), and the state of a connection is kept here (session.go says why).
package mqtt
