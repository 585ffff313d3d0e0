//go:build unix && !linux

package main

import "time"

func sleepUntil(due time.Time) { time.Sleep(time.Until(due)) }

func ownThread() (release func()) { return func() {} }
