package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/console"
	"github.com/taktworks/takt/internal/telemetry"
)

// boardConnect says how to reach a board: what the settings say of Redis holds for all boards on Redis.
func (c *Config) boardConnect(url string, session time.Duration, looks bool, log *slog.Logger) board.Connect {
	b := board.Connect{URL: url, Session: session, Looks: looks, Log: log}
	if !onZooKeeper(url) {
		b.Username, b.Password, b.CAFile, b.CertFile, b.KeyFile = c.RedisUsername, c.RedisPassword, c.RedisCA, c.RedisCert, c.RedisKey
		b.SentinelUsername, b.SentinelPassword, b.ServerName = c.RedisSentinelUsername, c.RedisSentinelPassword, c.RedisServerName
	}
	return b
}

// consoleBoards are the boards of a console, each under a name made of its namespace or path. A URL that can never work is a usage error.
func (c *Config) consoleBoards(flag string, urls []string, log *slog.Logger) (all []console.BoardOptions, err error) {
	names := make(map[string]bool)
	for _, url := range urls {
		connect := c.boardConnect(url, 0, true, log)
		never, cancel := context.WithCancel(context.Background())
		cancel() // so that only what is wrong with the URL is found
		b, err := connect.Open(never)
		if wrong, ok := errors.AsType[*board.InvalidError](err); ok {
			return nil, &exitError{exitUsage, fmt.Errorf("--%s is %q: %s %s", flag, telemetry.Hide(url), wrong.Field, wrong.Rule)}
		}
		if err == nil {
			_ = b.Close()
		}
		base := boardName(url)
		name := base
		for n := 2; names[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		names[name] = true
		all = append(all, console.BoardOptions{Name: name, URL: telemetry.Hide(url), Open: func(ctx context.Context) (*board.Board, error) {
			ctx, cancel := context.WithTimeout(ctx, openTimeout)
			defer cancel()
			return connect.Open(ctx)
		}})
	}
	return all, nil
}

// boardName is what a path of the console calls a board: its namespace on Redis, its path on ZooKeeper.
func boardName(text string) string {
	name := "taskflow"
	if u, err := url.Parse(text); err == nil && onZooKeeper(text) {
		name = strings.Trim(u.Path, "/")
	} else if _, query, ok := strings.Cut(text, "?"); ok {
		if q, err := url.ParseQuery(query); err == nil && q.Has("namespace") {
			name = q.Get("namespace")
		}
	}
	name = strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		case r == '{', r == '}':
			return -1 // of a hash tag
		}
		return '-'
	}, name), ".-")
	if name == "" {
		return "board"
	}
	return name[:min(len(name), 64)]
}
