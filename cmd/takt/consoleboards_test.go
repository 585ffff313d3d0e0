package main

import (
	"log/slog"
	"strings"
	"testing"
)

// Boards have names that a path can hold, each its own, and no passwords in what is shown. A URL that can never work is refused at once.
func TestConsoleBoards(t *testing.T) {
	c, log := &Config{}, slog.New(slog.DiscardHandler)
	urls := []string{
		"redis://user:secret@127.0.0.1:1?namespace=line/7", "redis://127.0.0.1:1", "redis://127.0.0.1:1/3?namespace=taskflow", "redis://127.0.0.1:1?namespace={takt}", "redis://127.0.0.1:1?namespace=..",
		"zookeeper://127.0.0.1:1,127.0.0.2:1/taskflow/jobs", "zookeeper://127.0.0.1:1/taskflow/jobs",
	}
	all, err := c.consoleBoards("board", urls, log)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range all {
		names = append(names, b.Name)
		if strings.Contains(b.URL, "secret") {
			t.Errorf("%s shows the password", b.URL)
		}
	}
	if got := strings.Join(names, " "); got != "line-7 taskflow taskflow-2 takt board taskflow-jobs taskflow-jobs-2" {
		t.Error(got)
	}
	for _, bad := range []string{"http://127.0.0.1", "redis://127.0.0.1?name=x", "zookeeper://127.0.0.1/jobs/"} {
		if _, err := c.consoleBoards("board", []string{bad}, log); err == nil || !strings.Contains(err.Error(), "--board is") || !strings.Contains(err.Error(), "must") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
