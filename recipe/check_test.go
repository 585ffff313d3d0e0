package recipe

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

type ruleCase struct {
	name   string
	recipe string // short form, see text; or JSON if it starts with {
	want   string
	only   bool
}

// options are those that the case needs.
func (c ruleCase) options() Options {
	return Options{
		AllowUnknown: strings.HasPrefix(c.want, "R036 warning"),
		Portable:     strings.HasPrefix(c.want, "R030") || strings.HasPrefix(c.want, "R033"),
	}
}

// ruleCases has, for each rule, recipes that break it. want is "CODE severity pointer" of
// a finding that must be there; only says that it is the only error, or, of a warning,
// that there is no error.
var ruleCases = []ruleCase{
	{"member missing", `{"Steps": [{"Initial": true}], "Transitions": [], "Actions": []}`, "R001 error /Steps/0", true},
	{"unknown qualifier", "step A*\ndo a @ A as SD", "R002 error /Actions/0/Qualifier", true},
	{"no step", "", "R003 error /Steps", true},
	{"no initial step", "step A", "R004 error /Steps", true},
	{"two initial steps", "step A*\nstep B*\nA > B", "R005 error /Steps/1/Initial", true},
	{"empty name", `{"Steps": [{"Name": "", "Initial": true}], "Transitions": [], "Actions": []}`, "R006 error /Steps/0/Name", true},
	{"long name", "step " + strings.Repeat("x", 129) + "*", "R006 error /Steps/0/Name", true},
	{"dot in the name of an action", "step A*\ndo a.b @ A", "R006 error /Actions/0/Name", true},
	{"space in the name of an action", `{"Steps": [{"Name": "A", "Initial": true}], "Transitions": [], "Actions": [{"Name": "a b", "Step": "A", "Qualifier": "N", "Interaction": "push_command", "TypeId": "t", "TimeoutSeconds": 5}]}`, "R006 error /Actions/0/Name", true},
	{"quote in the name of a step", `step A"*`, "R006 error /Steps/0/Name", true},
	{"topic characters in the name of a branch", "step A*\nstep B\nstep C\nA > X/+#\nsim X/+#: B | C", "R006 error /Branches/0/Name", true},
	{"two steps of one name", "step A*\nstep A", "R007 error /Steps/1/Name", true},
	{"two branches of one name", "step A*\nstep B\nstep C\nstep D\nstep E\nA > X\nsim X: B | C\nsim X: D | E", "R007 error /Branches/1/Name", true},
	{"step and branch of one name", "step A*\nstep B\nstep C\nA > A\nsim A: B | C", "R007 error /Branches/0/Name", false},
	{"two actions of one name", "step A*\nstep B\nA > B\ndo a @ A\ndo a @ B", "R008 error /Actions/1/Name", true},
	{"dangling source", "step A*\nX > A", "R009 error /Transitions/0/Source", true},
	{"dangling target", "step A*\nA > X", "R009 error /Transitions/0/Target", true},
	{"action of an unknown step", "step A*\ndo a @ X", "R010 error /Actions/0/Step", true},
	{"action of a branch", "step A*\nstep B\nstep C\nA > X\nsim X: B | C\ndo a @ X", "R010 error /Actions/0/Step", true},
	{"unknown step in a path", "step A*\nstep B\nA > X\nsim X: B | C", "R011 error /Branches/0/Branches/1/0", true},
	{"nested branch", "step A*\nstep B\nstep C\nstep D\nA > X\nsim X: B | Y\nsim Y: C | D", "R011 error /Branches/0/Branches/1/0", true},
	{"branch without path", "step A*\nA > X\nsim X:", "R012 error /Branches/0", true},
	{"empty path", "step A*\nstep B\nA > X\nsim X: B |", "R012 error /Branches/0/Branches/1", true},
	{"one path only", "step A*\nstep B\nA > X\nsim X: B", "R012 warning /Branches/0", true},
	{"step in two paths", "step A*\nstep B\nA > X\nsim X: B | B", "R013 error /Branches/0/Branches/1/0", true},
	{"step twice in a path", "step A*\nstep B\nstep C\nA > X\nsim X: B B | C", "R013 error /Branches/0/Branches/0/1", true},
	{"step in two branches", "step A*\nstep B\nstep C\nstep D\nA > X\nX > Y\nsim X: B | C\nsim Y: D | C", "R013 error /Branches/1/Branches/1/0", true},
	{"initial step in a path", "step A\nstep B*\nstep C\nA > X\nsim X: B | C", "R014 error /Steps/1", false},
	{"jump into a path", "step A*\nstep B\nstep C\nA > X\nA > B ! 1\nsim X: B | C", "R015 error /Transitions/1/Target", true},
	{"jump out of a path", "step A*\nstep B\nstep C\nstep D\nA > X\nX > D\nB > D\nsim X: B | C", "R015 error /Transitions/2/Source", true},
	{"branch to the middle of its path", "step A*\nstep B\nstep C\nstep D\nA > X\nX > C\nsel X: B C | D", "R015 error /Transitions/1/Target", true},
	{"simultaneous branch without exit", "step A*\nstep B\nstep C\nstep D\nA > X\nsim X: B | C", "R016 error /Branches/0", false},
	{"simultaneous branch without exit to a branch", "step A*\nstep B\nstep C\nstep D\nstep E\nA > X\nsim X: B | C\nsel Y: D | E", "R016 error /Branches/0", false},
	{"two exits, always", "step A*\nstep B\nstep C\nstep D\nstep E\nA > X\nX > D\nX > E ! 1\nsim X: B | C", "R016 error /Transitions/2", true},
	{"two exits, one condition", "step A*\nstep B\nstep C\nstep D\nstep E\nA > X\nX > D: job.id == 'a'\nX > E: job.id == 'a' ! 1\nsim X: B | C", "R016 error /Transitions/2", true},
	{"two exits, one priority", "step A*\nstep B\nstep C\nstep D\nstep E\nA > X\nX > D: job.id == 'a'\nX > E: job.id != 'a'\nsim X: B | C", "R016 error /Transitions/2", true},
	{"exit to the own path", "step A*\nstep B\nstep C\nA > X\nX > B\nsim X: B | C", "R017 error /Transitions/1/Target", true},
	{"second entry to one path", "step A*\nstep B\nstep C\nA > X\nX > B: job.id == 'a'\nX > C: otherwise ! 1\nX > B: never ! 2\nsel X: B | C", "R017 error /Transitions/3/Target", true},
	{"entries to some paths", "step A*\nstep B\nstep C\nA > X\nX > B\nsel X: B | C", "R018 error /Branches/0", true},
	{"simultaneous entry with condition", "step A*\nstep B\nstep C\nA > X\nX > B: job.id == 'a'\nX > C\nsim X: B | C", "R019 error /Transitions/1/Condition", true},
	{"simultaneous entry otherwise", "step A*\nstep B\nstep C\nA > X\nX > B: otherwise\nX > C\nsim X: B | C", "R019 error /Transitions/1/Condition", true},
	{"unreachable step", "step A*\nstep B", "R020 error /Steps/1", true},
	{"unreachable branch", "step A*\nstep B\nstep C\nstep D\nX > D\nsel X: B | C", "R020 error /Branches/0", false},
	{"endless", "step A*\nstep B\nstep C\nA > B: job.id == 'a'\nA > C: otherwise ! 1\nB > B\ndo b @ B", "R021 error /Steps/1", true},
	{"only way out never", "step A*\nstep B\nA > B: never", "R021 error /Steps/0", true},
	{"way out is dead", "step A*\nstep B\nA > A\nA > B ! 1\ndo a @ A", "R021 error /Steps/0", true},
	{"no path can be taken", "step A*\nstep B\nstep C\nA > X\nX > B: never\nX > C: false ! 1\nsel X: B | C", "R021 error /Branches/0", true},
	{"no end", "step A*\nA > A\ndo a @ A", "R022 error /Transitions", true},
	{"idle loop", "step A*\nstep B\nstep C\nA > B\nB > A: otherwise ! 1\nB > C: job.id == 'a'", "R023 error /Steps/0", true},
	{"idle loop over a simultaneous branch", "step A*\nstep B\nstep C\nstep D\nA > X\nX > X: otherwise ! 1\nX > D: job.id == 'a'\nsim X: B | C", "R023 error /Branches/0", true},
	{"idle loop over an idle path", "step A*\nstep B\nstep C\nA > X\nX > A: otherwise ! 9\nX > D: job.id == 'a'\nX > B: job.id == 'b'\nX > C ! 1\nsel X: B | C\ndo b @ B\nstep D", "R023 error /Steps/0", true},
	{"idle loop over the first path", "step A*\nstep B\nstep C\nA > X\nX > A: otherwise ! 9\nX > D: job.id == 'a'\nsel X: B | C\nstep D", "R023 error /Steps/0", true},
	{"same priority", "step A*\nstep B\nstep C\nA > B: job.id == 'a'\nA > C: job.id contains 'b'", "R024 error /Transitions/1", true},
	{"same priority, exclusive", "step A*\nstep B\nstep C\nA > B: job.id == 'a'\nA > C: otherwise", "R024 warning /Transitions/1", true},
	{"behind always", "step A*\nstep B\nstep C\nA > B\nA > C: job.id == 'a' ! 1", "R025 warning /Transitions/1", true},
	{"otherwise beside always", "step A*\nstep B\nstep C\nA > B ! 1\nA > C: otherwise", "R025 warning /Transitions/1", true},
	{"second otherwise", "step A*\nstep B\nstep C\nA > B: otherwise\nA > C: otherwise ! 1", "R025 warning /Transitions/1", true},
	{"paths without entries", "step A*\nstep B\nstep C\nA > X\nsel X: B | C", "R025 warning /Branches/0", true},
	{"unknown word", "step A*\nstep B\nA > B: torque_ok", "R026 error /Transitions/0/Condition", true},
	{"unknown action", "step A*\nstep B\nA > B: actions.x.ok", "R026 error /Transitions/0/Condition", true},
	{"no time-out", "step A*\ndo a @ A time 0", "R027 error /Actions/0/TimeoutSeconds", true},
	{"time-out of more than a day", "step A*\ndo a @ A time 86401", "R027 error /Actions/0/TimeoutSeconds", true},
	{"empty type", `step A*` + "\n" + `do a @ A type ""`, "R029 error /Actions/0/TypeId", true},
	{"step without action", "step A*", "R030 warning /Steps/0", true},
	{"one type awaited twice in a step", "step A*\non a @ A type t\non b @ A type t", "R031 warning /Actions/1/TypeId", true},
	{"one type awaited in two paths", `step A*
		step B
		step C
		step D
		A > X
		sim X: B D | C
		on a @ D type t with {"asset_id":"cam-1"}
		on b @ C type t`, "R031 warning /Actions/1/TypeId", true},
	{"loop", "step A*\nstep B\nA > A: job.id == 'a'\nA > B: otherwise ! 1\ndo a @ A", "R033 warning /Steps/0", true},
	{"condition", "step A*\nstep B\nA > B: job.id == 'a'", "R033 warning /Transitions/0/Condition", true},
	{"qualifier", "step A*\ndo a @ A as P", "R033 warning /Actions/0/Qualifier", true},
	{"qualifier that is not carried out", "step A*\ndo a @ A as P0", "R037 error /Actions/0/Qualifier", true},
	{"qualifier that may run as N", "step A*\ndo a @ A as L\nset {\"Semantics\": \"compat\"}", "R037 warning /Actions/0/Qualifier", true},
	{"attempts of a pull_event", "step A*\non a @ A attempts 2", "R038 warning /Actions/0/MaxAttempts", true},
	{"type of a job method", "step A*\non a @ A type org.opcfoundation.ISA95-JOBCONTROL_V2.End.v2", "R029 error /Actions/0/TypeId", true},
	{"Cancel of a pull_event", "step A*\non a @ A cancel 5", "R043 error /Actions/0/Cancel", true},
	{"time-out of a Cancel", "step A*\ndo a @ A cancel 86401", "R043 error /Actions/0/Cancel/TimeoutSeconds", true},
	{"too many steps", many(1001, "step S%d"), "R034 error /Steps", true},
	{"too many transitions", "step A*\n" + many(5001, "A > A ! %d"), "R034 error /Transitions", true},
	{"too many actions", "step A*\n" + many(1001, "do a%d @ A"), "R034 error /Actions", true},
	{"too many branches", "step A*\n" + many(201, "sim X%d: A"), "R034 error /Branches", true},
	{"perhaps no way out", "step A*\nstep B\nA > B: job.id == 'a'", "R035 warning /Transitions/0", true},
	{"perhaps no way into a path", "step A*\nstep B\nstep C\nA > X\nX > B: job.id == 'a'\nX > C: job.id == 'b' ! 1\nsel X: B | C", "R035 warning /Transitions/2", true},
	{"reference to an unknown action", `step A*
		do a @ A with {"n":{"$value":"actions.x.result.n"}}`, "R039 error /Actions/0/Parameters", true},
	{"reference that is no name", `step A*
		do a @ A with {"n":[{"$value":"job.parameters.a+1"}]}`, "R039 error /Actions/0/Parameters", true},
	{"reference to time", `step A*
		do a @ A with {"n":{"$value":"step.t"}}`, "R039 error /Actions/0/Parameters", true},
	{"reference that is no text", `step A*
		do a @ A with {"n":{"$expr":5}}`, "R039 error /Actions/0/Parameters", true},
	{"expression that cannot be read", `step A*
		do a @ A with {"n":{"$expr":"1+"}}`, "R039 error /Actions/0/Parameters", true},
	{"reference that is not sent", `step A*
		on a @ A with {"n":{"$value":"job.id"}}`, "R039 warning /Actions/0/Parameters", true},
	{"misspelt reference", `step A*
		do a @ A with {"n":{"$vlaue":"job.id"}}`, "R039 warning /Actions/0/Parameters", true},
	{"reference with other members", `step A*
		do a @ A with {"n":{"$value":"job.id","x":1}}`, "R039 warning /Actions/0/Parameters", true},
	{"constant that fails", "step A*\nstep B\nA > B: job.id == 'a' and 1 / 0 > 5", "R041 error /Transitions/0/Condition", true},
	{"constant that is out of range", "step A*\nstep B\nA > B: step.t > 2 ** 2000", "R041 error /Transitions/0/Condition", true},
	{"constant that fails in a command", `step A*
		do a @ A with {"n":{"$expr":"1%0"}}`, "R041 error /Actions/0/Parameters", true},
	{"own result", `step A*
		do a @ A with {"n":{"$value":"actions.a.result.n"}}`, "R042 error /Actions/0/Parameters", true},
	{"own result in a loop", `step A*
		step B
		A > A: job.id=='a'
		A > B: otherwise ! 1
		do a @ A with {"n":{"$value":"actions.a.result.n"}}`, "R042 error /Actions/0/Parameters", true},
	{"result of a later action", `step A*
		step B
		A > B
		do a @ A with {"n":{"$value":"actions.b.result??actions.b.result.n"}}
		do b @ B`, "R042 error /Actions/0/Parameters", true},
	{"result of an action of the same step", `step A*
		do a @ A
		do b @ A with {"n":{"$value":"actions.a.result.n"}}`, "R042 error /Actions/1/Parameters", true},
	{"result of the other way", `step A*
		step B
		step C
		A > X
		sel X: B | C
		do b @ B
		do c @ C with {"n":{"$value":"actions.b.result.n"}}`, "R042 error /Actions/1/Parameters", true},
	{"result of a later action, or a value", `step A*
		step B
		A > B
		do a @ A with {"n":{"$value":"actions.b.result??5"}}
		do b @ B`, "R042 warning /Actions/0/Parameters", true},
	{"state of a later action", `step A*
		step B
		A > B
		do a @ A with {"n":{"$value":"actions.b.ok"}}
		do b @ B`, "R042 warning /Actions/0/Parameters", true},
	{"result of a later action in an expression", `step A*
		step B
		A > B
		do a @ A with {"n":{"$expr":"actions.b.result.n*2"}}
		do b @ B`, "R042 warning /Actions/0/Parameters", true},
	{"large pattern", "step A*\nstep B\nA > B: job.id matches 'a{0,1000}$x'", "R040 error /Transitions/0/Condition", true},
	{"misspelt member", "step A*\nset {\"AllowEndles\": true}", "R036 error /AllowEndles", true},
	{"misspelt member that is allowed", "step A*\nset {\"AllowEndles\": true}", "R036 warning /AllowEndles", true},
	{"too large", "{" + strings.Repeat(" ", MaxBytes) + "}", "R034 error ", true},
}

func many(n int, line string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, line+"\n", i)
	}
	return b.String()
}

func recipeOf(short string) []byte {
	if strings.HasPrefix(short, "{") {
		return []byte(short)
	}
	return text(short)
}

// Every rule finds what breaks it.
func TestRules(t *testing.T) {
	for _, c := range ruleCases {
		t.Run(c.want[:4]+" "+c.name, func(t *testing.T) {
			data := recipeOf(c.recipe)
			findings := Check(data, c.options())
			i := slices.IndexFunc(findings, func(f Finding) bool { return f.Code+" "+f.Severity+" "+f.Pointer == c.want })
			if i < 0 {
				t.Fatalf("no %s among %v", c.want, findings)
			}
			if f := findings[i]; f.Message == "" || f.Fix == "" || f.Line < 1 {
				t.Errorf("%+v does not say where and what to do", f)
			}
			errs := 0
			for _, f := range findings {
				if f.Severity == SeverityError {
					errs++
				}
			}
			isError := strings.Contains(c.want, " error ")
			if c.only && (isError && errs != 1 || !isError && errs != 0) {
				t.Errorf("other errors: %v", findings)
			}
			_, err := Compile(data)
			var invalid *InvalidError
			if i := slices.IndexFunc(Rules(), func(r Rule) bool { return r.Code == c.want[:4] }); i >= 0 && Rules()[i].Delivery {
				if err != nil {
					t.Errorf("a recipe that is stored does not run on: %v", err)
				}
				return
			}
			if (err != nil) != isError || isError && !errors.As(err, &invalid) {
				t.Errorf("Compile: %v", err)
			}
			if isError && len(invalid.Findings) != len(findings) {
				t.Errorf("Compile has %d findings, Check %d", len(invalid.Findings), len(findings))
			}
		})
	}
}

// A rule that is listed and has no case above fails here, in each of its severities.
func TestEveryRuleHasACase(t *testing.T) {
	for _, rule := range Rules() {
		for _, severity := range strings.Split(rule.Severity, " or ") {
			if !slices.ContainsFunc(ruleCases, func(c ruleCase) bool {
				return strings.HasPrefix(c.want, rule.Code+" "+severity+" ")
			}) {
				t.Errorf("no case breaks %s (%s, %s)", rule.Code, severity, rule.Text)
			}
		}
	}
	for _, c := range ruleCases {
		code, severity := strings.Fields(c.want)[0], strings.Fields(c.want)[1]
		if !slices.ContainsFunc(Rules(), func(r Rule) bool { return r.Code == code && strings.Contains(r.Severity, severity) }) {
			t.Errorf("%s (%s) is not listed", code, severity)
		}
	}
}

// What would run differently on another engine is said on request only: a recipe for Takt
// is not full of warnings.
func TestPortabilityIsAskedFor(t *testing.T) {
	loops := text("step A*\nstep B\nA > A: job.id == 'a'\nA > B: otherwise ! 1\ndo a @ A")
	if findings := Check(loops, Options{}); len(findings) > 0 {
		t.Errorf("%v", findings)
	}
	codes := map[string]int{}
	for _, f := range Check(loops, Options{Portable: true}) {
		codes[f.Code]++
	}
	if codes["R030"] != 1 || codes["R033"] != 2 {
		t.Errorf("%v", codes)
	}
}

// A fix names what the author can write, in words of the format.
func TestFixesAreInWordsOfTheFormat(t *testing.T) {
	action := `{"Steps": [{"Name": "A", "Initial": true}], "Transitions": [%s], "Actions": [{"Name": "a", "Step": "A", "Qualifier": "%s", "Interaction": "push_command", "TypeId": "t", "TimeoutSeconds": %s}]}`
	for recipe, want := range map[string]string{
		fmt.Sprintf(action, "", "N", `"5"`):  "R001 write an integer from 1 to 86400",
		fmt.Sprintf(action, "", "N", `1e99`): "R001 write an integer from 1 to 86400",
		fmt.Sprintf(action, "", "N", `0`):    "R027 write 1 to 86400",
		fmt.Sprintf(action, "", "SD", `5`):   "R002 write N, P or P1",
		fmt.Sprintf(action, `{"Source":"A","Target":"A","Condition":"job.id = 'a'"}`, "N", `5`): `R026 condition "job.id = 'a'": unexpected "=", write == to compare`,
		fmt.Sprintf(action, `{"Source":"A","Target":"A","Condition":"job.id =="}`, "N", `5`):    `R026 condition "job.id ==": unexpected end`,
	} {
		findings := Check([]byte(recipe), Options{})
		if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Code+" "+f.Fix == want || f.Code+" "+f.Message == want }) {
			t.Errorf("no %s: %v", want, findings)
		}
	}
}

// A finding shows what is around the fault of a long condition, and no more.
func TestLongConditionsAreClipped(t *testing.T) {
	before, after := strings.Repeat("job.id == 'ö' or ", 20), strings.Repeat(" or job.id == 'c'", 20)
	for condition, want := range map[string]string{
		before + "job.id = 'b'" + after: `R026 condition "…ö' or job.id == 'ö' or job.id = 'b' or job.id == 'c' or job.…": unexpected "=", write == to compare`,
		before + "torque_ok" + after:    `R026 condition "…id == 'ö' or job.id == 'ö' or torque_ok or job.id == 'c' or …": unknown name "torque_ok"`,
		"torque_ok" + after:             `R026 condition "torque_ok or job.id == 'c' or job.id == 'c' or job.id == 'c'…": unknown name "torque_ok"`,
		before + "job.id == 014":        `R026 condition "…id == 'ö' or job.id == 'ö' or job.id == 'ö' or job.id == 014": 014 is a number with a leading zero: write it without, or in quotes if it is text`,
		before + "1 / 0 > 5":            `R041 condition "…job.id == 'ö' or job.id == 'ö' or job.id == 'ö' or 1 / 0 > 5": 1 / 0 > 5 fails for each order: 1 / 0 is a division by zero`,
		"(" + before + "true) + 1":      `R026 condition "…job.id == 'ö' or job.id == 'ö' or job.id == 'ö' or true) + 1": (job.id == "ö" or job.id == "ö" or job.id == "ö" or job.id =… is not true or false`,
	} {
		findings := Check([]byte(strings.ReplaceAll(string(text("step A*\nstep B\nA > B: CONDITION\nA > B: otherwise ! 1\ndo a @ A")), "CONDITION", condition)), Options{})
		if len(findings) != 1 || findings[0].Code+" "+findings[0].Message != want {
			t.Errorf("%v, want %s", findings, want)
		}
	}
}

// What must not be found: recipes near the edge of a rule.
func TestNoFalseAlarm(t *testing.T) {
	const ref = `with {"n":{"$value":"actions.b.result.n"}}` // R042 leaves alone what can have a value
	for name, c := range map[string]struct {
		recipe string
		not    []string
	}{
		"branch after branch":                  {"step A*\nstep B\nstep C\nstep D\nstep E\nA > X\nX > Y\nsim X: B | C\nsel Y: D | E\nY > D: job.id == 'a'\nY > E: otherwise ! 1", []string{"R015", "R016", "R017", "R018", "R020", "R021", "R022"}},
		"simultaneous with entries":            {"step A*\nstep B\nstep C\nA > X\nX > B\nX > C\nsim X: B | C", []string{"R017", "R019", "R024", "R025"}},
		"entry and exit of one number":         {"step A*\nstep B\nstep C\nstep D\nA > X\nX > D\nX > B: job.id == 'a'\nX > C: otherwise ! 1\nsel X: B | C", []string{"R024", "R025"}},
		"exclusive exits":                      {"step A*\nstep B\nstep C\nstep D\nstep E\nA > X\nX > D: job.id == 'a'\nX > E: otherwise ! 1\nsim X: B | C", []string{"R016", "R024"}},
		"allowed endless":                      {"step A*\nA > A\ndo a @ A\nset {\"AllowEndless\": true}", []string{"R021", "R022"}},
		"loop with an action":                  {"step A*\nstep B\nstep C\nA > B\nB > A: otherwise ! 1\nB > C: job.id == 'a'\ndo a @ A", []string{"R023"}},
		"loop over a busy branch":              {"step A*\nstep B\nstep C\nstep D\nA > X\nX > X: otherwise ! 1\nX > D: job.id == 'a'\nsim X: B | C\ndo b @ C", []string{"R023"}},
		"loop over a busy path":                {"step A*\nstep B\nstep C\nstep D\nA > X\nX > A: otherwise ! 9\nX > D: job.id == 'a'\nX > B\nX > C: job.id == 'x' ! 1\nsel X: B | C\ndo b @ B", []string{"R023"}},
		"loop with a condition":                {"step A*\nstep B\nA > A: job.id == 'a'\nA > B: otherwise ! 1", []string{"R023", "R021"}},
		"assets tell events apart":             {`step A*` + "\n" + `on a @ A type t with {"asset_id":"1"}` + "\n" + `on b @ A type t with {"asset_id":"2"}`, []string{"R031"}},
		"one type, one after the other":        {"step A*\nstep B\nA > B\non a @ A type t\non b @ B type t", []string{"R031"}},
		"one type, one path or other":          {"step A*\nstep B\nstep C\nA > X\nX > B: job.id == 'a'\nX > C: otherwise ! 1\nsel X: B | C\non b @ B type t\non c @ C type t", []string{"R031"}},
		"a way out for the rest":               {"step A*\nstep B\nA > B: job.id == 'a'\nA > B: otherwise ! 1", []string{"R035"}},
		"a way out always":                     {"step A*\nstep B\nA > B: job.id == 'a'\nA > B ! 1", []string{"R035"}},
		"a way out after a time":               {"step A*\nstep B\nA > B: job.id == 'a'\nA > B: step.t > 5 ! 1", []string{"R035"}},
		"a way out either way":                 {"step A*\nstep B\nA > B: job.parameters.n < 5\nA > B: job.parameters.n >= 5 ! 1", []string{"R035"}},
		"no way out at all":                    {"step A*\nstep B\nA > B: never", []string{"R035"}},
		"a result, before":                     {"step A*\nstep B\nstep C\nA > B\nB > C\ndo b @ A\ndo a @ C " + ref, []string{"R042"}},
		"a result, in a loop":                  {"step A*\nstep B\nA > B\nB > A: job.id == 'a'\nB > B: otherwise ! 1\nset {\"AllowEndless\": true}\ndo a @ A " + ref + "\ndo b @ B", []string{"R042"}},
		"a result, before in a path":           {"step A*\nstep B\nstep C\nstep D\nA > X\nsim X: B C | D\ndo b @ B\ndo a @ C " + ref, []string{"R042"}},
		"a result, in a parallel path":         {"step A*\nstep B\nstep C\nA > X\nsim X: B | C\ndo a @ B " + ref + "\ndo b @ C", []string{"R042"}},
		"a result, in a branch before":         {"step A*\nstep B\nstep C\nstep D\nA > X\nX > D\nsim X: B | C\ndo b @ B\ndo a @ D " + ref, []string{"R042"}},
		"a result, a step before a branch":     {"step A*\nstep B\nstep C\nA > X\nsim X: B | C\ndo b @ A\ndo a @ B " + ref, []string{"R042"}},
		"a result, an event that came early":   {"step A*\non b @ A\ndo a @ A " + ref, []string{"R042"}},
		"a result, the second attempt, or not": {"step A*\ndo b @ A\ndo a @ A attempts 2 with {\"n\":{\"$value\":\"actions.b.result.n??5\"}}", []string{"R042"}},
		"qualifiers P and P1":                  {"step A*\ndo a @ A as P\ndo b @ A as P1", []string{"R037"}},
	} {
		for _, f := range Check(recipeOf(c.recipe), Options{}) {
			if slices.Contains(c.not, f.Code) || slices.Contains(c.not, "R042") && f.Severity == SeverityError {
				t.Errorf("%s: %s", name, f)
			}
		}
	}
	for _, f := range Check(testdata(t, "gearbox.json"), Options{}) {
		if f.Code != "R033" {
			t.Errorf("gearbox: %s", f)
		}
	}
}

// What is wrong with a recipe reaches whoever asks for it, with line and pointer,
// all at once, in the order of the text and in the spelling of the text.
func TestFindingsSayWhere(t *testing.T) {
	findings := Check([]byte(`{
  "steps": [
    {"name": "A", "initial": true},
    {"name": "B b"}
  ],
  "transitions": [
    {"source": "A", "target": "B b", "condition": "ok"},
    {"source": "A",
     "target": "C", "condition": ""}
  ],
  "actions": [{"name": "a", "step": "A", "qualifier": "N", "interaction": "push_command", "type_id": "t",
    "timeout_seconds": 0}]
}`), Options{})
	var got []string
	for _, f := range findings {
		if f.Severity == SeverityError {
			got = append(got, fmt.Sprintf("%d %s %s", f.Line, f.Code, f.Pointer))
		}
	}
	want := []string{
		"4 R006 /steps/1/name",
		"7 R026 /transitions/0/condition",
		"8 R024 /transitions/1",
		"9 R009 /transitions/1/target",
		"12 R027 /actions/0/timeout_seconds",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	line := Finding{Code: "R009", Severity: "error", Pointer: "/transitions/1", Line: 9, Message: "m", Fix: "f"}.String()
	if line != "9: R009 error: m (at /transitions/1); f" {
		t.Error(line)
	}
}

// The error of Compile names findings, but not thousands of them.
func TestInvalidErrorIsShort(t *testing.T) {
	_, err := Compile(text("step A*\n" + many(300, "A > X%d")))
	if err == nil || len(err.Error()) > 3000 || !strings.Contains(err.Error(), "R009") || !strings.Contains(err.Error(), "more") {
		t.Error(err)
	}
}

// A recipe at the limits of R034 is checked without comparing everything with everything.
func TestLargeRecipe(t *testing.T) {
	var b strings.Builder
	for i := range MaxSteps {
		fmt.Fprintf(&b, "step S%d%s\n", i, map[bool]string{true: "*"}[i == 0])
		fmt.Fprintf(&b, "on a%d @ S0 type t with {\"asset_id\":\"%d\"}\n", i, i)
	}
	for i := range MaxTransitions {
		fmt.Fprintf(&b, "S0 > S%d: job.id == '%d' ! %d\n", i%MaxSteps, i, i/50)
	}
	if findings := Check(text(b.String()), Options{}); HasErrors(findings) {
		t.Error(findings[0])
	}
	one := strings.Count(b.String(), " ! ")
	if findings := Check(text(strings.NewReplacer(" ! 1\n", " ! 0\n", " ! 2\n", " ! 0\n").Replace(b.String())), Options{}); !HasErrors(findings) || one != MaxTransitions {
		t.Error("151 transitions of one priority are taken for exclusive")
	}
}

func TestExclusive(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"never", "always", true},
		{"always", "otherwise", false},
		{"otherwise", "otherwise", false},
		{"otherwise", "job.id == 'a'", true},
		{"job.id == 'a'", "job.id == 'b'", true},
		{"job.id == 'a'", "job.id == 'a'", false},
		{"job.parameters.n == 1", "job.parameters.n == 2", true},
		{"job.parameters.n == 1.5", "job.parameters.n == 2.5", true},
		{"job.parameters.n == 1.50", "job.parameters.n == 1.5", false},
		{"job.parameters.b == true", "job.parameters.b == false", true},
		{"job.parameters.n == 1", "job.parameters.m == 2", false},
		{"job.parameters.n < 5", "job.parameters.n >= 5", true},
		{"job.parameters.n < 5", "job.parameters.n <= 5", false},
		{"job.parameters.n == 5", "job.parameters.n != 5", true},
		{"job.parameters.b", "not job.parameters.b", true},
		{"!(job.parameters.b)", "job.parameters.b", true},
		{"job.parameters.b", "not job.parameters.c", false},
		{"job.id == 'a' and job.parameters.b", "job.id == 'b'", false},
		{"job.id in ['a']", "job.id in ['b']", false},
	} {
		a, errA := compileCondition(c.a, nil)
		b, errB := compileCondition(c.b, nil)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if exclusive(a, b) != c.want || exclusive(b, a) != c.want {
			t.Errorf("%s / %s: want %v", c.a, c.b, c.want)
		}
	}
}

// Of two members of one name, or of one member in two spellings, a reader takes one and ignores the other without a word. A delivery with such is refused; Decode
// takes the wire name, and of two the last.
func TestDoubledMembersOfADelivery(t *testing.T) {
	with := func(members string) []byte {
		return []byte(`{"Steps":[{"Name":"A","Initial":true}],"Transitions":[],"Actions":[{"Name":"a","Step":"A","Qualifier":"N","Interaction":"push_command","TypeId":"t","TimeoutSeconds":30` + members + `}]}`)
	}
	for members, want := range map[string]string{
		`,"Parameters":{"force":1},"parameters":{"force":9}`: "/Actions/0/parameters: the member Parameters is there twice, as Parameters and as parameters",
		`,"parameters":{"force":9},"Parameters":{"force":1}`: "/Actions/0/parameters: the member Parameters is there twice, as Parameters and as parameters",
		`,"max_attempts":1,"MaxAttempts":2`:                  "/Actions/0/max_attempts: the member MaxAttempts is there twice, as MaxAttempts and as max_attempts",
		`,"timeout_seconds":30`:                              "/Actions/0/timeout_seconds: the member TimeoutSeconds is there twice, as TimeoutSeconds and as timeout_seconds",
		`,"Parameters":{"force":1,"force":9}`:                "/Actions/0/Parameters/force: the member force is there twice",
		`,"Parameters":{"a":[{"b":1,"b":2}]}`:                "/Actions/0/Parameters/a/0/b: the member b is there twice",
	} {
		found := false
		for _, f := range Check(with(members), Options{}) {
			found = found || f.Code == "R001" && f.Severity == SeverityError && f.Pointer+": "+f.Message == want
		}
		if !found {
			t.Errorf("%s: %v, want %s", members, Check(with(members), Options{}), want)
		}
		r, findings := Decode(with(members))
		if r == nil || HasErrors(findings) {
			t.Errorf("%s stored: %v", members, findings)
		}
	}
	r, _ := Decode(with(`,"Parameters":{"force":1},"parameters":{"force":9}`))
	if got := string(r.Actions[0].Parameters); got != `{"force":1}` {
		t.Errorf("stored: %s", got)
	}
}
