package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/taktworks/takt/internal/nearest"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/rfc3339"
)

// cli is the whole command line. A command with the tag looks only reads Redis, so rights to read are enough.
type cli struct {
	Config

	Demo demoCmd `cmd:"" group:"start" help:"Run job orders from an MES to a machine and back, with an outage of the MES in the middle."`
	Dev  devCmd  `cmd:"" group:"start" help:"Start a store, a broker, Takt and a simulated station, and stay up for use by hand."`

	Init initCmd `cmd:"" group:"start" help:"Write a project of your own: a handler of events, a recipe, a station and a test."`

	Serve     serveCmd     `cmd:"" group:"orders" help:"Run Takt on your Redis and your broker."`
	Job       jobCmd       `cmd:"" group:"orders" help:"Send job order commands as an MES does, and look at job orders."`
	Station   stationCmd   `cmd:"" group:"orders" help:"Configure stations, or simulate one."`
	Recipe    recipeCmd    `cmd:"" group:"orders" help:"Check and draw recipes."`
	MES       mesCmd       `cmd:"" group:"orders" name:"mes" help:"Follow the results of a station as an MES does."`
	Console   consoleCmd   `cmd:"" group:"orders" help:"Serve the web console: orders, what they wait for, charts and job methods."`
	Processor processorCmd `cmd:"" group:"orders" help:"Handle CloudEvents of your own types."`
	ACL       aclCmd       `cmd:"" group:"orders" name:"acl" help:"Print the rights that your users need at the broker."`

	Task     taskCmd     `cmd:"" group:"software" help:"Submit, run, look at and steer tasks."`
	Schedule scheduleCmd `cmd:"" group:"software" help:"Look at, add, run and pause schedules of tasks."`
	Lock     lockCmd     `cmd:"" group:"software" help:"Look at locks and limiters, and break them."`
	Board    boardCmd    `cmd:"" group:"software" help:"Post, list, claim and work on the postings of a job board, also of TaskFlow."`
	Workflow workflowCmd `cmd:"" group:"software" help:"Look at, signal, end, pause and remove workflow instances."`

	Doctor  doctorCmd  `cmd:"" group:"operation" help:"Check that Redis and the broker are fit for Takt."`
	Check   checkCmd   `cmd:"" looks:"" group:"operation" help:"List broken invariants of store, streams and retained topics."`
	Bench   benchCmd   `cmd:"" group:"operation" help:"Measure Takt on your Redis and your broker."`
	Conf    configCmd  `cmd:"" group:"operation" name:"config" help:"Show the settings in force and where they come from."`
	Version versionCmd `cmd:"" group:"operation" help:"Show the version."`
	Help    helpCmd    `cmd:"" group:"operation" help:"Show the help of a command, or the flags that all commands have: takt help connection."`
	Docs    docsCmd    `cmd:"" hidden:"" help:"Write the reference pages."`
}

// app is what commands work with beside their own flags.
type app struct {
	*Config
	in       io.Reader
	out, err io.Writer
	log      *slog.Logger
	settings *settings
	kong     *kong.Context
	replicas replicasFlags // of the command, if it has them
	keys     string        // what the keys begin with that the command uses
	atEnd    []func()      // ends what the command has opened
}

const description = `Takt coordinates work that must not be lost: job orders from an MES, run on machines by recipe, results handed back across any outage.

Start with:   takt demo      or      takt dev`

// groups are the parts of commands and flags.
var groups = kong.ExplicitGroups([]kong.Group{
	{Key: "start", Title: "Start"}, {Key: "orders", Title: "Job orders"}, {Key: "software", Title: "Tasks, boards and workflows"}, {Key: "operation", Title: "Operation"},
	{Key: "config", Title: "Configuration"}, {Key: "store", Title: "Store"}, {Key: "broker", Title: "Broker"},
	{Key: "process", Title: "Process"}, {Key: "serve", Title: "Work"},
})

// run is the program: it returns the exit code.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	err := command(args, in, out, errOut)
	code := exitFailed
	if exit, ok := errors.AsType[*exitError](err); ok {
		code, err = exit.Code, exit.Err
	} else if err == nil {
		code = exitOK
	}
	if err != nil {
		fmt.Fprintf(errOut, "takt: %s\n", shownLines(err.Error()))
	}
	return code
}

func command(args []string, in io.Reader, out, errOut io.Writer) error {
	return execute(args, in, out, errOut, func(_ *cli, a *app) error { return a.kong.Run(a) })
}

// execute reads a command line and does what do says with it.
func execute(args []string, in io.Reader, out, errOut io.Writer, do func(*cli, *app) error) error {
	var c cli
	s, err := loadSettings(args, os.LookupEnv)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	left := -1 // exit code of --help
	parser, err := kong.New(&c,
		kong.Name("takt"), kong.Description(description), kong.Writers(out, errOut),
		kong.Resolvers(s), kong.TypeMapper(reflect.TypeFor[time.Time](), kong.MapperFunc(readTime)), kong.Exit(func(code int) { left = code }),
		kong.UsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, NoExpandSubcommands: true, WrapUpperBound: 110}),
		kong.Help(helpOf),
		groups,
	)
	if err != nil {
		return err
	}
	explain(parser.Model)
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if left >= 0 {
		return nil
	}
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("%s\nsee: takt %s--help", s.placed(nearOnly(hideSecrets(parser.Model, err.Error(), args)), args), commandOf(parser.Model.Node, args))}
	}
	if err := c.validate(); err != nil {
		return &exitError{exitUsage, errors.New(s.placed(err.Error(), args))}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	c.looks = parsed.Selected().Tag.Has("looks")
	a := &app{Config: &c.Config, in: in, out: out, err: errOut, settings: s, kong: parsed, keys: c.Prefix}
	defer func() {
		for _, end := range slices.Backward(a.atEnd) {
			end()
		}
	}()
	a.log = newLog(errOut, c.LogLevel, c.LogFormat)
	for name, meant := range s.strays(os.Environ()) {
		a.log.Warn("the environment has a variable that is no setting: it is ignored; `takt config` lists the settings", "variable", name, "did_you_mean", meant)
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	if err := a.provide(); err != nil {
		return err
	}
	if err = a.check(); err == nil {
		err = exitOf(do(&c, a), path(parsed.Selected().Parent)+" list")
	}
	var exit *exitError
	switch {
	case redis.Denied(err):
		return &exitError{exitNoAnswer, redis.WithRights(err, a.keys, c.looks)}
	case errors.As(err, &exit) && exit.Code == exitUsage && exit.Err != nil:
		return &exitError{exitUsage, errors.New(s.placed(exit.Err.Error(), args))}
	}
	return err
}

// checker is a command that refuses some flags.
type checker interface{ check(a *app) error }

// check judges the flags of the command that runs.
func (a *app) check() error {
	command := a.kong.Selected()
	err := outOfRange(command.AllFlags(false))
	if c, ok := command.Target.Addr().Interface().(checker); ok {
		err = errors.Join(err, c.check(a))
	}
	if err != nil {
		return &exitError{exitUsage, err}
	}
	return nil
}

// limit is a number or a duration in a rule.
var limit = regexp.MustCompile(`\d[\w.]*`)

// outOfRange refuses what the tags of flags do not allow, numbers and durations by their rules. A rule is the tag must, in words: its first number is the least that is allowed, 0 if it
// names none; a second one, behind " to ", the most. A flag with the tag scope names a station, if it is given or must be.
func outOfRange(flags [][]*kong.Flag) error {
	var errs []error
	for _, flag := range slices.Concat(flags...) {
		rule := flag.Tag.Get("must")
		if flag.Tag.Has("scope") && (flag.Required || flag.Target.String() != "") {
			_, err := scopeOf(flag.Target.String())
			errs = append(errs, err)
		}
		if rule == "" {
			continue
		}
		limits, value := limit.FindAllString(rule, 2), flag.Target.Int()
		if value < number(append(limits, "0")[0]) || strings.Contains(rule, " to ") && value > number(limits[1]) {
			errs = append(errs, fmt.Errorf("--%s is %v: must %s", flag.Name, flag.Target, rule))
		}
	}
	return errors.Join(errs...)
}

// number is a whole number or a duration.
func number(text string) int64 {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	d, _ := time.ParseDuration(text) // one of ours
	return int64(d)
}

var quoted = regexp.MustCompile(`"([^"]+)"`)

// nearOnly leaves out of the question that ends an error of the command line, did you mean "x"?, the names that are not near: of three letters two may differ there.
func nearOnly(text string) string {
	problem, question, asks := strings.Cut(text, ", did you mean ")
	if !asks {
		return text
	}
	word := problem[strings.LastIndexByte(problem, ' ')+1:]
	var near []string
	for _, name := range quoted.FindAllStringSubmatch(question, -1) {
		if strings.HasPrefix(name[1], word) || nearest.Name(word, name[1:]) != "" {
			near = append(near, name[0])
		}
	}
	switch len(near) {
	case 0:
		return problem
	case 1:
		return problem + ", did you mean " + near[0] + "?"
	}
	return problem + ", did you mean one of " + strings.Join(near, ", ") + "?"
}

// commandOf is the words of args that are commands, for a hint at the right help.
func commandOf(node *kong.Node, args []string) (words string) {
	for _, arg := range args {
		i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == arg })
		if i < 0 {
			break
		}
		node = node.Children[i]
		words += arg + " "
	}
	return words
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails, see crypto/rand
	return hex.EncodeToString(b)
}

// sanitize keeps what may stand in a topic and a key.
func sanitize(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}, name)
}

// readTime reads a flag that is a time.
func readTime(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("time", &text); err != nil {
		return err
	}
	t, err := rfc3339.Parse(text)
	if err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	target.Set(reflect.ValueOf(t))
	return nil
}
