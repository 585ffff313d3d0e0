package recipe

// RuleUnknownMember is the code of the rule about members that are not known.
const RuleUnknownMember = "R036"

// Rule is one rule of a check (spec A.4). Severity is "error", "warning", or "error or
// warning" where it depends on the case.
type Rule struct {
	Code     string
	Severity string
	Text     string
	Delivery bool // it is for recipes that are delivered; those that are stored run on
}

// Rules lists the rules that Check applies, for documentation. R028 is not among them:
// qualifiers that end by time are not carried out (R037). Nor is R032: while
// branches cannot nest, R011, R013 and R015 leave no unsafe network to find.
func Rules() []Rule {
	return []Rule{
		{Code: "R001", Severity: "error", Text: "required members are there, with the type of the format; nothing is coerced, no member is there twice"},
		{Code: "R002", Severity: "error", Text: "enumerated values are written exactly as listed"},
		{Code: "R003", Severity: "error", Text: "there is at least one step"},
		{Code: "R004", Severity: "error", Text: "one step is initial"},
		{Code: "R005", Severity: "error", Text: "only one step is initial"},
		{Code: "R006", Severity: "error", Text: "names of steps, branches and actions are 1 to 128 characters of A-Z a-z 0-9 _ -"},
		{Code: "R007", Severity: "error", Text: "names of steps and branches are unique together"},
		{Code: "R008", Severity: "error", Text: "names of actions are unique"},
		{Code: "R009", Severity: "error", Text: "source and target of a transition are steps or branches"},
		{Code: "R010", Severity: "error", Text: "the step of an action is a step"},
		{Code: "R011", Severity: "error", Text: "elements of a path are steps; branches do not nest"},
		{Code: "R012", Severity: "error or warning", Text: "a branch has paths and no path is empty; a single path is a warning"},
		{Code: "R013", Severity: "error", Text: "a step is in one path, and there once"},
		{Code: "R014", Severity: "error", Text: "the initial step is outside branches"},
		{Code: "R015", Severity: "error", Text: "no transition leads into or out of a path, except from a branch to the first step of its path"},
		{Code: "R016", Severity: "error", Text: "a simultaneous branch has an exit if steps follow; several exits differ in priority and condition"},
		{Code: "R017", Severity: "error", Text: "a branch does not exit to the first step of its own path"},
		{Code: "R018", Severity: "error", Text: "a selection branch has entries to all of its paths, or to none"},
		{Code: "R019", Severity: "error", Text: "entries to the paths of a simultaneous branch are always true"},
		{Code: "R020", Severity: "error", Text: "every step and branch can be reached from the initial step"},
		{Code: "R021", Severity: "error", Text: "from every step an end can be reached, unless AllowEndless"},
		{Code: "R022", Severity: "error", Text: "there is an end: a step or branch without a transition out of it, unless AllowEndless"},
		{Code: "R023", Severity: "error", Text: "no loop consists only of steps without action and transitions that are always true"},
		{Code: "R024", Severity: "error or warning", Text: "transitions from one source differ in priority; a warning if their conditions exclude each other"},
		{Code: "R025", Severity: "warning", Text: "every transition can fire and every path can run"},
		{Code: "R026", Severity: "error", Text: "a condition is a constant or an expression over known names"},
		{Code: "R027", Severity: "error", Text: "TimeoutSeconds is 1 to 86400"},
		{Code: "R029", Severity: "error", Text: "TypeId is 1 to 256 characters without control characters or white space, and not the type of a job method"},
		{Code: "R030", Severity: "warning", Text: "with --portable: a step has an action (MicroDCS hangs on one without)"},
		{Code: "R031", Severity: "warning", Text: "events awaited at the same time can be told apart, by type or by Parameters.asset_id"},
		{Code: "R033", Severity: "warning", Text: "with --portable: no loops, conditions and qualifiers other than N, which MicroDCS runs differently"},
		{Code: "R034", Severity: "error", Text: "at most 1000 steps, 5000 transitions, 1000 actions, 200 branches, 64 levels, 1 MiB"},
		{Code: "R035", Severity: "warning", Text: "a step or branch that can be left can always be left: one of its transitions is true in any case, or is otherwise, or looks at step.t"},
		{Code: RuleUnknownMember, Severity: "error or warning", Text: "there is no member that Takt does not know, but those whose names begin with x- or _; a warning with --unknown-members keep or ignore", Delivery: true},
		{Code: "R037", Severity: "error or warning", Text: "qualifiers are N, P or P1; L, D, S, R and P0 are not carried out, and run as N, with a warning, if Semantics is compat", Delivery: true},
		{Code: "R038", Severity: "warning", Text: "MaxAttempts is of a push_command: an event is awaited once"},
		{Code: "R039", Severity: "error or warning", Text: "references in Parameters ($value, $expr) can be read and name known actions and parameters; a warning where one is not sent, is misspelt, or has other members beside it", Delivery: true},
		{Code: "R040", Severity: "error", Text: "the patterns of matches in one condition compile to at most 1000 instructions", Delivery: true},
		{Code: "R041", Severity: "error", Text: "no part of a condition or $expr fails for each order, as 1 / 0 does", Delivery: true},
		{Code: "R042", Severity: "error or warning", Text: "Parameters refer to results of actions that can be completed when the command is made; a warning where another value or an expression takes their place", Delivery: true},
		{Code: "R043", Severity: "error", Text: "Cancel is of a push_command, and its TypeId and TimeoutSeconds are as those of an action"},
	}
}
