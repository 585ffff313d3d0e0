package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/taktworks/takt/chart"
	"github.com/taktworks/takt/internal/utf8text"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

type recipeCmd struct {
	Check    recipeCheckCmd    `cmd:"" help:"List what would make a recipe hang, be ambiguous or fail."`
	Draw     recipeDrawCmd     `cmd:"" help:"Draw a recipe as a sequential function chart."`
	Simulate recipeSimulateCmd `cmd:"" help:"Try a recipe in simulated time, before a machine moves."`
	List     recipeListCmd     `cmd:"" looks:"" help:"List the recipes that stations run."`
	Show     recipeShowCmd     `cmd:"" looks:"" help:"Show a stored recipe, or write it to a file."`
}

// recipeOptions are how recipes are judged that enter.
func (a *app) recipeOptions() recipe.Options {
	return recipe.Options{AllowUnknown: isa95.UnknownMembers(a.UnknownMembers) != isa95.RefuseUnknown}
}

// maxRecipe is how much of a file is read: more than recipe.Check accepts, so that it can say so.
const maxRecipe = 2 << 20

// maxInput is how much is read of what has no limit of its own.
const maxInput = 64 << 20

// readInput reads a file, or standard input if it is "-". A byte order mark is passed over.
func (a *app) readInput(file string, limit int64) ([]byte, error) {
	in := a.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", file, limit)
	}
	if err != nil {
		return text, err
	}
	if text, err = utf8text.Of(text); err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return text, err
}

type recipeCheckCmd struct {
	File     []string `arg:"" help:"Recipe files; - is standard input."`
	Portable bool     `help:"Also say what would run differently on MicroDCS."`
	JSON     bool     `name:"json" help:"One JSON object per finding."`
}

// fileFinding is a finding with its file, for programs.
type fileFinding struct {
	File     string `json:"file"`
	Line     int    `json:"line,omitempty"`
	Code     string `json:"code"`
	Severity string `json:"severity"`
	Pointer  string `json:"pointer"`
	Message  string `json:"message"`
	Fix      string `json:"fix,omitempty"`
}

func (c *recipeCheckCmd) Run(a *app) error {
	failed, o := 0, a.recipeOptions()
	o.Portable = c.Portable
	for _, file := range c.File {
		text, err := a.readInput(file, maxRecipe)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		for _, f := range recipe.Check(text, o) {
			if f.Severity == recipe.SeverityError {
				failed++
			}
			if err := c.print(a.out, file, f); err != nil {
				return err
			}
		}
	}
	if failed > 0 {
		return &exitError{Code: exitFailed}
	}
	return nil
}

func (c *recipeCheckCmd) print(out io.Writer, file string, f recipe.Finding) error {
	if c.JSON {
		return printJSON(out, fileFinding{file, f.Line, f.Code, string(f.Severity), f.Pointer, f.Message, f.Fix})
	}
	if file == "-" {
		file = "<stdin>"
	}
	where := file
	if f.Line > 0 {
		where = fmt.Sprintf("%s:%d", file, f.Line)
	}
	_, err := printf(out, "%s: %s %s: %s\n    at %s\n", where, f.Code, f.Severity, f.Message, cmp.Or(f.Pointer, "(the whole recipe)"))
	if err == nil && f.Fix != "" {
		_, err = printf(out, "    %s\n", f.Fix)
	}
	return err
}

type recipeDrawCmd struct {
	File   string `arg:"" help:"Recipe; - is standard input."`
	Output string `short:"o" help:"Write this file; standard output if not given." placeholder:"FILE"`
	Format string `help:"svg, text or mermaid; by the extension of the output file (.svg, .txt, .mmd, .md) if not given, else text." placeholder:"FORMAT"`
	JSON   bool   `name:"json" help:"One JSON object with the file, the version of the recipe, the format, and the drawing or the file that it was written to."`
}

// drawn is a drawing, for programs.
type drawn struct {
	File    string `json:"file"`
	Version string `json:"version,omitempty"`
	Format  string `json:"format"`
	Output  string `json:"output,omitempty"`
	Drawing string `json:"drawing,omitempty"`
}

// formats are what a recipe is drawn as, by the extension of a file.
var formats = map[string]string{".svg": "svg", ".txt": "text", ".mmd": "mermaid", ".md": "mermaid"}

// format is the format that is asked for, by name or by the extension of the output file.
func (c *recipeDrawCmd) format() (string, error) {
	switch {
	case c.Format == "svg" || c.Format == "text" || c.Format == "mermaid":
		return c.Format, nil
	case c.Format != "":
		return "", fmt.Errorf("--format %q: use svg, text or mermaid", c.Format)
	case c.Output == "":
		return "text", nil
	}
	if format := formats[strings.ToLower(filepath.Ext(c.Output))]; format != "" {
		return format, nil
	}
	return "", fmt.Errorf("--output %q: the extension names no format; use .svg, .txt, .mmd or .md, or add --format", c.Output)
}

func (c *recipeDrawCmd) Run(a *app) error {
	format, err := c.format()
	if err != nil {
		return &exitError{exitUsage, err}
	}
	text, err := a.readInput(c.File, maxRecipe)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	program, err := recipe.Compile(text)
	if err != nil {
		return err
	}
	d := drawn{File: c.File, Version: program.Recipe().Version, Format: format, Output: c.Output}
	switch format {
	case "mermaid":
		d.Drawing = program.Mermaid()
		if strings.EqualFold(filepath.Ext(c.Output), ".md") {
			d.Drawing = "```mermaid\n" + d.Drawing + "```\n"
		}
	case "svg":
		d.Drawing = string(chart.New(program.Recipe()).SVG(chart.Options{Title: filepath.Base(c.File)}))
	default:
		o := chart.Options{}
		if c.Output == "" && !c.JSON {
			o.Width, o.Color = terminal(a.out)
		}
		d.Drawing = chart.New(program.Recipe()).Text(o)
	}
	if c.Output != "" {
		if err := os.WriteFile(c.Output, []byte(d.Drawing), 0o644); err != nil {
			return err
		}
		d.Drawing = ""
	}
	if c.JSON {
		return printJSON(a.out, d)
	}
	_, err = io.WriteString(a.out, d.Drawing)
	return err
}
