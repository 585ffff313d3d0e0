package embedded

import "syscall"

// childAttr: own process group, so that Ctrl-C in the terminal does not reach the child; a clean end when the parent dies.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
