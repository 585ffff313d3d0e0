package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
)

// NewLogger returns a logger that writes to w. format is text or json, "" = text; level is debug, info, warn or error, "" = info.
// Values under names that speak of secrets are hidden, and so are passwords inside URLs, wherever they stand.
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var l slog.Level
	if level != "" {
		if err := l.UnmarshalText([]byte(level)); err != nil {
			return nil, fmt.Errorf("telemetry: log level %q: must be debug, info, warn or error", level)
		}
	}
	o := &slog.HandlerOptions{Level: l, ReplaceAttr: hide}
	switch format {
	case "", "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, fmt.Errorf("telemetry: log format %q: must be text or json", format)
}

const hidden = "[hidden]"

// secrets are parts of attribute names whose values are never shown.
var secrets = []string{"password", "passwd", "passphrase", "secret", "credential", "authorization", "private_key", "privatekey", "api_key", "apikey", "access_token", "auth_token"}

// password is that of a URL: what stands between the name and the last @ of the word.
var password = regexp.MustCompile(`(://[^\s:/@"]*:)[^\s"]*@`)

// hide is called for every attribute, those of groups one by one.
func hide(_ []string, a slog.Attr) slog.Attr {
	name := strings.ToLower(a.Key)
	for _, s := range secrets {
		if strings.Contains(name, s) && a.Value.Kind() != slog.KindGroup {
			return slog.String(a.Key, hidden)
		}
	}
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(Hide(a.Value.String()))
	case slog.KindAny:
		var text string
		switch v := a.Value.Any().(type) {
		case error:
			text = v.Error()
		case fmt.Stringer:
			text = v.String()
		default:
			return a
		}
		if shown := Hide(text); shown != text {
			a.Value = slog.StringValue(shown)
		}
	}
	return a
}

// Hide replaces the passwords of URLs inside text.
func Hide(text string) string { return password.ReplaceAllString(text, "${1}***@") }
