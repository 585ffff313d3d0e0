package topics

import (
	"fmt"
	"slices"
	"strings"
)

// User is a user of the broker.
type User struct {
	Name   string // at the broker
	Party  Party
	Client string   // MQTT client id, "" = Name; an operator and Takt have several
	Scopes []string // MES and equipment: their stations
}

// Right is what a user may do with the topics of a filter.
type Right struct {
	Filter      string
	Write, Read bool
}

// Rights of a user, in the order of the table, each filter once. Takt has all rights below its prefix, and may write where replies go: replyTopics.
func (p Prefix) Rights(u User, replyTopics []string) []Right {
	var all []Right
	add := func(filter string, write, read bool) {
		if i := slices.IndexFunc(all, func(r Right) bool { return r.Filter == filter }); i >= 0 {
			all[i].Write, all[i].Read = all[i].Write || write, all[i].Read || read
			return
		}
		all = append(all, Right{filter, write, read})
	}
	if u.Party == Takt {
		add(p.join("#"), true, true)
		for _, f := range replyTopics {
			add(f, true, false)
		}
		return all
	}
	for _, row := range Table() {
		write, read := slices.Contains(row.Writes, u.Party), slices.Contains(row.Reads, u.Party)
		if !write && !read {
			continue
		}
		pattern := row.Pattern
		if row.Filter != "" && write {
			pattern = row.Filter
		}
		for _, filter := range p.filters(pattern, u) {
			add(filter, write, read)
		}
	}
	return all
}

// filters are those of a pattern for a user: one per station, unless the user has all.
func (p Prefix) filters(pattern string, u User) []string {
	client := Level(u.Client)
	if u.Client == "" {
		client = Level(u.Name)
	}
	if u.Party == Operator { // each call has a client id of its own
		client = "+"
	}
	scopes := u.Scopes
	if u.Party != MES && u.Party != Equipment || !strings.Contains(pattern, "{scope}") {
		scopes = []string{"+"}
	}
	var all []string
	for _, scope := range scopes {
		fill := strings.NewReplacer("{p}", string(p), "{scope}", scope, "{client}", client, "{id}", "+", "{instance}", "+", "{token}", "+", "{name}", "+")
		all = append(all, fill.Replace(pattern))
	}
	return all
}

// ACL is mosquitto's acl_file for users: who is not named may do nothing.
func (p Prefix) ACL(users []User, replyTopics []string) string {
	var b strings.Builder
	for _, u := range users {
		fmt.Fprintf(&b, "# %s", u.Party)
		if len(u.Scopes) > 0 {
			fmt.Fprintf(&b, " of %s", strings.Join(u.Scopes, ", "))
		}
		fmt.Fprintf(&b, "\nuser %s\n", u.Name)
		for _, r := range p.Rights(u, replyTopics) {
			may := "read"
			switch {
			case r.Write && r.Read:
				may = "readwrite"
			case r.Write:
				may = "write"
			}
			fmt.Fprintf(&b, "topic %s %s\n", may, r.Filter)
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
