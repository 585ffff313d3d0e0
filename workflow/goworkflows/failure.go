package goworkflows

import (
	"encoding/json"
	"errors"

	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/backend/payload"
	gowf "github.com/cschleiden/go-workflows/workflow"
)

// failures read the attributes that hold an error. The library itself panics when it reads one without a text, such as an activity's errors.New("").
var failures = map[history.EventType]func(json.RawMessage) (any, error){
	history.EventType_WorkflowExecutionFinished: func(data json.RawMessage) (any, error) {
		f, err := readFailure(data)
		return &history.ExecutionCompletedAttributes{Result: f.Result, Error: f.Error.library()}, err
	},
	history.EventType_SubWorkflowFailed: func(data json.RawMessage) (any, error) {
		f, err := readFailure(data)
		return &history.SubWorkflowFailedAttributes{Error: f.Error.library()}, err
	},
	history.EventType_ActivityFailed: func(data json.RawMessage) (any, error) {
		f, err := readFailure(data)
		return &history.ActivityFailedAttributes{Error: f.Error.library()}, err
	},
}

type failure struct {
	Result payload.Payload `json:"result"`
	Error  *storedError    `json:"error"`
}

// storedError is a gowf.Error in JSON.
type storedError struct {
	Type       string       `json:"type"`
	Message    string       `json:"message"`
	Permanent  bool         `json:"permanent"`
	Cause      *storedError `json:"cause"`
	Stacktrace string       `json:"stacktrace"`
}

func readFailure(data json.RawMessage) (f failure, err error) {
	err = json.Unmarshal(data, &f)
	return f, err
}

// recorded is err as the library records it.
func recorded(err error) (e *gowf.Error) {
	errors.As(gowf.NewError(err), &e)
	return e
}

func (e *storedError) library() *gowf.Error {
	if e == nil {
		return nil
	}
	out := &gowf.Error{Type: e.Type, Message: e.Message, Permanent: e.Permanent, Stacktrace: e.Stacktrace}
	if cause := e.Cause.library(); cause != nil {
		out.Cause = cause
	}
	return out
}
