// Package embedded runs the servers that Takt can do without having: for `takt demo`, `takt dev` and the tests.
//
//	StartRedis      redis-server or valkey-server as a child, append-only file when Persist
//	StartMosquitto  mosquitto as a child, persistent when a directory is given
//	Start           any other server as a child, for tests
//	StartMiniredis  in-process, memory only
//	Pipe            the same without a port, for a bubble of testing/synctest
//	StartMochi      in-process MQTT 5 broker, memory only
//
// A server listens on 127.0.0.1 (or a unix socket) on a port of its own and never is one that another program started:
// a child says itself when it listens, and data directories are locked. A child is told to end when this process
// dies, however it dies (Linux), and sits in a process group of its own, so that Ctrl-C reaches Takt first and the servers last.
//
// Every Server can be killed and started again on the same address and data; that is what the fault tests do.
package embedded
