package station

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
)

// Equipment is how simulated equipment behaves: an equipment.yaml. The format is EquipmentFormat. It is
// immutable once loaded.
type Equipment struct {
	Scopes []isa95.Scope // at least one
	Source string        // CloudEvents source of its answers and events

	seed     int64
	commands map[string]*skill // by type
	sources  []source
}

// EquipmentFormat is an equipment.yaml with every member, for people.
const EquipmentFormat = `scope: cell-07           # or scopes: [cell-07, cell-08]; each behaves alike
source: urn:acme:cell-07 # CloudEvents source of answers and events; default urn:takt:station:{first scope}
seed: 7                  # of everything drawn; the same seed repeats the same run; default 1

# In result and body, these become values, also within other text: ${order} ${scope} ${action} ${attempt}
# ${parameters.a.b} of the command, in events ${result.a.b} of its answer, in sources ${n} and ${scope};
# ${84.1..85.9} is drawn, with as many decimals.

commands:                # what it answers; commands of other types are left to other equipment
  - type: com.acme.place.v1
  - type: com.acme.press.v1
    takes: 150ms..300ms  # how long the work takes: one duration, or a range to draw from; default 0s
    result: {force_kn: "${parameters.force_kn}"} # the answer; default {}
    unanswered: 1        # so many deliveries of one command get no answer; the work is done; default 0
    events:              # sent after the work, with the correlation id of the command; default none
      - type: com.acme.checked.v1
        after: 50ms      # after the work is done, or a range; default 0s
        asset: camera-2  # subject {scope}/{asset}; default {scope}
        body: {ok: true, force_kn: "${result.force_kn}"}
        repeat: 5s       # again under the same id, so often until a command of a type in until comes; default never
        until: [com.acme.place.v1]
    cases:               # the first that fits replaces the members it has
      - orders: [JO-7, JO-8*] # ids, or beginnings with a * at the end; default all
        attempts: 1..2        # or 1, or 3..; default all
        chance: 0.05          # how likely it fits, 0 to 1; default 1
        refuse: {kind: STATE_INVALID, message: jammed} # instead of a result; no events then

sources:                 # events it sends of its own accord, to whoever waits longest
  - type: com.acme.pallet_arrived.v1
    first: 500ms         # after the start, or a range; default 0s
    every: 200ms         # or a range; at least 1ms
    limit: 40            # so many in all; default 0 = no limit
    ahead: 4             # at most so many that no order has taken up; default 0 = no limit
    taken_by: com.acme.place.v1 # the first command of this type for an order takes one up; needed by ahead
    again: 10s           # an event not taken up for so long does not count any more; default 30s
    asset: infeed
    body: {pallet: "P-${n}"}
`

// skill is what the equipment does on commands of one type.
type skill struct {
	behaviour
	cases []oneCase
}

// behaviour has one field per member; nil = not said.
type behaviour struct {
	takes      *Span
	result     *template
	refuse     *cloudevent.Error
	unanswered *int
	events     []plannedEvent
}

// oneCase replaces members of the behaviour for some commands.
type oneCase struct {
	behaviour
	orders   []string // "JO-7" or "JO-8*"; empty = all
	attempts attempts
	chance   float64
}

// plannedEvent is an event that follows a command.
type plannedEvent struct {
	typeID, asset string
	after         Span
	body          *template
	repeat        time.Duration // 0 = never
	until         []string
}

// source is a kind of event that equipment sends on its own.
type source struct {
	typeID, asset, takenBy string
	first, every           Span
	limit, ahead           int64
	again                  time.Duration
	body                   *template
}

// LoadEquipment reads an equipment.yaml. A file with faults is an *InvalidError with all of them.
func LoadEquipment(file string) (*Equipment, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("station: %w", err)
	}
	return ParseEquipment(filepath.Base(file), data)
}

// ParseEquipment is LoadEquipment of a text; file is for messages.
func ParseEquipment(file string, data []byte) (*Equipment, error) {
	root := parseYAML(file, data)
	if root.node == nil {
		return nil, root.d.err()
	}
	get := root.object("scope", "scopes", "source", "seed", "commands", "sources")
	e := &Equipment{
		Scopes:   root.scopes(get),
		Source:   get("source").text(),
		seed:     get("seed").integer(1, -1<<62, 1<<62),
		commands: map[string]*skill{},
	}
	if e.Source == "" && len(e.Scopes) > 0 {
		e.Source = "urn:takt:station:" + string(e.Scopes[0])
	}
	for _, f := range get("commands").list() {
		typeID, c := f.skill()
		if e.commands[typeID] != nil {
			f.faultValue(typeID, "must not have a type that stands here twice")
		}
		e.commands[typeID] = c
	}
	for _, f := range get("sources").list() {
		e.sources = append(e.sources, f.source(e.commands))
	}
	if len(e.commands) == 0 && len(e.sources) == 0 {
		root.fault("must have commands or sources")
	}
	if err := root.d.err(); err != nil {
		return nil, err
	}
	return e, nil
}

// PlainEquipment is for at least one scope. It answers commands of these types with an empty result after that time, and sends no events.
func PlainEquipment(scopes []isa95.Scope, types []string, takes time.Duration) *Equipment {
	e := &Equipment{Scopes: scopes, Source: "urn:takt:station:" + string(scopes[0]), seed: 1, commands: map[string]*skill{}}
	for _, t := range types {
		e.commands[t] = &skill{behaviour: behaviour{takes: &Span{takes, takes}}}
	}
	return e
}

// Seeded is e with another seed: times, results and cases are drawn anew.
func (e *Equipment) Seeded(seed int64) *Equipment {
	other := *e
	other.seed = seed
	return &other
}

// Types lists the command types that the equipment answers, in order.
func (e *Equipment) Types() []string {
	var types []string
	for t := range e.commands {
		types = append(types, t)
	}
	slices.Sort(types)
	return types
}

// scopes reads scope or scopes.
func (f field) scopes(get func(string) field) []isa95.Scope {
	one, several := get("scope"), get("scopes")
	var all []isa95.Scope
	check := func(f field, s string) {
		scope, err := isa95.ParseScope(s)
		if err != nil && s != "" {
			f.fault("must be a scope: %s", ruleOf(err))
		}
		all = append(all, scope)
	}
	switch {
	case !one.absent() && !several.absent():
		several.fault("must not stand beside scope")
	case !one.absent():
		check(one, one.required())
	case len(several.list()) > 0:
		several.texts() // for repeats
		for _, e := range several.list() {
			check(e, e.text())
		}
	default:
		f.fault("must have a scope, or a list of scopes")
	}
	return all
}

func (f field) skill() (typeID string, c *skill) {
	get := f.object("type", "takes", "result", "refuse", "unanswered", "events", "cases")
	typeID = get("type").typeID()
	c = &skill{behaviour: f.behaviour(get)}
	for _, f := range get("cases").list() {
		get := f.object("orders", "attempts", "chance", "takes", "result", "refuse", "unanswered", "events")
		one := oneCase{
			behaviour: f.behaviour(get),
			orders:    get("orders").texts(),
			attempts:  get("attempts").attempts(),
			chance:    get("chance").fraction(1),
		}
		for i, e := range get("orders").list() {
			if star := strings.IndexByte(one.orders[i], '*'); star >= 0 && star != len(one.orders[i])-1 {
				e.fault("must have a * at its end only")
			}
		}
		c.cases = append(c.cases, one)
	}
	return typeID, c
}

// typeID reads a CloudEvents type.
func (f field) typeID() string {
	s := f.required()
	if len(s) > 256 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		f.fault("must be a CloudEvents type: at most 256 printable ASCII characters without spaces")
	}
	return s
}

func (f field) behaviour(get func(string) field) behaviour {
	b := behaviour{result: get("result").template("order", "scope", "action", "attempt", "parameters")}
	if takes := get("takes"); !takes.absent() {
		span := takes.span(Span{})
		b.takes = &span
	}
	if refuse := get("refuse"); !refuse.absent() {
		get := refuse.object("kind", "message")
		b.refuse = &cloudevent.Error{Kind: cloudevent.ErrorKind(get("kind").text()), Message: get("message").required()}
		if b.refuse.Kind == "" {
			b.refuse.Kind = cloudevent.KindUnknownError
		} else if !slices.Contains(cloudevent.Kinds(), b.refuse.Kind) {
			get("kind").fault("must be one of %v", cloudevent.Kinds())
		}
		if b.result != nil {
			refuse.fault("must not stand beside result")
		}
	}
	if unanswered := get("unanswered"); !unanswered.absent() {
		n := int(unanswered.integer(0, 0, 1<<30))
		b.unanswered = &n
	}
	if events := get("events"); !events.absent() {
		b.events = []plannedEvent{}
		for _, f := range events.list() {
			b.events = append(b.events, f.event())
		}
	}
	return b
}

func (f field) event() plannedEvent {
	get := f.object("type", "after", "asset", "body", "repeat", "until")
	e := plannedEvent{
		typeID: get("type").typeID(),
		asset:  get("asset").asset(),
		after:  get("after").span(Span{}),
		body:   get("body").template("order", "scope", "action", "attempt", "parameters", "result"),
		repeat: get("repeat").interval(0),
		until:  get("until").texts(),
	}
	if e.repeat > 0 && len(e.until) == 0 {
		get("repeat").fault("must stand beside until")
	}
	return e
}

func (f field) source(commands map[string]*skill) source {
	get := f.object("type", "first", "every", "limit", "ahead", "taken_by", "again", "asset", "body")
	s := source{
		typeID:  get("type").typeID(),
		asset:   get("asset").asset(),
		takenBy: get("taken_by").text(),
		first:   get("first").span(Span{}),
		every:   get("every").span(Span{}),
		limit:   get("limit").integer(0, 0, 1<<40),
		ahead:   get("ahead").integer(0, 0, 1<<20),
		again:   get("again").interval(30 * time.Second),
		body:    get("body").template("scope", "n"),
	}
	if s.every.Min < time.Millisecond {
		get("every").fault("must be at least 1ms")
	}
	if s.ahead > 0 && s.takenBy == "" {
		get("ahead").fault("must stand beside taken_by")
	}
	if s.takenBy != "" && commands[s.takenBy] == nil {
		get("taken_by").fault("must be the type of one of the commands")
	}
	return s
}

// asset reads the part of a subject after the scope.
func (f field) asset() string {
	s := f.text()
	if len(s) > 128 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		f.fault("must be at most 128 bytes without control characters")
	}
	return s
}

// interval reads one duration of at least a millisecond.
func (f field) interval(byDefault time.Duration) time.Duration {
	if f.absent() {
		return byDefault
	}
	s := f.span(Span{})
	if s.Min != s.Max || s.Min < time.Millisecond {
		f.fault("must be one duration of at least 1ms")
		return byDefault
	}
	return s.Min
}

// ruleOf is the rule of a name's error without the name.
func ruleOf(err error) string {
	var name *isa95.NameError
	if errors.As(err, &name) {
		return name.Rule
	}
	return err.Error()
}
