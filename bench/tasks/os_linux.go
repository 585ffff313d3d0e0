package main

import (
	"runtime"
	"syscall"
	"time"
)

// sleepUntil sleeps in the kernel, for a timer of the runtime may be a millisecond late when the process is idle.
// The caller keeps its thread meanwhile.
func sleepUntil(due time.Time) {
	for {
		left := time.Until(due)
		if left <= 0 {
			return
		}
		t := syscall.NsecToTimespec(left.Nanoseconds())
		_ = syscall.Nanosleep(&t, nil) // interrupted: look again
	}
}

func ownThread() (release func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
