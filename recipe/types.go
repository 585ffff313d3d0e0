package recipe

import "encoding/json"

// The names under which a recipe travels in a Work Master (spec A.1).
const (
	// SchemaURI is the dataschema of a Work Master whose data is a recipe of ours. The
	// trailing slash belongs to it.
	SchemaURI = "https://aschamberger.github.io/schemas/microdcs/sfc-recipe/v1.0.0/"
	// TypeID is the CloudEvents type of the recipe type.
	TypeID = "com.github.aschamberger.microdcs.sfc-recipe.v1"
)

// Recipe is a Sequential Function Chart (IEC 61131-3) in the form of spec A.2. It is
// written in PascalCase; Decode reads snake_case too. The order of Transitions breaks
// ties of priority, the order of Actions is the order of dispatch within a step.
type Recipe struct {
	Steps       []Step
	Transitions []Transition
	Actions     []Action
	Branches    []Branch `json:",omitempty"`

	// Version is for people: which edition of the recipe this is. It changes nothing.
	Version string `json:",omitempty"`

	// Semantics is "" or SemanticsCompat.
	Semantics string `json:",omitempty"`
	// AllowEndless switches R021 and R022 off, for recipes that only a command ends.
	AllowEndless bool `json:",omitempty"`
	// MaxIterations is how often one step may be entered in one execution before the
	// job fails; 0 means DefaultMaxIterations.
	MaxIterations int `json:",omitempty"`
}

// Step is a situation of the machine. Exactly one step of a recipe is initial.
type Step struct {
	Name    string
	Initial bool
}

// Transition leads from a step or branch to a step or branch once Source is complete
// and Condition is true. Among several, the lowest Priority wins. Condition is a
// constant (always, true, empty; never, false; otherwise) or an expression, see
// Condition syntax in the package documentation.
type Transition struct {
	Source    string
	Target    string
	Condition string
	Priority  int
}

// Action is an ActionAssociation: one thing that equipment does, or one event that is
// awaited, while its step is active. Name is unique in the recipe.
type Action struct {
	Name        string
	Step        string
	Qualifier   Qualifier
	Interaction Interaction
	// TypeID is the CloudEvents type of the command sent or of the event awaited.
	TypeID string `json:"TypeId"`
	// TimeoutSeconds is the longest wait for the equipment, 1 to 86400.
	TimeoutSeconds int
	// Parameters is a JSON object handed to the equipment, verbatim but for references (see
	// the package documentation); nil when absent.
	// The member asset_id names the asset whose events a pull_event awaits.
	Parameters json.RawMessage `json:",omitempty"`
	// MaxAttempts is how often a push_command is tried within one iteration before the
	// job fails; 0 means 1. A pull_event is waited for once.
	MaxAttempts int `json:",omitempty"`
	// Cancel is the command that calls a push_command off; nil = the equipment is not told.
	Cancel *Cancel `json:",omitempty"`
}

// Cancel is a command that leaves when an action that is not answered is over: by a time-out, or because its run has ended by Abort, Stop or a failure.
type Cancel struct {
	TypeID         string `json:"TypeId"` // CloudEvents type of the command
	TimeoutSeconds int    // how long it is repeated until it is answered, 1 to 86400
}

// Branch is a divergence with its convergence. Each path is a sequence of step names;
// no transitions stand between the steps of a path.
type Branch struct {
	Name  string
	Type  BranchType
	Paths [][]string `json:"Branches"`
}

// SemanticsCompat lets an action with any qualifier run as N (spec A.5.3). Without it a
// recipe with a qualifier that is not carried out is not taken (R037).
const SemanticsCompat = "compat"

// Qualifier is an action qualifier of IEC 61131-3. N, P and P1 are carried out, alike: at
// the entry of the step, which waits for the action. A recipe with another one that is
// stored already runs it as N.
type Qualifier string

// The qualifiers of the format (spec A.2). SD, DS and SL are not among them.
const (
	QualifierN  Qualifier = "N"
	QualifierP  Qualifier = "P"
	QualifierP0 Qualifier = "P0"
	QualifierP1 Qualifier = "P1"
	QualifierS  Qualifier = "S"
	QualifierR  Qualifier = "R"
	QualifierL  Qualifier = "L"
	QualifierD  Qualifier = "D"
)

// Interaction says whether an action sends a command or awaits an event.
type Interaction string

// The two interactions.
const (
	InteractionPush Interaction = "push_command"
	InteractionPull Interaction = "pull_event"
)

// BranchType says whether one path runs or all.
type BranchType string

// The two kinds of branch.
const (
	SelectionBranch    BranchType = "selection"
	SimultaneousBranch BranchType = "simultaneous"
)

// Limits of a recipe (R034) and defaults of its extension keys.
const (
	MaxSteps       = 1000
	MaxTransitions = 5000
	MaxActions     = 1000
	MaxBranches    = 200
	// MaxBytes is the size of a recipe in bytes.
	MaxBytes = 1 << 20
	// MaxNameBytes is the length of a step, branch or action name in bytes (R006).
	MaxNameBytes = 128
	// MaxTimeoutSeconds is one day (R027).
	MaxTimeoutSeconds = 86400
	// DefaultMaxIterations bounds the entries of one step in one execution.
	DefaultMaxIterations = 1000
)

// maxIterations resolves the zero of MaxIterations.
func (r *Recipe) maxIterations() int {
	if r.MaxIterations > 0 {
		return r.MaxIterations
	}
	return DefaultMaxIterations
}

// maxAttempts is how often a may be tried within one iteration.
func (a *Action) maxAttempts() int {
	if a.Interaction == InteractionPush && a.MaxAttempts > 1 {
		return a.MaxAttempts
	}
	return 1
}
