package redis

import "errors"

// Rights are the rules of an ACL for a user whose keys and channels begin with a prefix and a colon, but for those of locks and limiters: to look, or to work. With sentinels, +role is needed, too.
func Rights(prefix string, looks bool) string {
	if looks {
		return "%R~" + prefix + ":* %R~lock:* %R~limiter:* &" + prefix + ":* +@read +@connection -@dangerous +time +info +subscribe +unsubscribe +punsubscribe +sunsubscribe +discard +pubsub|numsub +eval_ro +evalsha_ro"
	}
	return "~" + prefix + ":* ~lock:* ~limiter:* &" + prefix + ":* &lock:wake +@all -@dangerous +info +client|unblock"
}

// allow is the next step where a right is missing.
func allow(prefix string, looks bool) string {
	role := "work"
	if looks {
		role = "look"
	}
	return "allow the user to " + role + ", ACL SETUSER NAME " + Rights(prefix, looks) + " (docs/operations/run.md, Rights in Redis)"
}

// WithRights returns err and, if it is a missing right and does not say so yet, the rights that let the user look or work. nil stays nil.
func WithRights(err error, prefix string, looks bool) error {
	var connecting *Error
	var done *rightsError
	if !lacks(err) || errors.As(err, &connecting) || errors.As(err, &done) {
		return err
	}
	return &rightsError{err, allow(prefix, looks)}
}

type rightsError struct {
	err  error
	next string
}

func (e *rightsError) Error() string { return e.err.Error() + ": " + e.next }

func (e *rightsError) Unwrap() error { return e.err }
