// Package jobcontrol is the job order receiver: a CloudEvent comes in, one method of OPC 10031-4 is carried out or
// refused, a reply goes back. It also takes the configuration of stations, and sends the status events.
//
//	MQTT ──► mqtt.Server ──► Handle ──► read ──► Load ──► decide ──► Commit ──► reply ──► MQTT
//	                         handler.go  request.go │     methods.go    │
//	                                                ▼                   ▼
//	                                          seen before?       the event's outbox ──► EventSender ──► MQTT
//	                                      the reply given then
//
// It promises: every event that asks for an answer gets one, and says why when it is not carried out; a command is
// carried out once, however often it comes, and is answered the same each time; two commands that exclude each other
// never both succeed; nothing that a peer can send stops it.
//
// A command costs two round trips to Redis, one when it is refused, repeated, or asks for one response.
//
// When Redis is away, a command is held for Options.HoldWhenAway and then answered with SERVICE_UNAVAILABLE and no
// ReturnStatus: whether it was carried out is not known, and repeating it under the same id is safe. When the process
// dies before the commit nothing has happened; when it dies after, the broker or the requester repeats the command and
// gets the stored reply, and another process sends the status event.
package jobcontrol
