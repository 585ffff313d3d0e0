//go:build unix && !linux

package embedded

import "syscall"

// childAttr: own process group. Without Linux' parent death signal a child outlives a killed parent; its data directory then stays locked.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
