package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Usage is what a server has spent since it started. A negative value is not known.
type Usage struct {
	CPU      time.Duration
	Commands int64
}

// clockTick is the unit of the times in /proc, the same on every Linux.
const clockTick = 10 * time.Millisecond

// ownCPU is the CPU time of this process.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// processTimes are the fields of /proc/<pid>/stat that matter here.
type processTimes struct {
	parent     int
	own, ended time.Duration // of the process, and of its children that have ended
}

// parseStat reads a line of /proc/<pid>/stat. The name of the program, in brackets, may contain anything.
func parseStat(line string) (processTimes, error) {
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 15 {
		return processTimes{}, fmt.Errorf("not a line of /proc/<pid>/stat: %q", line)
	}
	var n [5]int
	for i, at := range []int{1, 11, 12, 13, 14} { // parent, utime, stime, cutime, cstime
		var err error
		if n[i], err = strconv.Atoi(fields[at]); err != nil {
			return processTimes{}, fmt.Errorf("/proc/<pid>/stat: %w", err)
		}
	}
	return processTimes{parent: n[0], own: time.Duration(n[1]+n[2]) * clockTick, ended: time.Duration(n[3]+n[4]) * clockTick}, nil
}

// familyCPU is the CPU time of a process and its children, those that have ended included.
func familyCPU(pid int) (time.Duration, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	parent, err := parseStat(string(line))
	if err != nil {
		return 0, err
	}
	sum := parent.own + parent.ended
	all, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, path := range all {
		line, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		if t, err := parseStat(string(line)); err == nil && t.parent == pid {
			sum += t.own + t.ended
		}
	}
	return sum, nil
}

// machineBusy is the CPU time that the whole machine has spent; ok is false where it is not told.
func machineBusy() (busy time.Duration, ok bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	return parseBusy(string(text))
}

// parseBusy reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
func parseBusy(text string) (busy time.Duration, ok bool) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, false
	}
	for _, at := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.ParseInt(fields[at], 10, 64)
		if err != nil {
			return 0, false
		}
		busy += time.Duration(n) * clockTick
	}
	return busy, true
}

// foreignShare is the part of the machine's CPU that others used while busy was spent in all and ours by us and the server.
func foreignShare(busy, ours, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return 0
	}
	return max(0, (busy-ours).Seconds()/(elapsed.Seconds()*float64(runtime.NumCPU())))
}
