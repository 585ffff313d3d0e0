package telemetry

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Description is what there is to know of a metric, for the reference, which alone asks.
type Description struct {
	Name, Type, Help string
	Labels           []string
	Unit             string // s, bytes, or "" = a number
}

// Described are the metrics that were registered, but for those of the Go runtime and the process, by name.
func (m *Metrics) Described() []Description {
	var all []Description
	for _, c := range m.registered {
		all = append(all, describe(c)...)
	}
	slices.SortFunc(all, func(a, b Description) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// registerer notes what is registered.
type registerer struct{ m *Metrics }

func (r registerer) Register(c prometheus.Collector) error {
	err := r.m.registry.Register(c)
	if err == nil {
		r.m.registered = append(r.m.registered, c)
	}
	return err
}

func (r registerer) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

func (r registerer) Unregister(c prometheus.Collector) bool { return r.m.registry.Unregister(c) }

// descText is how the library writes a Desc, which tells nothing otherwise.
var descText = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: ("(?:[^"\\]|\\.)*"), (?:unit: "[^"]*", )?constLabels: \{([^=}]*).*\}, variableLabels: \{(.*)\}\}$`)

func describe(c prometheus.Collector) (all []Description) {
	kind := "gauge" // GaugeFunc, and collectors of gauges
	switch c.(type) {
	case *prometheus.HistogramVec, prometheus.Histogram:
		kind = "histogram"
	case prometheus.Gauge: // has the methods of a counter, too
	case *prometheus.CounterVec, prometheus.Counter:
		kind = "counter"
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		c.Describe(descriptions)
	}()
	for desc := range descriptions {
		parts := descText.FindStringSubmatch(desc.String())
		if parts == nil {
			panic("a description that is written otherwise: " + desc.String()) // of another version of the library
		}
		help, err := strconv.Unquote(parts[2])
		if err != nil {
			panic(err) // it was quoted by Go
		}
		d := Description{Name: parts[1], Type: kind, Help: help, Labels: strings.FieldsFunc(parts[3]+","+parts[4], func(r rune) bool { return r == ',' })}
		for unit, short := range map[string]string{"_seconds": "s", "_bytes": "bytes"} {
			if strings.HasSuffix(d.Name, unit) {
				d.Unit = short
			}
		}
		all = append(all, d)
	}
	return all
}
