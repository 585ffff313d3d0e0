package goworkflows

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taktworks/takt/workflow"
)

// Forever is the value of the parameter retention that keeps ended instances until they are removed.
const Forever = "forever"

// settings are what a URL says.
type settings struct {
	redis string           // the URL without what is ours
	core  workflow.Options // without a log
	lease time.Duration    // 0 = the core's own
}

// parameters are those of the URL, beside Redis' own db. Their errors say the rule alone.
var parameters = map[string]func(*settings, string) error{
	"prefix": func(s *settings, v string) error {
		if s.core.Prefix = v; v == "" {
			return errors.New("must not be empty")
		}
		return nil
	},
	"shards": func(s *settings, v string) (err error) {
		if s.core.Shards, err = strconv.Atoi(v); err != nil || s.core.Shards < 1 {
			return errors.New("must be a whole number from 1")
		}
		return nil
	},
	"retention": func(s *settings, v string) (err error) {
		if v == Forever {
			s.core.Retention = -1
			return nil
		}
		if s.core.Retention, err = duration(v); err != nil {
			err = fmt.Errorf("%w, or %s", err, Forever)
		}
		return err
	},
	"lease": func(s *settings, v string) (err error) {
		s.lease, err = duration(v)
		return err
	},
}

// parseURL separates what is Takt's in the query from what is Redis'. No error shows a part of the URL that may hold a password.
func parseURL(raw string) (s settings, err error) {
	redis, query, _ := strings.Cut(raw, "?")
	s.redis = redis
	if strings.ContainsRune(query, '@') {
		return s, errors.New("goworkflows: url: has a ? before the @: write %3F for one in a password, and %40 for an @ after it")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return s, errors.New("goworkflows: url: what follows the ? must be parameters such as prefix=takt&shards=1")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := values[name]
		if len(v) > 1 {
			return s, fmt.Errorf("goworkflows: url: parameter %s: is there %d times, must be there once", name, len(v))
		}
		if name == "db" {
			s.redis += "?db=" + url.QueryEscape(v[0])
			continue
		}
		set, ok := parameters[name]
		if !ok {
			return s, fmt.Errorf("goworkflows: url: parameter %q is unknown: there are db, %s", name, strings.Join(slices.Sorted(maps.Keys(parameters)), ", "))
		}
		if err := set(&s, v[0]); err != nil {
			return s, fmt.Errorf("goworkflows: url: parameter %s=%q: %w", name, v[0], err)
		}
	}
	return s, nil
}

func duration(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		return 0, errors.New("must be a duration above 0 such as 15s or 168h")
	}
	return d, nil
}
