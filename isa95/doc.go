// Package isa95 has the words of OPC 10031-4 v2.00 (ISA-95 job control) and OPC 40001-3 v1.01 (Machinery jobs): job
// orders, job responses, work masters, the calls and results of the methods, the job state machine, and the type ids
// and schemas that name them on the wire.
//
// All of it is pure: no I/O, no clock, nothing that changes, safe for any number of goroutines. Redis, the broker and
// other processes cannot reach it.
//
// Bodies: Unmarshal is lenient towards peers, limited in size, and says what is wrong with a body as a JSON pointer,
// the value and the rule. Marshal writes the one wire form, and nothing that Unmarshal would refuse.
//
// Names: ParseScope, ParseJobOrderID and their like check what becomes part of a key or topic, once, at the edge.
//
// The machine is the table of jobordercontrol.go; Next asks it, and Diagram draws it (testdata/jobordercontrol.mmd):
//
//	InitialState -Store-> NotAllowedToStart -Start-> AllowedToStart -Run-> Running -End, Stop-> Ended -Clear-> EndState
//	                                                     Running -Pause-> Interrupted -Resume-> Running
//	            NotAllowedToStart, AllowedToStart, Running, Interrupted -Abort-> Aborted -Clear-> EndState
//	                                         NotAllowedToStart, AllowedToStart -Cancel-> EndState
package isa95
