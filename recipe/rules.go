package recipe

// Rule is one rule of a check (spec A.4). Severity is "error", "warning", or "error or
// warning" where it depends on the case.
type Rule struct {
	Code     string
	Severity string
	Text     string
}

// Rules lists the rules that Check applies, for documentation. R028 is not among them:
// qualifiers that end by time have no meaning in compat semantics. Nor is R032: while
// branches cannot nest, R011, R013 and R015 leave no unsafe network to find.
func Rules() []Rule {
	return []Rule{
		{"R001", "error", "required members are there, with the type of the format; nothing is coerced, no member is there twice"},
		{"R002", "error", "enumerated values are written exactly as listed"},
		{"R003", "error", "there is at least one step"},
		{"R004", "error", "one step is initial"},
		{"R005", "error", "only one step is initial"},
		{"R006", "error", "names of steps, branches and actions are 1 to 128 characters of A-Z a-z 0-9 _ -"},
		{"R007", "error", "names of steps and branches are unique together"},
		{"R008", "error", "names of actions are unique"},
		{"R009", "error", "source and target of a transition are steps or branches"},
		{"R010", "error", "the step of an action is a step"},
		{"R011", "error", "elements of a path are steps; branches do not nest"},
		{"R012", "error or warning", "a branch has paths and no path is empty; a single path is a warning"},
		{"R013", "error", "a step is in one path, and there once"},
		{"R014", "error", "the initial step is outside branches"},
		{"R015", "error", "no transition leads into or out of a path, except from a branch to the first step of its path"},
		{"R016", "error", "a simultaneous branch has an exit if steps follow; several exits differ in priority and condition"},
		{"R017", "error", "a branch does not exit to the first step of its own path"},
		{"R018", "error", "a selection branch has entries to all of its paths, or to none"},
		{"R019", "error", "entries to the paths of a simultaneous branch are always true"},
		{"R020", "error", "every step and branch can be reached from the initial step"},
		{"R021", "error", "from every step an end can be reached, unless AllowEndless"},
		{"R022", "error", "there is an end: a step or branch without a transition out of it, unless AllowEndless"},
		{"R023", "error", "no loop consists only of steps without action and transitions that are always true"},
		{"R024", "error or warning", "transitions from one source differ in priority; a warning if their conditions exclude each other"},
		{"R025", "warning", "every transition can fire and every path can run"},
		{"R026", "error", "a condition is a constant or an expression over known names"},
		{"R027", "error", "TimeoutSeconds is 1 to 86400"},
		{"R029", "error", "TypeId is 1 to 256 characters without control characters or white space"},
		{"R030", "warning", "a step has an action (MicroDCS hangs on one without)"},
		{"R031", "warning", "events awaited at the same time can be told apart, by type or by Parameters.asset_id"},
		{"R033", "warning", "loops, conditions, qualifiers other than N, P, P1, and MaxAttempts on a pull_event run differently elsewhere, or have no effect"},
		{"R034", "error", "at most 1000 steps, 5000 transitions, 1000 actions, 200 branches, 64 levels, 1 MiB"},
		{"R035", "warning", "a step or branch that can be left can always be left: one of its transitions is true in any case, or is otherwise, or looks at step.t"},
	}
}
