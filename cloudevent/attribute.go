package cloudevent

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"mime"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of what is let in from the wire. They keep one event from filling a log, a key or a reply.
const (
	MaxExtensions    = 64   // per event
	MaxExtensionName = 64   // bytes
	MaxValue         = 4096 // bytes of one attribute's text
)

// Attribute is one attribute in its text form.
type Attribute struct{ Name, Value string }

// envelope lists the attributes that Event has fields for, in the order they are written. The value of one that is
// not set is "".
func (e *Event) envelope() [19]Attribute {
	return [...]Attribute{
		{"id", e.ID},
		{"source", e.Source},
		{"specversion", e.SpecVersion},
		{"type", e.Type},
		{"datacontenttype", e.DataContentType},
		{"dataschema", e.DataSchema},
		{"subject", e.Subject},
		{"time", e.Time},
		{"traceparent", e.TraceParent},
		{"tracestate", e.TraceState},
		{"expirytime", e.ExpiryTime},
		{"expiryinterval", e.expiryInterval()},
		{"recordedtime", e.RecordedTime},
		{"correlationid", e.CorrelationID},
		{"causationid", e.CausationID},
		{"mdcserrorkind", string(e.ErrorKind)},
		{"mdcserrormessage", e.errorMessage()},
		{"mdcserrorcontext", e.errorContext()},
		{"method", e.Method},
	}
}

// text is the field of an attribute that is plain text, nil for any other name.
func (e *Event) text(name string) *string {
	switch name {
	case "id":
		return &e.ID
	case "source":
		return &e.Source
	case "specversion":
		return &e.SpecVersion
	case "type":
		return &e.Type
	case "datacontenttype":
		return &e.DataContentType
	case "dataschema":
		return &e.DataSchema
	case "subject":
		return &e.Subject
	case "time":
		return &e.Time
	case "traceparent":
		return &e.TraceParent
	case "tracestate":
		return &e.TraceState
	case "expirytime":
		return &e.ExpiryTime
	case "recordedtime":
		return &e.RecordedTime
	case "correlationid":
		return &e.CorrelationID
	case "causationid":
		return &e.CausationID
	case "method":
		return &e.Method
	}
	return nil
}

// Attributes are those that are set, in the order they are written: those that MicroDCS writes, then
// the extensions by name, without those that have a name of the envelope. Data is not among them. The error message and context are cleaned of what a broker would
// refuse and cut at MaxValue bytes; everything else is as it is in e, see Check.
func (e *Event) Attributes() iter.Seq[Attribute] {
	return func(yield func(Attribute) bool) {
		for _, a := range e.envelope() {
			if a.Value != "" && !yield(a) {
				return
			}
		}
		for _, name := range slices.Sorted(maps.Keys(e.Extensions)) {
			if !reserved(name) && !yield(Attribute{name, e.Extensions[name]}) {
				return
			}
		}
	}
}

// SetAttribute takes one attribute from the wire. Names that Event has a field for set the field, "" clears it; data,
// data_base64, custommetadata and transportmetadata are refused; any other name becomes an extension. The
// prefix `ce-`, as the CloudEvents SDKs write it, is taken off.
//
// Values are at most MaxValue bytes of UTF-8 without control and non-characters, and expiryinterval is a number of
// seconds; only the error message and context are cleaned instead of refused. The error is an *Error of kind
// USER_PROPERTY_INVALID or RESOURCE_EXHAUSTED, and e is then as it was.
func (e *Event) SetAttribute(name, value string) error {
	if err := e.setAttribute(name, value); err != nil {
		return err
	}
	return nil
}

func (e *Event) setAttribute(name, value string) *Error {
	for strings.HasPrefix(name, sdkPrefix) {
		name = name[len(sdkPrefix):]
	}
	switch name {
	case "expiryinterval":
		return e.setExpiryInterval(value)
	case "mdcserrorkind":
		return e.setErrorKind(value)
	case "mdcserrormessage":
		e.setErrorMessage(value)
		return nil
	case "mdcserrorcontext":
		e.setErrorContext(value)
		return nil
	}
	if text := e.text(name); text != nil {
		if err := checkValue(name, value); err != nil {
			return err
		}
		*text = value
		return nil
	}
	if err := checkExtension(name, value); err != nil {
		return err
	}
	if _, replaced := e.Extensions[name]; !replaced && len(e.Extensions) >= MaxExtensions {
		return invalid(KindResourceExhausted, name, value, fmt.Sprintf("must not be there beside %d others", MaxExtensions))
	}
	if e.Extensions == nil {
		e.Extensions = make(map[string]string)
	}
	e.Extensions[name] = value
	return nil
}

// Check says whether e may be handled or sent: id, source and type are there, specversion is 1.0, and every attribute
// keeps the rules of SetAttribute. The error is an *Error: MISSING_USER_PROPERTY, UNSUPPORTED_VERSION,
// USER_PROPERTY_INVALID or RESOURCE_EXHAUSTED.
func (e *Event) Check() error {
	for _, required := range [...]Attribute{
		{"specversion", e.SpecVersion}, {"id", e.ID}, {"source", e.Source}, {"type", e.Type},
	} {
		if required.Value == "" {
			return invalid(KindMissingUserProperty, required.Name, "", "is required")
		}
	}
	if e.SpecVersion != SpecVersion {
		return invalid(KindUnsupportedVersion, "specversion", e.SpecVersion, "must be "+SpecVersion)
	}
	if e.ExpiryInterval < 0 || e.ExpiryInterval > maxExpiryInterval {
		return invalid(KindUserPropertyInvalid, "expiryinterval", strconv.FormatInt(e.ExpiryInterval, 10), expiryRule)
	}
	if len(e.Extensions) > MaxExtensions {
		return invalid(KindResourceExhausted, "extensions", "", fmt.Sprintf("must not be more than %d", MaxExtensions))
	}
	for _, a := range e.envelope() {
		if err := checkValue(a.Name, a.Value); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Extensions)) {
		if err := checkExtension(name, e.Extensions[name]); err != nil {
			return err
		}
	}
	return nil
}

// sdkPrefix is what the CloudEvents SDKs put before names in MQTT, though the binding does not have it.
const sdkPrefix = "ce-"

// reserved reports names that no extension can have.
func reserved(name string) bool {
	switch name {
	case "data", "data_base64", "custommetadata", "transportmetadata",
		"expiryinterval", "mdcserrorkind", "mdcserrormessage", "mdcserrorcontext":
		return true
	}
	return new(Event).text(name) != nil || strings.HasPrefix(name, sdkPrefix)
}

// checkExtension refuses names that are no extension's. CloudEvents wants lower-case letters and digits; peers do not.
func checkExtension(name, value string) *Error {
	switch {
	case reserved(name):
		return invalid(KindUserPropertyInvalid, name, value, "must not be the name of an extension")
	case name == "" || len(name) > MaxExtensionName || unfit(name):
		return invalid(KindUserPropertyInvalid, name, value,
			fmt.Sprintf("must have a name of 1 to %d bytes of plain text", MaxExtensionName))
	}
	return checkValue(name, value)
}

func checkValue(name, value string) *Error {
	if len(value) > MaxValue {
		return invalid(KindUserPropertyInvalid, name, value, fmt.Sprintf("must not be longer than %d bytes", MaxValue))
	}
	if unfit(value) {
		return invalid(KindUserPropertyInvalid, name, value, "must be UTF-8 without control and non-characters")
	}
	return nil
}

// invalid makes the error for an attribute. Everything in it is fit to be sent back.
func invalid(kind ErrorKind, name, value, rule string) *Error {
	name, value = clean(name, 80), clean(value, 80)
	message := "attribute " + name + " " + rule
	context := map[string]string{"attribute": name, "rule": rule}
	if value != "" {
		context["value"] = value
	}
	return &Error{Kind: kind, Message: message, Context: context}
}

const (
	maxExpiryInterval = 1<<32 - 1 // MQTT's message expiry has 32 bits
	expiryRule        = "must be a number of seconds from 0 to 4294967295"
)

func (e *Event) expiryInterval() string {
	if e.ExpiryInterval <= 0 {
		return ""
	}
	return strconv.FormatInt(e.ExpiryInterval, 10)
}

func (e *Event) setExpiryInterval(value string) *Error {
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil && value != "" {
		return invalid(KindUserPropertyInvalid, "expiryinterval", value, expiryRule)
	}
	e.ExpiryInterval = int64(n)
	return nil
}

func (e *Event) setErrorKind(value string) *Error {
	if err := checkValue("mdcserrorkind", value); err != nil {
		return err
	}
	e.ErrorKind = cmp.Or(ErrorKind(value), e.ErrorKind, KindUnknownError) // a kind that is there but empty says that something failed
	e.ErrorMessage = cmp.Or(e.ErrorMessage, defaultMessage)
	return nil
}

func (e *Event) errorMessage() string {
	if e.ErrorMessage == "" && e.ErrorKind != "" {
		return defaultMessage
	}
	return clean(e.ErrorMessage, MaxValue)
}

func (e *Event) setErrorMessage(value string) {
	e.ErrorMessage = clean(value, MaxValue)
	if e.ErrorMessage == "" && e.ErrorKind != "" {
		e.ErrorMessage = defaultMessage
	}
}

func (e *Event) errorContext() string { return clean(formatContext(e.ErrorContext), MaxValue) }

func (e *Event) setErrorContext(value string) {
	e.ErrorContext = parseContext(clean(value, MaxValue))
	if len(formatContext(e.ErrorContext)) > MaxValue { // it is written with one "=" more
		e.ErrorContext = parseContext(clean(value, MaxValue-1))
	}
}

// formatContext writes `k=v,k2=v2`, keys in order. The format has no escapes: in keys "=" and "," become "_", and in
// values a comma that would begin a new pair becomes ";".
func formatContext(context map[string]string) string {
	var out strings.Builder
	for i, key := range slices.Sorted(maps.Keys(context)) {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(strings.Map(func(r rune) rune {
			if r == '=' || r == ',' {
				return '_'
			}
			return r
		}, key))
		out.WriteByte('=')
		for j, part := range strings.Split(context[key], ",") {
			switch {
			case j > 0 && strings.Contains(part, "="):
				out.WriteByte(';')
			case j > 0:
				out.WriteByte(',')
			}
			out.WriteString(part)
		}
	}
	return out.String()
}

// parseContext reads what formatContext writes: the first "=" of a pair splits it, and a part without "=" belongs to the
// value before it, comma included. It is nil for "".
func parseContext(text string) map[string]string {
	if text == "" {
		return nil
	}
	context := make(map[string]string)
	last := ""
	for i, part := range strings.Split(text, ",") {
		key, value, pair := strings.Cut(part, "=")
		switch {
		case pair || i == 0:
			last = key
			context[key] = value
		default:
			context[last] += "," + part
		}
	}
	return context
}

// unfit reports text that is not to stand in a user property: brokers close the connection on it.
func unfit(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return !utf8.ValidString(s) || strings.ContainsFunc(s[i:], unfitRune)
		}
	}
	return false
}

func unfitRune(r rune) bool {
	return unicode.IsControl(r) || r >= 0xFDD0 && r <= 0xFDEF || r&0xFFFE == 0xFFFE
}

// clean makes text fit: bad runes become U+FFFD, and it is cut to limit bytes.
func clean(s string, limit int) string {
	if unfit(s) {
		s = strings.Map(func(r rune) rune {
			if unfitRune(r) {
				return unicode.ReplacementChar
			}
			return r
		}, strings.ToValidUTF8(s, "\uFFFD"))
	}
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// IsJSON reports whether a content type is JSON in UTF-8: application/json or a type that ends in +json, in any
// spelling that RFC 9110 allows. It is false for "".
func IsJSON(contentType string) bool {
	if contentType == ContentTypeJSON || contentType == "application/json" {
		return true
	}
	mediaType, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || mediaType != "application/json" && !strings.HasSuffix(mediaType, "+json") {
		return false
	}
	charset := strings.ToLower(parameters["charset"])
	return charset == "" || charset == "utf-8" || charset == "utf8" || charset == "us-ascii"
}
