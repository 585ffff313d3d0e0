package main

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// helpCmd is takt help.
type helpCmd struct {
	Words []string `arg:"" optional:"" name:"command" help:"A command, or connection."`
}

// helpText has the help of each command beside that of its flags: a line with == and the commands that share it, then the text.
//
//go:embed help.txt
var helpText string

// explain gives each command its part of helpText.
func explain(model *kong.Application) {
	details := make(map[string]string)
	for section := range strings.SplitSeq(strings.TrimPrefix(helpText, "== "), "\n== ") {
		commands, text, _ := strings.Cut(section, "\n")
		for command := range strings.SplitSeq(commands, ", ") {
			details[command] = strings.TrimSpace(text)
		}
	}
	for _, leaf := range model.Leaves(true) {
		command := strings.TrimPrefix(path(leaf), model.Name+" ")
		leaf.Detail = details[command]
		delete(details, command)
	}
	if len(details) > 0 {
		panic(fmt.Sprintf("help.txt has texts of commands that there are not: %q", details))
	}
}

// connection is the word for the flags that all commands have.
const connection = "connection"

func (c *helpCmd) Run(a *app) error {
	if len(c.Words) != 1 || c.Words[0] != connection {
		return command(append(c.Words, "--help"), a.in, a.out, a.err)
	}
	fmt.Fprintln(a.out, "Flags that all commands have. Each flag --some-name is also the environment variable TAKT_SOME_NAME and the\nmember some-name of the YAML file given by --config (default takt.yaml). Flags beat environment beats file.")
	flags, err := kong.New(&Config{}, kong.Name("takt"), kong.Writers(a.out, a.err), kong.Exit(func(int) {}), groups,
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoAppSummary: true, WrapUpperBound: 110}))
	if err == nil {
		_, err = flags.Parse([]string{"--help"})
	}
	return err
}

// helpOf prints the help of a command: its commands by part, then its own flags, then where the flags are that all commands have.
func helpOf(o kong.HelpOptions, ctx *kong.Context) error {
	for _, f := range ctx.Model.Flags {
		f.Hidden = f.Hidden || f.Name != "help"
	}
	if err := kong.DefaultHelpPrinter(o, ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintf(ctx.Stdout, "\nFlags of Redis, broker, process and log (--redis, --mqtt, --prefix, TLS, ...), also by\nenvironment and file: takt help %s\n", connection)
	return err
}
