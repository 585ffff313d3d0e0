package schedule

import "strings"

// maxText is longer than any rule with as many dates as it may have.
const maxText = 64 << 10

// Parse reads the text of a schedule: "every 5m", "cron 0 6 * * *", "cron TZ=Europe/Berlin 0 6 * * *",
// "rrule FREQ=WEEKLY;INTERVAL=2" and so on; the package text has them all. Every error is an *Error.
func Parse(text string) (Schedule, error) {
	if len(text) > maxText {
		return nil, refuse("text", text, "is longer than %d bytes", maxText)
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, refuse("text", text, "is empty; want every, cron or rrule and what belongs to it")
	}
	_, rest, _ := strings.Cut(strings.TrimSpace(text), words[0])
	switch words[0] {
	case "every":
		return parseEvery(words[1:])
	case "cron":
		return parseCron(rest)
	case "rrule":
		return RRule(rest)
	}
	return nil, refuse("kind", words[0], "want every, cron or rrule, as in \"every 5m\" or \"cron 0 6 * * MON-FRI\"")
}
