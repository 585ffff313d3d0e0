package bench

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Plan is what the flags say that every comparison has.
type Plan struct {
	N, Rounds int
	Redis     string
	JSON      bool
}

// Flags are the flags of a comparison. Each of its runs takes n of what the text of names, unless --n says otherwise.
func (p *Plan) Flags(name string, n int, of string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.IntVar(&p.N, "n", n, of+" of a run")
	f.IntVar(&p.Rounds, "rounds", 3, "runs of each measure, of which the median counts")
	f.StringVar(&p.Redis, "redis", "", "`URL` of a Redis: redis://host:port (default: a redis-server of its own, in memory)")
	f.BoolVar(&p.JSON, "json", false, "end with one JSON object instead of a table")
	return f
}

// Parse reads the arguments. Usage and errors of flags go to said.
func Parse(f *flag.FlagSet, args []string, said io.Writer) error {
	f.SetOutput(said)
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%q is not understood", f.Arg(0))
	}
	return nil
}

// Figures are what one run found, by name. Lower is better, but for those whose name ends with _per_s. NaN is not known.
type Figures map[string]float64

// Side is a library with one setting.
type Side struct {
	Name    string // as in the JSON object; for a library as it comes, that of the library
	Library string
	About   string // the setting; "" = nothing to say
}

// Row is a line of the table.
type Row struct{ Figure, Title string }

// Comparison holds what was found of all sides. Takt, if it is measured, is the first.
type Comparison struct {
	Sides []Side
	Rows  []Row
	Notes []string       // below the table
	Facts map[string]any // in the JSON object beside the figures

	values map[string][]float64 // one for each run; by <side>_<figure>, and ratio_<side>_<figure>
}

// Add takes the figures of a run of side. ours are those of Takt's run right before, with which they are compared; nil = none.
func (c *Comparison) Add(side string, f, ours Figures) {
	if c.values == nil {
		c.values = map[string][]float64{}
	}
	add := func(key string, v float64) {
		if !math.IsNaN(v) {
			c.values[key] = append(c.values[key], v)
		}
	}
	for name, v := range f {
		add(side+"_"+name, v)
		if our, ok := ours[name]; ok {
			add("ratio_"+side+"_"+name, Advantage(our, v, !strings.HasSuffix(name, "_per_s")))
		}
	}
}

// rivals are the libraries beside Takt.
func (c *Comparison) rivals() (all []string) {
	for _, s := range c.Sides[1:] {
		if !slices.Contains(all, s.Library) && s.Library != c.Sides[0].Library {
			all = append(all, s.Library)
		}
	}
	return all
}

// ratio says how many times better Takt is than the setting of a library with which the figure comes out best; NaN if that is not known.
func (c *Comparison) ratio(library, figure string) float64 {
	ratio := math.NaN()
	for _, s := range c.Sides {
		if v := Median(c.values["ratio_"+s.Name+"_"+figure]); s.Library == library && !math.IsNaN(v) && !(v >= ratio) {
			ratio = v
		}
	}
	return ratio
}

// Write ends a comparison with a table in Markdown or one JSON object.
func (c *Comparison) Write(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(c.object())
	}
	_, err := fmt.Fprintf(w, "%s\n%s\n", c.table(), strings.Join(c.Notes, "  \n"))
	return err
}

func (c *Comparison) object() map[string]any {
	o := maps.Clone(c.Facts)
	for key, values := range c.values {
		o[key] = math.Round(Median(values)*1000) / 1000
	}
	return o
}

// table has the figures of each side, and a ratio for each other library.
func (c *Comparison) table() string {
	header := []string{""}
	for _, s := range c.Sides {
		header = append(header, strings.ReplaceAll(s.Name, "_", " "))
	}
	for _, library := range c.rivals() {
		header = append(header, c.Sides[0].Library+" : "+library)
	}
	lines := [][]string{header, slices.Repeat([]string{"---:"}, len(header))}
	lines[1][0] = "---"
	for _, row := range c.Rows {
		line, known := []string{row.Title}, false
		for _, s := range c.Sides {
			v := Median(c.values[s.Name+"_"+row.Figure])
			known = known || !math.IsNaN(v)
			line = append(line, Number(v))
		}
		for _, library := range c.rivals() {
			line = append(line, strings.Replace(Number(c.ratio(library, row.Figure))+"x", "-x", "-", 1))
		}
		if known {
			lines = append(lines, line)
		}
	}
	return aligned(lines)
}

// aligned is a table in Markdown that a terminal shows well, too: all columns but the first are of numbers.
func aligned(lines [][]string) string {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, line := range lines {
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				cell, pad = pad, cell
			}
			fmt.Fprintf(&b, "| %s%s ", pad, cell)
		}
		b.WriteString("|\n")
	}
	return b.String()
}
