package cloudevent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrorKind is the text of the mdcserrorkind attribute. Readers keep kinds they do not know.
type ErrorKind string

// The vocabulary of MicroDCS.
const (
	KindConfigurationInvalid   ErrorKind = "CONFIGURATION_INVALID"
	KindNoMatchingSubscribers  ErrorKind = "NO_MATCHING_SUBSCRIBERS"
	KindTimeout                ErrorKind = "TIMEOUT"
	KindUnsupportedContentType ErrorKind = "UNSUPPORTED_CONTENT_TYPE"
	KindUnknownPayloadType     ErrorKind = "UNKNOWN_PAYLOAD_TYPE"
	KindMissingProperty        ErrorKind = "MISSING_PROPERTY"
	KindMissingUserProperty    ErrorKind = "MISSING_USER_PROPERTY"
	KindPropertyInvalid        ErrorKind = "PROPERTY_INVALID"
	KindUserPropertyInvalid    ErrorKind = "USER_PROPERTY_INVALID"
	KindPayloadInvalid         ErrorKind = "PAYLOAD_INVALID"
	KindStateInvalid           ErrorKind = "STATE_INVALID"
	KindCancellation           ErrorKind = "CANCELLATION"
	KindInternalLogicError     ErrorKind = "INTERNAL_LOGIC_ERROR"
	KindNotImplemented         ErrorKind = "NOT_IMPLEMENTED"
	KindServiceUnavailable     ErrorKind = "SERVICE_UNAVAILABLE"
	KindCommunicationError     ErrorKind = "COMMUNICATION_ERROR"
	KindResourceExhausted      ErrorKind = "RESOURCE_EXHAUSTED"
	KindPermissionDenied       ErrorKind = "PERMISSION_DENIED"
	KindUnsupportedVersion     ErrorKind = "UNSUPPORTED_VERSION"
	KindUnknownError           ErrorKind = "UNKNOWN_ERROR"
)

// Kinds lists the vocabulary in the order of the specification.
func Kinds() []ErrorKind {
	return []ErrorKind{
		KindConfigurationInvalid, KindNoMatchingSubscribers, KindTimeout, KindUnsupportedContentType,
		KindUnknownPayloadType, KindMissingProperty, KindMissingUserProperty, KindPropertyInvalid,
		KindUserPropertyInvalid, KindPayloadInvalid, KindStateInvalid, KindCancellation, KindInternalLogicError,
		KindNotImplemented, KindServiceUnavailable, KindCommunicationError, KindResourceExhausted,
		KindPermissionDenied, KindUnsupportedVersion, KindUnknownError,
	}
}

// defaultMessage stands for an error that came without a message.
const defaultMessage = "Unknown error occurred."

// Error is why an event was refused, as it goes back to whoever sent it.
type Error struct {
	Kind    ErrorKind
	Message string            // "" is sent as "Unknown error occurred."
	Context map[string]string // what the sender can act on, e.g. pointer, value, rule; nil = none
}

// Errorf makes an Error without context.
func Errorf(kind ErrorKind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Error is the kind, the message and the context, keys in order.
func (e *Error) Error() string {
	text := string(e.Kind) + ": " + cmp.Or(e.Message, defaultMessage)
	if len(e.Context) == 0 {
		return text
	}
	var context []string
	for _, k := range slices.Sorted(maps.Keys(e.Context)) {
		context = append(context, fmt.Sprintf("%s=%q", k, e.Context[k]))
	}
	return text + " (" + strings.Join(context, ", ") + ")"
}
