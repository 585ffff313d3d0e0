//go:build unix && !linux

package main

import (
	"syscall"
	"time"
)

// childAttr: run as owner if not nil, in an own process group. Without Linux' parent death signal a killed benchmark leaves its PostgreSQL.
func childAttr(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: owner}
}

func sleepUntil(due time.Time) { time.Sleep(time.Until(due)) }

func ownThread() (release func()) { return func() {} }
