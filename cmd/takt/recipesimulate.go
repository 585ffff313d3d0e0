package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/taktworks/takt/chart"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobhistory"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/simulation"
	"github.com/taktworks/takt/station"
)

type recipeSimulateCmd struct {
	File      string   `arg:"" help:"Recipe; - is standard input."`
	Equipment string   `help:"How the equipment behaves: an equipment.yaml. Without it each command is answered after a second with an empty result, and each event comes after a second." placeholder:"FILE"`
	Order     string   `help:"JSON file with a job order, or with the orders of stations, such as an orders.json: all run the recipe, at once. Default: one order without parameters." placeholder:"FILE"`
	Seed      *int64   `help:"Of all that the equipment draws; the seed in its file if not given. The same seed repeats the same run."`
	NoAnswer  []string `help:"This action is not answered, or its event does not come; with :N its N-th command in an order, counted over the rounds of a loop, or the N-th event." placeholder:"ACTION[:N]"`
	Refuse    []string `help:"The equipment refuses the command of this action." placeholder:"ACTION[:N]"`
	Late      []string `help:"The equipment takes so much longer for this action, or its event comes so much later." placeholder:"ACTION[:N]=DURATION"`
	Output    string   `help:"File for the Gantt chart: an SVG picture." short:"o" placeholder:"FILE"`
	JSON      bool     `name:"json" help:"One JSON object for each thing that happens, and at the end one for each order."`
}

// simulatedLine is one thing that happened, for programs.
type simulatedLine struct {
	MS         int64  `json:"ms"` // since the start
	JobOrderID string `json:"job_order_id,omitempty"`
	*jobhistory.Fact
	Parameters json.RawMessage `json:"parameters,omitempty"` // of a command
	Method     isa95.Method    `json:"method,omitempty"`
	State      string          `json:"state,omitempty"`
	Note       string          `json:"note,omitempty"`
}

// simulatedEnd is what became of one order, for programs.
type simulatedEnd struct {
	MS         int64             `json:"ms"`
	JobOrderID string            `json:"job_order_id"`
	Outcome    string            `json:"outcome"` // its state, or Refused
	Error      string            `json:"error,omitempty"`
	Waits      []recipe.Wait     `json:"waits,omitempty"`
	Response   []isa95.Parameter `json:"response,omitempty"`
}

func (c *recipeSimulateCmd) check(*app) error {
	if c.Seed != nil && c.Equipment == "" {
		return errors.New("--seed is of the draws in --equipment FILE, which is missing")
	}
	return nil
}

func (c *recipeSimulateCmd) Run(a *app) error {
	o, err := c.options(a)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	var entries []simulation.Entry
	r := o.Program.Recipe()
	if c.Equipment == "" {
		plain := fmt.Sprintf("without --equipment each command is answered after %v with an empty result, and each event comes after %[1]v", simulation.PlainDelay)
		err = c.print(a, simulation.Entry{Note: plain}, r)
	}
	o.Observe = func(e simulation.Entry) {
		entries = append(entries, e)
		err = cmp.Or(err, c.print(a, e, r))
	}
	results, bound := simulation.Run(*o)
	if err != nil {
		return err
	}
	bars := simulation.Bars(entries, results)
	if c.Output != "" {
		if err := os.WriteFile(c.Output, chart.GanttSVG(bars, "Simulation of "+filepath.Base(c.File)), 0o644); err != nil {
			return err
		}
	}
	if !c.JSON && len(bars) > 0 {
		width, _ := terminal(a.out)
		if _, err := fmt.Fprint(a.out, "\n", chart.GanttText(bars, width), "\n"); err != nil {
			return err
		}
	}
	var failures []string
	for _, result := range results {
		end := simulatedEndOf(result)
		if err := c.printEnd(a, end); err != nil {
			return err
		}
		if result.State.Top != isa95.Ended {
			failures = append(failures, result.Order+" "+end.Outcome)
		}
	}
	if len(failures) == 0 {
		return nil
	}
	err = fmt.Errorf("%d of %d orders did not complete: %s", len(failures), len(results), strings.Join(failures, ", "))
	if bound != "" {
		err = fmt.Errorf("the simulation was stopped: %s; %w", bound, err)
	}
	return &exitError{exitFailed, err}
}

// options reads the files and the faults.
func (c *recipeSimulateCmd) options(a *app) (*simulation.Options, error) {
	text, err := a.readInput(c.File, maxRecipe)
	if err != nil {
		return nil, err
	}
	o := &simulation.Options{}
	if o.Program, err = recipe.Compile(text); err != nil {
		return nil, fmt.Errorf("%s: %w; see takt recipe check", c.File, err)
	}
	scope := isa95.Scope("simulation")
	if c.Equipment != "" {
		if o.Equipment, err = station.LoadEquipment(c.Equipment); err != nil {
			return nil, err
		}
		scope = o.Equipment.Scopes[0]
		if c.Seed != nil {
			o.Equipment = o.Equipment.Seeded(*c.Seed)
		}
	}
	if err := c.orders(a, o, scope); err != nil {
		return nil, err
	}
	return o, c.faults(o)
}

func (c *recipeSimulateCmd) orders(a *app, o *simulation.Options, scope isa95.Scope) error {
	if c.Order == "" {
		order := &isa95.JobOrder{JobOrderID: "simulated"}
		if why := o.Program.Refusal(recipe.Order{ID: order.JobOrderID, Scope: string(scope)}); why != "" {
			return fmt.Errorf("an order without parameters cannot run this recipe: %s; give an order that has them with --order FILE", why)
		}
		o.Orders = []simulation.Order{{Scope: scope, Order: order}}
		return nil
	}
	text, err := a.readInput(c.Order, maxInput)
	if err != nil {
		return err
	}
	lists, err := mes.ParseOrders(c.Order, text)
	if err != nil {
		return err
	}
	for _, list := range lists {
		for i := range list.JobOrders {
			o.Orders = append(o.Orders, simulation.Order{Scope: cmp.Or(list.Scope, scope), Order: &list.JobOrders[i]})
		}
	}
	return nil
}

func (c *recipeSimulateCmd) faults(o *simulation.Options) error {
	add := func(flag, text string, d station.Disturbance) error {
		f, err := simulation.ParseFault(text, d)
		if err == nil {
			err = f.Check(o.Program.Recipe())
		}
		if err != nil {
			return fmt.Errorf("--%s %s: %w", flag, text, err)
		}
		o.Faults = append(o.Faults, f)
		return nil
	}
	var all []error
	for _, text := range c.NoAnswer {
		all = append(all, add("no-answer", text, station.Disturbance{Silent: true}))
	}
	for _, text := range c.Refuse {
		all = append(all, add("refuse", text, station.Disturbance{Refuse: "simulated with --refuse"}))
	}
	for _, text := range c.Late {
		action, by, _ := strings.Cut(text, "=")
		late, err := time.ParseDuration(by)
		if err != nil || late <= 0 {
			all = append(all, fmt.Errorf("--late %s: must be an action, perhaps with the number of an attempt, and a duration, such as press:2=90s", text))
			continue
		}
		all = append(all, add("late", action, station.Disturbance{Late: late}))
	}
	return errors.Join(all...)
}

func (c *recipeSimulateCmd) print(a *app, e simulation.Entry, r *recipe.Recipe) error {
	if c.JSON {
		line := simulatedLine{MS: milliseconds(e.At), JobOrderID: e.Order, Parameters: e.Parameters, Method: e.Method, Note: e.Note}
		if e.Fact != nil {
			fact := jobhistory.Named(*e.Fact, r)
			line.Fact = &fact
		}
		if e.Method != "" {
			line.State = e.State.String()
		}
		return printJSON(a.out, line)
	}
	text := e.Note
	switch {
	case e.Fact != nil:
		text = strings.TrimSpace(e.Fact.Text(r) + " " + string(e.Parameters))
	case e.Method != "":
		text = fmt.Sprintf("%s: the order is %s", e.Method, e.State)
	}
	if e.Order != "" {
		text = e.Order + "  " + text
	}
	_, err := printf(a.out, "%10.3f s  %s\n", e.At.Seconds(), text)
	return err
}

// milliseconds rounds, as the times of a trace in text are.
func milliseconds(d time.Duration) int64 { return d.Round(time.Millisecond).Milliseconds() }

func simulatedEndOf(r simulation.Result) simulatedEnd {
	end := simulatedEnd{MS: milliseconds(r.Took), JobOrderID: r.Order, Outcome: r.State.String(), Error: r.Refused, Waits: r.Waits}
	if r.Refused != "" {
		end.Outcome = "Refused"
	}
	if r.Response != nil {
		end.Response = r.Response.JobResponseData
	}
	return end
}

func (c *recipeSimulateCmd) printEnd(a *app, end simulatedEnd) error {
	if c.JSON {
		return printJSON(a.out, end)
	}
	text := fmt.Sprintf("%s  %s after %v", end.JobOrderID, end.Outcome, time.Duration(end.MS)*time.Millisecond)
	for _, p := range end.Response {
		text += fmt.Sprintf("  %s=%s", p.ID, p.Value)
	}
	for _, w := range end.Waits {
		text += "  waits: " + waitText(w)
	}
	if end.Error != "" {
		text += "  " + end.Error
	}
	_, err := printf(a.out, "%s\n", text)
	return err
}

// waitText says what a run waits for when nothing can happen any more.
func waitText(w recipe.Wait) string {
	if w.Kind != recipe.WaitTransition {
		return fmt.Sprintf("action %s (%s)", w.Action, w.TypeID)
	}
	return fmt.Sprintf("transition %s → %s, %s (%s)", w.Step, w.Target, w.Condition, w.Blame())
}
