package station

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Kind is what an Entry tells.
type Kind string

const (
	Received Kind = "received" // a command came for the first time
	Repeated Kind = "repeated" // a command came again; it is not executed again
	Executed Kind = "executed" // the work of a command is done, once per command
	Answered Kind = "answered" // the broker has the answer
	Event    Kind = "event"    // the broker has the event
)

// Entry is one line of the station's log: what the equipment did, whatever Takt believes. The log is also the station's
// memory, so nothing in it may be changed.
type Entry struct {
	Time        time.Time       `json:"time"` // UTC
	Kind        Kind            `json:"kind"`
	Command     string          `json:"command,omitempty"` // id; "" for an event without command
	Scope       string          `json:"scope"`
	Order       string          `json:"order,omitempty"` // job order id
	Action      string          `json:"action,omitempty"`
	Attempt     int             `json:"attempt,omitempty"`
	Cancels     string          `json:"cancels,omitempty"`     // received: id of the command that this one calls back
	Type        string          `json:"type"`                  // of the command or the event
	Correlation string          `json:"correlation,omitempty"` // of the run of the job order
	Subject     string          `json:"subject,omitempty"`
	Event       string          `json:"event,omitempty"` // id
	N           int64           `json:"n,omitempty"`     // of an event of a source: which, from 1
	Body        json.RawMessage `json:"body,omitempty"`  // parameters received, result of the work, body of the event
	Error       *LogError       `json:"error,omitempty"` // executed: the command is refused

	ResponseTopic   string `json:"response_topic,omitempty"`
	CorrelationData []byte `json:"correlation_data,omitempty"` // base64
}

// LogError is why a command is refused.
type LogError struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// ReadLog reads the log of a station. A last line without an end, left by a crash, is left out. A line that is no entry
// is an error.
func ReadLog(file string) ([]Entry, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("station: log: %w", err)
	}
	defer f.Close()
	entries, _, err := readLog(file, f)
	return entries, err
}

// readLog also returns the length in bytes of the complete lines.
func readLog(name string, from io.Reader) (entries []Entry, complete int64, err error) {
	r := bufio.NewReaderSize(from, 1<<16)
	for line := 1; ; line++ {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return entries, complete, nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("station: log: %w", err)
		}
		var e Entry
		if err := json.Unmarshal(text, &e); err != nil || e.Kind == "" {
			return nil, 0, fmt.Errorf("station: log %s:%d: is no entry of a station's log", name, line)
		}
		entries = append(entries, e)
		complete += int64(len(text))
	}
}

// logFile is the open log; nil writes nowhere. It is written by the kernel's leave: a crash of the process loses
// nothing, a crash of the machine may.
type logFile struct{ f *os.File }

// openLog reads what is there and opens the file for more, mode 0600.
func openLog(name string) (*logFile, []Entry, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("station: log: %w", err)
	}
	entries, complete, err := readLog(name, f)
	if err == nil {
		err = f.Truncate(complete) // a torn last line would spoil the next one
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return &logFile{f}, entries, nil
}

func (l *logFile) append(e Entry) error {
	if l == nil {
		return nil
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.f.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("station: log: %w", err)
	}
	return nil
}

func (l *logFile) close() error {
	if l == nil {
		return nil
	}
	return l.f.Close()
}
