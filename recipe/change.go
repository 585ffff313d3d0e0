package recipe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/taktworks/takt/internal/jsonscan"
)

// The history of a run has, for each commit, what it changed in the execution document: the document after it follows from the one before it. A change is JSON with the members
// that differ under the codes of their documentFields; lists have the elements that differ, by name. Times are relative to base, null is the zero value.

// AppendChange appends what leads from before to x, in JSON; before nil: from nothing. base is the installation time of the decision in ms.
// Members of other versions (Other) are not in it.
func (x *Execution) AppendChange(buf []byte, before *Execution, base int64) []byte {
	w := changeWriter{writer{buf}, base}
	if before == nil || !startsLike(x, before) {
		before = &Execution{}
		w.buf = append(w.buf, '{')
		w.key(fromNothing)
		w.buf = append(w.buf, '1')
	} else {
		w.buf = append(w.buf, '{')
	}
	writeChange(&w, before, x, executionFields, x)
	w.buf = append(w.buf, '}')
	return w.buf
}

// fromNothing is the member of a change that leads from nothing to a document, whatever was before.
const fromNothing = "0"

// startsLike tells whether the lists of x have the elements of before, in the same order, and then perhaps others.
func startsLike(x, before *Execution) bool {
	if len(x.Actions) < len(before.Actions) || len(x.Steps) < len(before.Steps) {
		return false
	}
	for i := range before.Actions {
		if x.Actions[i].Name != before.Actions[i].Name {
			return false
		}
	}
	for i := range before.Steps {
		if x.Steps[i].Name != before.Steps[i].Name {
			return false
		}
	}
	return true
}

// Changed returns the execution after a change of x that AppendChange wrote; x may be nil for one from nothing. x stays as it is.
func (x *Execution) Changed(change []byte, base int64) (*Execution, error) {
	src, syntax := parse(change, maxDepth+8)
	if syntax != nil {
		return nil, fmt.Errorf("recipe: change of an execution: %w", syntax)
	}
	after := &Execution{}
	switch {
	case src.root.has(fromNothing):
	case x == nil:
		return nil, fmt.Errorf("recipe: change of an execution: what it changes is not known")
	default:
		after = x.Clone()
		after.Cancels = slices.Clone(x.Cancels)
	}
	r := changeReader{documentReader{source: &src}, base, after}
	readChange(&r, &src.root, after, executionFields)
	if r.err != nil {
		return nil, fmt.Errorf("recipe: change of an execution: %w", r.err)
	}
	return after, nil
}

type changeWriter struct {
	writer
	base int64
}

// writeChange writes the members that differ.
func writeChange[T any](w *changeWriter, before, after *T, fields []documentField[T], x *Execution) {
	for i := range fields {
		f := &fields[i]
		was, is := f.value(before), f.value(after)
		if sameValue(was, is) {
			continue
		}
		mark := len(w.buf)
		w.key(f.code)
		switch v := is.(type) {
		case *int64:
			if *v == 0 {
				w.buf = append(w.buf, "null"...)
			} else {
				w.buf = strconv.AppendInt(w.buf, *v-w.base, 10)
			}
		case *json.RawMessage:
			if *v == nil {
				w.buf = append(w.buf, "null"...)
			} else {
				w.buf = append(append(append(w.buf, '['), *v...), ']') // a result may be null itself
			}
		case *string:
			text := *v
			if a, ok := any(after).(*ActionEntry); ok && v == &a.CommandID && text == CommandID(x.CorrelationID, a.Name, a.Iteration, a.sent()) {
				text = derived
			}
			w.buf = jsonscan.AppendString(w.buf, text)
		case *[]ActionEntry:
			writeChanges(w, *was.(*[]ActionEntry), *v, func(a *ActionEntry) string { return a.Name }, actionFields, x)
		case *[]StepEntry:
			writeChanges(w, *was.(*[]StepEntry), *v, func(s *StepEntry) string { return s.Name }, stepFields, x)
		case *[]CancelEntry:
			writeChanges(w, *was.(*[]CancelEntry), *v, func(c *CancelEntry) string { return c.CommandID }, cancelFields, x)
		default:
			w.value(is)
		}
		if bytes.HasSuffix(w.buf, []byte(":{}")) { // a list without a change
			w.buf = w.buf[:mark]
		}
	}
}

// derived stands for a command id that follows from the action.
const derived = "="

// sent is the attempt that the command id of a is of.
func (a *ActionEntry) sent() int {
	if a.Attempt < a.FirstAttempt { // an event is awaited, nothing was sent
		return 0
	}
	return a.Attempt
}

// writeChanges writes the elements of is that differ from those of was with the same name.
func writeChanges[T any](w *changeWriter, was, is []T, name func(*T) string, fields []documentField[T], x *Execution) {
	w.buf = append(w.buf, '{')
	for i := range is {
		var before *T
		for n := range was {
			if at := &was[(i+n)%len(was)]; name(at) == name(&is[i]) { // mostly at the same place
				before = at
				break
			}
		}
		isNew := before == nil
		if isNew {
			before = new(T)
		}
		mark := len(w.buf)
		w.key(name(&is[i]))
		w.buf = append(w.buf, '{')
		inside := len(w.buf)
		if writeChange(w, before, &is[i], fields, x); len(w.buf) == inside && !isNew {
			w.buf = w.buf[:mark]
			continue
		}
		w.buf = append(w.buf, '}')
	}
	w.buf = append(w.buf, '}')
}

func sameValue(a, b any) bool {
	switch a := a.(type) {
	case *string:
		return *a == *b.(*string)
	case *ActionState:
		return *a == *b.(*ActionState)
	case *int:
		return *a == *b.(*int)
	case *int64:
		return *a == *b.(*int64)
	case *bool:
		return *a == *b.(*bool)
	case *json.RawMessage:
		b := b.(*json.RawMessage)
		return (*a == nil) == (*b == nil) && bytes.Equal(*a, *b)
	case *Cancel:
		return *a == *b.(*Cancel)
	case *[]string:
		return slices.Equal(*a, *b.(*[]string))
	case *[]StepEntry:
		return slices.Equal(*a, *b.(*[]StepEntry))
	case *[]CancelEntry:
		return len(*a) == 0 && len(*b.(*[]CancelEntry)) == 0
	}
	return false
}

type changeReader struct {
	documentReader
	base int64
	x    *Execution // as far as it is read
}

// readChange sets the members of into that n has.
func readChange[T any](r *changeReader, n *node, into *T, fields []documentField[T]) {
	if !r.is(n, '{', n.key) {
		return
	}
	for i := range n.kids {
		kid := &n.kids[i]
		at := slices.IndexFunc(fields, func(f documentField[T]) bool { return f.code == kid.key })
		if at < 0 {
			continue
		}
		switch v := fields[at].value(into).(type) {
		case *int64:
			*v = 0
			if kid.kind != 'n' {
				ms, ok := kid.integer(r.data)
				if !ok {
					r.fail(kid.key + " is not a whole number")
				}
				*v = ms + r.base
			}
		case *json.RawMessage:
			*v = nil
			if kid.kind == '[' && len(kid.kids) == 1 {
				*v = r.raw(&kid.kids[0])
			}
		case *[]ActionEntry:
			*v = readChanges(r, kid, *v, func(a *ActionEntry) *string { return &a.Name }, func(n *node, a *ActionEntry) {
				readChange(r, n, a, actionFields)
				if a.CommandID == derived {
					a.CommandID = CommandID(r.x.CorrelationID, a.Name, a.Iteration, a.sent())
				}
			})
		case *[]StepEntry:
			*v = readChanges(r, kid, *v, func(s *StepEntry) *string { return &s.Name }, func(n *node, s *StepEntry) { readChange(r, n, s, stepFields) })
		case *[]CancelEntry:
			*v = readChanges(r, kid, *v, func(c *CancelEntry) *string { return &c.CommandID }, func(n *node, c *CancelEntry) { readChange(r, n, c, cancelFields) })
			*v = (*v)[max(len(*v)-maxCancels, 0):]
		default:
			setZero(v)
			r.value(kid, v)
		}
	}
}

func readChanges[T any](r *changeReader, n *node, list []T, name func(*T) *string, read func(*node, *T)) []T {
	if !r.is(n, '{', n.key) {
		return list
	}
	for i := range n.kids {
		kid := &n.kids[i]
		at := slices.IndexFunc(list, func(t T) bool { return *name(&t) == kid.key })
		if at < 0 {
			at = len(list)
			list = append(list, *new(T))
			*name(&list[at]) = kid.key
		}
		read(kid, &list[at])
	}
	return list
}

func setZero(value any) {
	switch v := value.(type) {
	case *string:
		*v = ""
	case *ActionState:
		*v = ""
	case *int:
		*v = 0
	case *bool:
		*v = false
	case *Cancel:
		*v = Cancel{}
	case *[]string:
		*v = nil
	}
}

// factCodes are the kinds of facts as the history has them.
var factCodes = map[FactKind]string{
	FactStep: "s", FactTransition: "t", FactCommand: "c", FactRepeat: "g", FactWait: "w", FactAnswer: "a", FactEvent: "e", FactRefused: "n", FactUnreadable: "u",
	FactTimeout: "o", FactCompleted: "C", FactFailed: "F",
}

// AppendFacts appends facts, in JSON: a list for each, of its code, what it is about, and its iteration, attempt, and result or error. A result that stands in after, the
// execution that the decision led to, is not repeated.
func AppendFacts(buf []byte, facts []Fact, after *Execution) []byte {
	w := writer{append(buf, '[')}
	for _, f := range facts {
		w.comma()
		w.buf = append(w.buf, '[')
		w.buf = jsonscan.AppendString(w.buf, factCodes[f.Kind])
		switch {
		case f.Kind == FactTransition:
			w.buf = strconv.AppendInt(append(w.buf, ','), int64(*f.Transition), 10)
		case f.Kind == FactFailed:
			w.buf = jsonscan.AppendString(append(w.buf, ','), f.Error)
		case f.Kind == FactStep:
			w.buf = jsonscan.AppendString(append(w.buf, ','), f.Step)
			w.buf = strconv.AppendInt(append(w.buf, ','), int64(f.Iteration), 10)
		case f.Action != "":
			w.buf = jsonscan.AppendString(append(w.buf, ','), f.Action)
			w.buf = strconv.AppendInt(append(w.buf, ','), int64(f.Iteration), 10)
			w.buf = strconv.AppendInt(append(w.buf, ','), int64(f.Attempt), 10)
			switch {
			case f.Error != "":
				w.buf = jsonscan.AppendString(append(w.buf, ','), f.Error)
			case f.Result != nil && !f.stands(after):
				w.buf = append(append(w.buf, ','), f.Result...)
			}
		}
		w.buf = append(w.buf, ']')
	}
	return append(w.buf, ']')
}

// stands tells whether the result of f is that of its action in after.
func (f *Fact) stands(after *Execution) bool {
	if after == nil {
		return false
	}
	a := after.Action(f.Action)
	return a != nil && a.State == ActionCompleted && a.Iteration == f.Iteration && bytes.Equal(a.Result, f.Result)
}

// DecodeFacts reads what AppendFacts wrote.
func DecodeFacts(data []byte, after *Execution) ([]Fact, error) {
	var lists [][]json.RawMessage
	if err := json.Unmarshal(data, &lists); err != nil {
		return nil, fmt.Errorf("recipe: facts: %w", err)
	}
	facts := make([]Fact, 0, len(lists))
	for _, list := range lists {
		f, err := decodeFact(list)
		if err != nil {
			return nil, fmt.Errorf("recipe: fact %s: %w", list, err)
		}
		if (f.Kind == FactAnswer || f.Kind == FactEvent) && f.Result == nil && after != nil {
			if a := after.Action(f.Action); a != nil {
				f.Result = a.Result
			}
		}
		facts = append(facts, f)
	}
	return facts, nil
}

func decodeFact(list []json.RawMessage) (f Fact, err error) {
	var into []any
	var code string
	into = append(into, &code)
	if len(list) > 0 {
		err = json.Unmarshal(list[0], &code)
	}
	for kind, c := range factCodes {
		if c == code {
			f.Kind = kind
		}
	}
	switch f.Kind {
	case "":
		return f, fmt.Errorf("its kind is not known")
	case FactTransition:
		f.Transition = new(int)
		into = append(into, f.Transition)
	case FactFailed:
		into = append(into, &f.Error)
	case FactStep:
		into = append(into, &f.Step, &f.Iteration)
	case FactAnswer, FactEvent:
		into = append(into, &f.Action, &f.Iteration, &f.Attempt, &f.Result)
	default:
		into = append(into, &f.Action, &f.Iteration, &f.Attempt, &f.Error)
	}
	for i := 1; i < min(len(list), len(into)) && err == nil; i++ {
		err = json.Unmarshal(list[i], into[i])
	}
	return f, err
}
