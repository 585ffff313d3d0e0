// Package rig runs takt as its users do: the real binary in processes of its own, a real redis-server and a real
// mosquitto, a simulated station, and an MES. Tests stop, kill and pause any of them and then ask what was lost.
//
//	w := rig.New(t, rig.Options{WorkerTTL: time.Second})      // store, broker, station; nothing is shared with other tests
//	a, b := w.Serve("a"), w.Serve("b")
//	mes := w.MES()
//	go mes.Order(w.Orders(40))
//	mes.Until("10 results", func(l rig.Ledger) bool { return len(l.Results) >= 10 })
//	a.Kill()
//	w.Serve("a")
//	mes.UntilDone(40)
//	w.Verify(mes)                                             // ledgers of MES and station, keys, takt check
//
// What is lost or done twice is found out from the ledgers of the MES and of the station, which are outside Takt. Waiting is
// always for an event: a line of output, an entry of a ledger, an answer. The binary is built once per test process, with the
// race detector if the test has it, and a race that it reports fails the test.
package rig
