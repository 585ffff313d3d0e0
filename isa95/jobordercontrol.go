package isa95

// Substate transitions of OPC 10031-4 v2.00 (prepare, interrupted and ended machines). Go code may make them; no
// method does and they have no event effect.
const (
	NotAllowedToStartFromWaitingToReady  Method = "NotAllowedToStartFromWaitingToReady"
	NotAllowedToStartFromReadyToLoaded   Method = "NotAllowedToStartFromReadyToLoaded"
	NotAllowedToStartFromReadyToWaiting  Method = "NotAllowedToStartFromReadyToWaiting"
	NotAllowedToStartFromLoadedToReady   Method = "NotAllowedToStartFromLoadedToReady"
	NotAllowedToStartFromLoadedToWaiting Method = "NotAllowedToStartFromLoadedToWaiting"
	AllowedToStartFromWaitingToReady     Method = "AllowedToStartFromWaitingToReady"
	AllowedToStartFromReadyToLoaded      Method = "AllowedToStartFromReadyToLoaded"
	AllowedToStartFromReadyToWaiting     Method = "AllowedToStartFromReadyToWaiting"
	AllowedToStartFromLoadedToReady      Method = "AllowedToStartFromLoadedToReady"
	AllowedToStartFromLoadedToWaiting    Method = "AllowedToStartFromLoadedToWaiting"
	InterruptedFromHeldToSuspended       Method = "InterruptedFromHeldToSuspended"
	InterruptedFromSuspendedToHeld       Method = "InterruptedFromSuspendedToHeld"
	EndedFromCompletedToClosed           Method = "EndedFromCompletedToClosed"
)

// Transition is one row of the machine.
type Transition struct {
	From   State  // a From without Sub holds for the state and all its substates
	Method Method // what happens
	To     State
	Number int // TransitionNumber in the NodeSet, within its machine; 0 = the NodeSet leaves it out
}

// jobOrderControl is the whole machine of OPC 10031-4 v2.00 §6.2.1, Figure 5. The
// figure's dotted rows (Store, StoreAndStart, Cancel, Clear) are here; the NodeSet leaves them out. Where a transition
// enters a state with substates, To names the one entered, so Update, Start and RevokeStart reset Waiting and Loaded.
var jobOrderControl = []Transition{
	{Initial, Store, State{NotAllowedToStart, Ready}, 0},
	{Initial, StoreAndStart, State{AllowedToStart, Ready}, 0},
	{State{NotAllowedToStart, ""}, Update, State{NotAllowedToStart, Ready}, 1},
	{State{NotAllowedToStart, ""}, Start, State{AllowedToStart, Ready}, 2},
	{State{AllowedToStart, ""}, RevokeStart, State{NotAllowedToStart, Ready}, 3},
	{State{AllowedToStart, ""}, Update, State{AllowedToStart, Ready}, 4},
	{State{AllowedToStart, ""}, Run, State{Running, ""}, 5},
	{State{Running, ""}, Pause, State{Interrupted, Suspended}, 6},
	{State{Running, ""}, Stop, State{Ended, Completed}, 7},
	{State{Running, ""}, End, State{Ended, Completed}, 7},
	{State{Running, ""}, Abort, State{Aborted, ""}, 8},
	{State{Interrupted, ""}, Abort, State{Aborted, ""}, 9},
	{State{Interrupted, ""}, Resume, State{Running, ""}, 10},
	{State{Interrupted, ""}, Stop, State{Ended, Completed}, 11},
	{State{NotAllowedToStart, ""}, Abort, State{Aborted, ""}, 12},
	{State{AllowedToStart, ""}, Abort, State{Aborted, ""}, 13},
	{State{NotAllowedToStart, ""}, Cancel, State{EndState, ""}, 0},
	{State{AllowedToStart, ""}, Cancel, State{EndState, ""}, 0},
	{State{Ended, ""}, Clear, State{EndState, ""}, 0},
	{State{Aborted, ""}, Clear, State{EndState, ""}, 0},

	{State{NotAllowedToStart, Waiting}, NotAllowedToStartFromWaitingToReady, State{NotAllowedToStart, Ready}, 1},
	{State{NotAllowedToStart, Ready}, NotAllowedToStartFromReadyToLoaded, State{NotAllowedToStart, Loaded}, 2},
	{State{NotAllowedToStart, Ready}, NotAllowedToStartFromReadyToWaiting, State{NotAllowedToStart, Waiting}, 3},
	{State{NotAllowedToStart, Loaded}, NotAllowedToStartFromLoadedToReady, State{NotAllowedToStart, Ready}, 4},
	{State{NotAllowedToStart, Loaded}, NotAllowedToStartFromLoadedToWaiting, State{NotAllowedToStart, Waiting}, 5},
	{State{AllowedToStart, Waiting}, AllowedToStartFromWaitingToReady, State{AllowedToStart, Ready}, 1},
	{State{AllowedToStart, Ready}, AllowedToStartFromReadyToLoaded, State{AllowedToStart, Loaded}, 2},
	{State{AllowedToStart, Ready}, AllowedToStartFromReadyToWaiting, State{AllowedToStart, Waiting}, 3},
	{State{AllowedToStart, Loaded}, AllowedToStartFromLoadedToReady, State{AllowedToStart, Ready}, 4},
	{State{AllowedToStart, Loaded}, AllowedToStartFromLoadedToWaiting, State{AllowedToStart, Waiting}, 5},
	{State{Interrupted, Held}, InterruptedFromHeldToSuspended, State{Interrupted, Suspended}, 1},
	{State{Interrupted, Suspended}, InterruptedFromSuspendedToHeld, State{Interrupted, Held}, 2},
	{State{Ended, Completed}, EndedFromCompletedToClosed, State{Ended, Closed}, 1},
}

type situation struct {
	state  State
	method Method
}

// nextStates is jobOrderControl with "any substate" written out.
var nextStates = func() map[situation]State {
	next := make(map[situation]State)
	for _, t := range jobOrderControl {
		for _, s := range States() {
			if s.Within(t.From) {
				next[situation{s, t.Method}] = t.To
			}
		}
	}
	return next
}()

// Next returns the state m leads to from s. ok is false where the standard gives no such transition, which a method
// call answers with InvalidStatus (B.2, bit 3), and for queries, which change nothing. Safe for concurrent use.
func Next(s State, m Method) (next State, ok bool) {
	next, ok = nextStates[situation{s, m}]
	return next, ok
}

// Allowed lists the methods a message may call in state s, in the order of Methods, without the queries.
func Allowed(s State) []Method {
	var allowed []Method
	for _, m := range Methods() {
		if _, ok := Next(s, m); ok {
			allowed = append(allowed, m)
		}
	}
	return allowed
}

// Transitions lists the whole machine, substate machines included.
func Transitions() []Transition {
	return append([]Transition(nil), jobOrderControl...)
}
