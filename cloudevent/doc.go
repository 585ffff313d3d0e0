// Package cloudevent is the CloudEvents 1.0 envelope as Takt sends and reads it: the
// attributes, their order and names, their text form, the structured JSON form, and the vocabulary of errors.
//
// It knows no transport. A binding reads attributes with Event.SetAttribute, which lets in only what the envelope has
// and keeps the rest as extensions, and writes them with Event.Attributes. Text is opaque: times, correlation ids and
// causation ids are never parsed, so no text of a peer can be an error later.
//
// A reply, a refusal and an event are made from the request they answer: Event.Reply, Event.Refusal, Event.Caused.
package cloudevent
