// Package recipe holds the Sequential Function Chart (IEC 61131-3) that a job order runs:
// its format and rules, the document of one run, and the decisions that carry a run on.
// It is pure: no I/O, no clock, no randomness. The engine loads documents, lets a Program
// decide, and commits what comes out in one unit.
//
//	recipe text ──Check──▶ findings
//	     │
//	  Compile
//	     ▼
//	  Program ◀── Order (parameters that conditions see)
//	     │
//	     │  Start · Answer · Pulled · Tick · Evaluate   (documents, event, now)
//	     ▼
//	  Outcome ──▶ Execution, mailboxes   documents to commit
//	          ──▶ Commands               entries for the outbox
//	          ──▶ Due                    the next timer
//	          ──▶ Phase                  Running, Completed (End of the job), Failed (Abort)
//
// # How a run moves
//
// A step is complete when all of its actions are completed; a step without actions is at
// once. Then its transitions are looked at: the true one of the lowest priority number is
// taken. If none is true the step stays, and its transitions are looked at again with
// every event of the job, and each second where step.t is asked for. A step without
// transitions ends the run. A simultaneous branch starts all of its paths and is done when
// all of them are; a selection branch takes the path whose entry is true; both are left
// like a step. Entering a step again is a new iteration of it: its actions start anew.
// One decision carries all of this on until nothing moves without another event.
//
// A push_command action sends a command and awaits its answer: after a third of the
// time-out, and again after each third, the same command goes out under the same id; at
// the time-out, or when the equipment refuses, the next attempt goes out under a new id if
// MaxAttempts allows one, else the run fails. One that is given up without an answer is
// called off by its Cancel command, if it has one. A pull_event action awaits an event of its
// type, or takes an early one from the mailbox of the type.
//
// # Condition syntax
//
// Constants, in any case: always, true or nothing; never or false; otherwise (true when no
// other transition out of the same place is). Everything else is an expression, in the
// syntax of github.com/expr-lang/expr, over
//
//	actions.<name>.ok             whether the action is completed in its current iteration
//	actions.<name>.result.<path>  what its equipment answered
//	job.parameters.<id>, job.id   of the job order
//	step.t                        seconds since the step became active (for the way out of
//	                              a branch: since its paths were done)
//
// with == != < <= > >= and or not in contains startsWith endsWith matches + - * / % ** ??
// ?: and the functions abs ceil floor float int len lower max min round string trim upper.
// A name with a dash is written actions["a-b"].ok. What is missing is nil: it equals only
// nil, counts as false where a truth value is needed, and ?? gives it a value; to order it
// or calculate with it is an error, which fails the job, for to go on with an unknown
// torque would be worse. So it is with a result that is out of the range of numbers, as that of
// a division by zero is.
//
// An index that is no whole number or name is an error, and so is one that a list in the expression does not have; beyond the
// end of any other list is nil. A number with a leading zero, such as 014, does not compile.
//
// Numbers are compared exactly, and 3, 3.0 and 3e0 are one number. Two of more than 1000 characters, or with an exponent beyond
// 1000, are unequal if they differ as float64s; else to compare them is an error. Fractions of at most 17 digits are float64s. A whole number beyond 64 bits can be compared and passed on; to calculate with it is an error.
//
// # Parameters of a command
//
// An object in Parameters with exactly one of the members $value, $expr and $literal is a
// reference. It is resolved when an attempt is decided, and what comes of it is kept in the
// execution, so that a command that is sent again is the same. Program.Refusal says what an
// order lacks: so that this is found out before the machine works.
//
// # When something dies
//
// Nothing is held in memory between decisions. A decision whose commit was lost is made
// again from the same documents and comes out the same, command ids included; an answer or
// event that comes twice, or for an attempt of an earlier iteration, is Stale and changes
// nothing.
package recipe
