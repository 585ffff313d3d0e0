package main

import (
	"runtime"
	"syscall"
	"time"
)

// childAttr: run as owner if not nil, in an own process group, so that Ctrl-C in the terminal does not reach the child; a fast end when we die.
func childAttr(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGINT, Credential: owner}
}

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
