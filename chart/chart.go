// Package chart draws recipes as sequential function charts in the look of IEC 61131-3, as a picture (SVG) and in the cells of
// a terminal, alone or with the state of a run; and Gantt charts, trends and the state machine of job orders in the same style. It is pure: it reads no clock and no file.
package chart

import "github.com/taktworks/takt/recipe"

// Chart draws one recipe. It does not change, and may be used by several goroutines at once.
type Chart struct {
	recipe *recipe.Recipe
}

// New returns the chart of r, which has passed recipe.Check and must not be changed afterwards.
func New(r *recipe.Recipe) *Chart { return &Chart{recipe: r} }

// Options say how a chart is drawn. The zero value draws the recipe alone.
type Options struct {
	// Live adds the state of a run: active steps with the time since their entry, the state of each action, how often steps
	// were entered. nil: the recipe alone.
	Live *Live
	// Width is how many cells a line of Text has at most; 0 is no limit. A chart that is wider gets shorter texts, then
	// only the actions of active steps, then jumps to what would stand side by side; what still does not fit is cut, which
	// "…" at the end of a line shows.
	Width int
	// Color lets Text mark states with the colors of ANSI escape sequences.
	Color bool
	// Title is the accessible name of the picture; "" = "Recipe".
	Title string
}
