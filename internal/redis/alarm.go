package redis

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// alarmEvery is how often an Alarm repeats itself.
const alarmEvery = time.Minute

// Alarm logs that the server refuses what this process asks for: rights, memory, disk, replicas. It logs one line at level
// ERROR a minute while that lasts, however many calls meet it. One Alarm is shared by all of a process; it is safe for concurrent use.
type Alarm struct {
	log  *slog.Logger
	from time.Time    // zero of next
	next atomic.Int64 // nanoseconds after from before which nothing is logged, by the monotonic clock
}

// NewAlarm makes an Alarm that writes to log.
func NewAlarm(log *slog.Logger) *Alarm { return &Alarm{log: log, from: time.Now()} }

// Note logs err if it is such a refusal and none was logged within the last minute. It returns err.
func (a *Alarm) Note(err error) error {
	if err == nil || !loud(err) {
		return err
	}
	now, next := int64(time.Since(a.from)), a.next.Load()
	if now >= next && a.next.CompareAndSwap(next, now+int64(alarmEvery)) {
		a.log.Error("Redis refuses commands; what they were for waits and is tried again", "reason", Reason(err), "error", err)
	}
	return err
}

// loud: an operator has to know. A server that does not answer at all, or is about to move a key, is noticed elsewhere.
func loud(err error) bool {
	code, _ := serverCode(err)
	return troubles[code] != "" || Denied(err)
}
