package topics

// Party is who takes part in the traffic at the broker. Each has a user of its own there.
type Party string

const (
	Takt      Party = "Takt"      // all processes of takt serve
	MES       Party = "MES"       // orders work from some stations
	Equipment Party = "equipment" // of some stations
	Observer  Party = "observer"  // reads what happens at all stations
	Operator  Party = "operator"  // the command line: what an MES may, at all stations, and configuration
)

// Parties are all of them.
func Parties() []Party { return []Party{Takt, MES, Equipment, Observer, Operator} }

// Row is one topic. In Pattern {p} is the topic prefix, {scope} a station, {client} the client id of the user who has the right, {instance} a process of Takt,
// {token} a secret of one command.
type Row struct {
	Pattern  string
	Retained bool
	Writes   []Party // may publish
	Reads    []Party // may subscribe
	Content  string
	// Filter is the pattern as it stands in the rights of the writers, if it is wider than Pattern with + in place of what the writer is free to choose.
	Filter string
}

// Table is every topic of an installation. docs/reference/topics.md and deploy/mosquitto/acl are made from it, and so is `takt acl`.
func Table() []Row {
	readers := []Party{MES, Observer, Operator}
	return []Row{
		{Pattern: "{p}/{scope}/commands", Writes: []Party{MES, Operator}, Reads: []Party{Takt},
			Content: "CloudEvent in binary or structured mode: a job method, a query, or station configuration. The scope is the `subject` up to its first `/`; the topic names the same"},
		{Pattern: "{p}/commands", Writes: []Party{Operator}, Reads: []Party{Takt},
			Content: "the same for the scope of the subject; who may publish here may command every station"},
		{Pattern: "{p}/processors/{name}/{scope}", Writes: []Party{MES, Equipment, Operator}, Reads: []Party{Takt},
			Content: "CloudEvent for the processor of that name; the scope is the `subject` up to its first `/`"},
		{Pattern: "{p}/processors/{name}", Writes: []Party{Operator}, Reads: []Party{Takt},
			Content: "the same for any scope, or none"},
		{Pattern: "mes/responses/{client}", Writes: []Party{Takt}, Reads: []Party{MES, Operator}, Filter: "mes/#",
			Content: "reply, where the command asked for it (`--reply-topics`): same type, `subject` and correlation data, `causationid` = the command's `id`"},
		{Pattern: "{p}/{scope}/replies/{client}", Writes: []Party{Takt}, Reads: []Party{MES, Equipment, Operator},
			Content: "the same, for requesters that have rights below the topic prefix only, and for stations"},
		{Pattern: "{p}/{scope}/events", Writes: []Party{Takt}, Reads: readers,
			Content: "a status event for each transition of a job order; the one of its end carries the response. Those of one job order come in order; the extension `sequence` counts them. Besides, events that processors emit"},
		{Pattern: "{p}/{scope}/state-index", Retained: true, Writes: []Party{Takt}, Reads: readers,
			Content: "JSON: `seq`, `epoch`, and for each job order its state and `has_result`"},
		{Pattern: "{p}/{scope}/order/{id}", Retained: true, Writes: []Party{Takt}, Reads: readers,
			Content: "JSON: the job order (`--order-payload`)"},
		{Pattern: "{p}/{scope}/result/{id}", Retained: true, Writes: []Party{Takt}, Reads: readers,
			Content: "JSON: the job response"},
		{Pattern: "{p}/{scope}/prompts/{id}", Retained: true, Writes: []Party{Takt}, Reads: readers,
			Content: "reserved for questions to people; not written yet"},
		{Pattern: "{p}/metadata", Retained: true, Writes: []Party{Takt}, Reads: readers,
			Content: "CloudEvent without a type: which methods and events there are; the extension `storeid` names the store that is served on these topics"},
		{Pattern: "{p}/{scope}/metadata", Retained: true, Writes: []Party{Takt}, Reads: readers,
			Content: "the same for one station, with the scope as `subject`: from its first configuration or job order until it retires"},
		{Pattern: "{p}/private/{client}", Writes: []Party{Takt, MES, Observer, Operator}, Reads: []Party{Takt, MES, Observer, Operator}, Filter: "{p}/private/{client}/#",
			Content: "markers that a client sends to itself, to know when it has all retained messages"},
		{Pattern: "{p}/equipment/{scope}/commands", Writes: []Party{Takt}, Reads: []Party{Equipment},
			Content: "CloudEvent: `type` = the `TypeId` of the action, `id` = the command id, `subject` = the scope, `correlationid` = that of the run; body `{JobOrderID, Action, Attempt, Parameters}`. It expires with the action's time-out. One that calls another off (`Cancel` of the action) names it by `causationid`. " +
				"For an order without a recipe: `type` = that of a job method (Start, Update, RevokeStart, Pause, Resume, Stop, Abort, Cancel), repeated under its `id` until it is answered"},
		{Pattern: "{p}/responses/{instance}/{token}", Writes: []Party{Equipment}, Reads: []Party{Takt}, Filter: "{p}/responses/#",
			Content: "the answer, on the response topic of the command: `causationid` = the command's `id`; its body is the result of the action; with `mdcserrorkind` it is a refusal. The token is a secret of Takt and this station"},
		{Pattern: "{p}/equipment/{scope}/events", Writes: []Party{Equipment}, Reads: []Party{Takt},
			Content: "CloudEvent for `pull_event` actions: `type` = their `TypeId`, `subject` = the scope or `{scope}/{asset}`; a `correlationid` says which job order it is for. " +
				"For an order without a recipe: Run, End, Abort or ReceiveJobResponse, with a response topic; answered with a ReturnStatus"},
	}
}
