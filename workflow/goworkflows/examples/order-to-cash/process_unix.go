//go:build unix && !linux

package main

import "syscall"

// childAttr cannot have a child end with us here: after kill -9 of this process, end takt by hand.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
