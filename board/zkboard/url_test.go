package zkboard

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/taktworks/takt/board/driver"
)

func TestURLs(t *testing.T) {
	for _, c := range []struct {
		url   string
		hosts []string
		path  string
		auth  string
	}{
		{"zookeeper://h", []string{"h:2181"}, "/taskflow/jobs", ""},
		{"zookeeper://h/", nil, "", ""},
		{"zookeeper://h1:1,h2,[::1]:3,[::2]/a/b", []string{"h1:1", "h2:2181", "[::1]:3", "[::2]:2181"}, "/a/b", ""},
		{"zookeeper://u:p%40ss:w@h:5/x", []string{"h:5"}, "/x", "u:p@ss:w"},
		{"zookeeper://h/a%20b", []string{"h:2181"}, "/a b", ""},
	} {
		s, err := parse(driver.Connect{URL: c.url})
		if c.hosts == nil {
			if _, ok := errors.AsType[*driver.InvalidError](err); !ok {
				t.Errorf("%s: %v", c.url, err)
			}
			continue
		}
		if err != nil || !slices.Equal(s.hosts, c.hosts) || s.path != c.path || s.auth != c.auth || s.session != DefaultSession {
			t.Errorf("%s: %+v, %v", c.url, s, err)
		}
	}
	s, err := parse(driver.Connect{URL: "zookeeper://u:p@h", Username: "v", Password: "q"})
	if err != nil || s.auth != "v:q" {
		t.Errorf("%q, %v", s.auth, err)
	}
}

func TestBadURLs(t *testing.T) {
	for _, o := range []driver.Connect{
		{URL: "h:2181"}, {URL: "zookeeper://"}, {URL: "zookeeper://h:0"}, {URL: "zookeeper://h:x/p"}, {URL: "zookeeper://h,/p"}, {URL: "zookeeper://h/p?x=1"}, {URL: "zookeeper://h?x=1"}, {URL: "zookeeper://h#x"}, {URL: "zookeeper://h/p%zz"}, {URL: "zookeeper://u%zz@h"},
		{URL: "zookeeper://h/a/"}, {URL: "zookeeper://h//a"}, {URL: "zookeeper://h/a/../b"}, {URL: "zookeeper://h/a%00"}, {URL: "zookeeper://:p@h"}, // TaskFlow takes a slash at the end, and its trash is garbage then
		{URL: "zookeeper://h", Session: time.Millisecond}, {URL: "zookeeper://h", Session: 2 * time.Hour},
	} {
		if _, err := parse(o); err == nil {
			t.Errorf("%+v is taken", o)
		} else if _, ok := errors.AsType[*driver.InvalidError](err); !ok {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// As TaskFlow derives them, wherever the last part of the path occurs.
func TestFolders(t *testing.T) {
	for path, want := range map[string][3]string{
		"/taskflow/jobs": {"/taskflow/.trash", "/taskflow/.entities", "/taskflow/.takt/jobs"},
		"/a/one":         {"/a/.trash", "/a/.entities", "/a/.takt/one"},
		"/a/jobs/jobs":   {"/a/.trash/.trash", "/a/.entities/.entities", "/a/jobs/.takt/jobs"},
		"/jobs":          {"/.trash", "/.entities", "/.takt/jobs"},
		"/data/a":        {"/d.trasht.trash/.trash", "/d.entitiest.entities/.entities", "/data/.takt/a"},
	} {
		var s Store
		if err := s.setPath(path); err != nil || [3]string{s.trash, s.entities, s.clock} != want {
			t.Errorf("%s: %q, %q, %q, %v", path, s.trash, s.entities, s.clock, err)
		}
	}
}
