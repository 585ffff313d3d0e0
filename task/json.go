package task

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/taktworks/takt/lock"
	"github.com/taktworks/takt/task/internal/wire"
)

// DefineJSON makes a type by its name alone, for programs that do not know its Go types: arguments are a JSON array, or one value that is not an array and then
// the only argument, for a struct the object of its members: {"to": "ada"}; results are JSON. Bytes are {"$bin": base64} and times {"$time": RFC 3339} in both directions. Unlike Define it returns an error.
func DefineJSON(name string, opts ...TypeOption) (*JSONType, error) {
	s := spec{name: name, priority: Normal, size: Medium, retry: NoRetry{}}
	for _, o := range opts {
		o.applyType(&s)
	}
	if err := s.validate(); err != nil {
		return nil, err
	}
	if s.locks != nil || len(s.keyed) > 0 || s.unique != nil && s.unique.key != nil || s.aggregate != nil || s.positional || len(s.periodic) > 0 {
		return nil, fmt.Errorf("task: DefineJSON(%q): Locks, ExclusiveBy, UniqueBy, Aggregate, Positional and schedules need Go types", name)
	}
	s.defaults(false)
	return &JSONType{s}, nil
}

// JSONType is what DefineJSON makes. It is safe for concurrent use.
type JSONType struct{ spec }

// Submit hands one task over, as Type.Submit does. The handle's Await and Result give JSON.
func (t *JSONType) Submit(ctx context.Context, c *Client, args json.RawMessage, opts ...SubmitOption) (Ref, bool, error) {
	raw, err := argsFromJSON(args)
	if err != nil {
		return Ref{}, false, fmt.Errorf("task: %s: arguments: %w", t.name, err)
	}
	s, err := t.spec.submission(ctx, c, raw, opts)
	if err != nil {
		return Ref{}, false, err
	}
	if u := t.unique; u != nil && s.unique == "" {
		s.hold(t.name+":"+digest(raw), u.ttl)
	}
	return c.submit(ctx, &t.spec, s)
}

// argsFromJSON is a JSON text as the array of arguments.
func argsFromJSON(text json.RawMessage) ([]byte, error) {
	if len(text) == 0 {
		return nil, nil
	}
	raw, err := wire.FromJSON(text)
	if err != nil {
		return nil, err
	}
	if c := raw[0]; c&0xf0 == 0x90 || c == 0xdc || c == 0xdd { // an array
		return raw, nil
	}
	return append([]byte{0x91}, raw...), nil
}

// Handle is Type.Handle for JSON. Job.Args is the array of arguments; an empty result is null.
func (t *JSONType) Handle(f func(context.Context, *Job[json.RawMessage]) (json.RawMessage, error)) Handler {
	h := Handler{spec: &t.spec, call: func(ctx context.Context, r *run) ([]byte, error) {
		args, err := argsToJSON(r.msg.Args)
		if err != nil {
			return nil, &argumentError{err}
		}
		result, err := f(ctx, &Job[json.RawMessage]{Info: r.info(), Args: args})
		if err != nil || r.keep <= 0 && !r.grouped() || len(result) == 0 {
			return nil, err
		}
		value, err := wire.FromJSON(result)
		if err != nil {
			return nil, &resultError{err}
		}
		return value, nil
	}}
	if len(t.own) > 0 { // Exclusive, whatever the arguments
		h.lock = func(*run) (all []lock.Spec, _ error) {
			for _, own := range t.own {
				all = append(all, own(nil)...)
			}
			return all, nil
		}
	}
	return h
}

// argsToJSON is the array of arguments as JSON.
func argsToJSON(raw []byte) (json.RawMessage, error) {
	if len(raw) == 0 {
		return json.RawMessage("[]"), nil
	}
	return wire.ToJSON(raw)
}

// AwaitJSON blocks until the task of that id has ended, as Handle.Await does, whatever its type. It does not know whether a result is kept: if none is, it
// blocks until ctx ends.
func (c *Client) AwaitJSON(ctx context.Context, id string) (Result[json.RawMessage], error) {
	raw, err := c.await(ctx, id)
	if err != nil {
		return Result[json.RawMessage]{}, err
	}
	return resultOf(id, raw, wire.ToJSON)
}
