package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
)

// aclCmd prints the rights at the broker.
type aclCmd struct {
	Takt      []string `help:"Users of the processes of takt serve." placeholder:"USER" default:"takt"`
	MES       []string `name:"mes" sep:"none" help:"User of an MES and its stations. Its MQTT client id is the name of the user, or given after a colon." placeholder:"USER[:CLIENT]=SCOPE,..."`
	Equipment []string `sep:"none" help:"User of the equipment of some stations." placeholder:"USER=SCOPE,..."`
	Observer  []string `help:"Users that read what happens at all stations; the client id is the name of the user." placeholder:"USER"`
	Operator  []string `help:"Users of the command line: what an MES may, at all stations." placeholder:"USER"`

	ReplyTopics []string `name:"reply-topics" help:"As of takt serve." default:"mes/#" placeholder:"FILTER"`
}

func (c *aclCmd) Run(a *app) error {
	users, err := c.users()
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if err := jobcontrol.CheckReplyTopics(a.TopicPrefix, c.ReplyTopics); err != nil {
		return &exitError{exitUsage, fmt.Errorf("--reply-topics: %w", err)}
	}
	if slices.Contains(c.ReplyTopics, jobcontrol.AnyReplyTopic) {
		c.ReplyTopics = []string{"#"}
	}
	_, err = fmt.Fprint(a.out, topics.Prefix(a.TopicPrefix).ACL(users, c.ReplyTopics))
	return err
}

func (c *aclCmd) users() ([]topics.User, error) {
	var users []topics.User
	seen := map[string]bool{}
	for _, group := range []struct {
		flag   string
		party  topics.Party
		values []string
	}{{"takt", topics.Takt, c.Takt}, {"mes", topics.MES, c.MES}, {"equipment", topics.Equipment, c.Equipment}, {"observer", topics.Observer, c.Observer}, {"operator", topics.Operator, c.Operator}} {
		for _, value := range group.values {
			u := topics.User{Name: value, Party: group.party}
			if group.party == topics.MES || group.party == topics.Equipment {
				name, scopes, ok := strings.Cut(value, "=")
				if !ok || scopes == "" {
					return nil, fmt.Errorf("--%s is %q: want USER=SCOPE or USER=SCOPE,SCOPE", group.flag, value)
				}
				u.Name, u.Client, _ = strings.Cut(name, ":")
				for text := range strings.SplitSeq(scopes, ",") {
					scope, err := isa95.ParseScope(text)
					if err == nil {
						err = isa95.CheckNewScope(scope)
					}
					if err != nil {
						return nil, fmt.Errorf("--%s %s: %w", group.flag, u.Name, err)
					}
					u.Scopes = append(u.Scopes, string(scope))
				}
			}
			switch {
			case u.Name == "" || strings.ContainsAny(u.Name, " \t\r\n"):
				return nil, fmt.Errorf("--%s: the user %q must not be empty nor hold white space", group.flag, u.Name)
			case strings.ContainsAny(u.Client, "/+#\r\n"):
				return nil, fmt.Errorf("--%s: the client id %q of %s must not hold / + #", group.flag, u.Client, u.Name)
			case seen[u.Name]:
				return nil, fmt.Errorf("--%s: the user %q is named twice; give each party a user of its own", group.flag, u.Name)
			}
			seen[u.Name] = true
			users = append(users, u)
		}
	}
	return users, nil
}
