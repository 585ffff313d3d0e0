// Package topics makes the topics of an installation and lists them. A topic begins with the topic prefix; scopes and job order ids stand in it verbatim, for they
// are checked where they enter (isa95.ParseScope and its kin).
package topics

import "strings"

// Prefix is the first part of every topic of an installation, without the last slash: "takt", or "plant/takt".
type Prefix string

func (p Prefix) join(levels ...string) string { return string(p) + "/" + strings.Join(levels, "/") }

// Equipment is where the commands or events, as kind says, of the equipment of a scope go.
func (p Prefix) Equipment(scope, kind string) string { return p.join("equipment", scope, kind) }

// Processor is where a processor takes events; below it, those of one scope.
func (p Prefix) Processor(name string) string { return p.join("processors", name) }

// Replies is where the replies to commands of a scope go if the requester asks for a topic below the prefix.
func (p Prefix) Replies(scope, requester string) string {
	return p.join(scope, "replies", Level(requester))
}

// ReplyTo takes a topic of Replies apart. ok is false for every other topic.
func (p Prefix) ReplyTo(topic string) (scope, requester string, ok bool) {
	rest, ok := strings.CutPrefix(topic, string(p)+"/")
	levels := strings.Split(rest, "/")
	if !ok || len(levels) != 3 || levels[0] == "" || levels[1] != "replies" || levels[2] == "" {
		return "", "", false
	}
	return levels[0], levels[2], true
}

// Private is the topic of one client of the broker, on which it sends markers to itself.
func (p Prefix) Private(client string) string { return p.join("private", Level(client)) }

// Metadata is where a process says what it understands, and which store it serves.
func (p Prefix) Metadata() string { return p.join("metadata") }

// ScopeMetadata is the same for one scope.
func (p Prefix) ScopeMetadata(scope string) string { return p.join(scope, "metadata") }

// Holds says whether topic is the prefix or below it.
func (p Prefix) Holds(topic string) bool {
	rest, ok := strings.CutPrefix(topic, string(p))
	return ok && (rest == "" || rest[0] == '/')
}

// Level makes one level of a topic of a client id.
func Level(name string) string { return level.Replace(name) }

var level = strings.NewReplacer("/", "-", "+", "-", "#", "-")

// Answers is where equipment answers the commands of an instance: the response topic of a command that has the token. Without a token it is the response topic of replies, on which no answer counts.
func (p Prefix) Answers(instance, token string) string {
	if token == "" {
		return p.join("responses", instance)
	}
	return p.join("responses", instance, token)
}

// AnswerFilter is the topics on which an instance takes answers.
func (p Prefix) AnswerFilter(instance string) string { return p.join("responses", instance, "+") }

// AnsweredOn takes a topic of Answers apart; token is "" for every other topic.
func (p Prefix) AnsweredOn(topic string) (instance, token string) {
	rest, ok := strings.CutPrefix(topic, p.join("responses")+"/")
	if !ok {
		return "", ""
	}
	instance, token, _ = strings.Cut(rest, "/")
	return instance, token
}

// Shown is topic as it may stand in a log: without the token.
func (p Prefix) Shown(topic string) string {
	if instance, token := p.AnsweredOn(topic); token != "" {
		return p.Answers(instance, "(token)")
	}
	return topic
}
