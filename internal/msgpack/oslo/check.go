package oslo

import (
	"github.com/google/uuid"

	"github.com/taktworks/takt/internal/msgpack"
)

// The codes of extensions that oslo gave a meaning. It keeps 8 to 32 for itself and leaves 33 to 127 to programs; below 0 it reads only
// -1, the timestamp of msgpack, which it does not take for a datetime.
const (
	CodeUUID      = 0
	CodeDatetime  = 1
	CodeCount     = 2
	CodeIP        = 3
	CodeSet       = 4
	CodeFrozenset = 5
	CodeXMLRPC    = 6
	CodeDate      = 7
)

// maxSets is how many sets may be one within the other. Python takes 40 KB of its stack for each and dies at 195 of them, where no handler
// of errors helps it.
const maxSets = 32

// Check says whether every Python that reads raw makes the same of it, so that no reader of a board takes it for broken, and deletes it, or
// dies. Beyond what Decode asks: map keys are text; extension codes are 0 to 127, and those of oslo mean something; datetimes
// are naive and have no members that oslo does not know; members of sets can be compared, which arrays, maps and sets cannot, and sets
// are at most 32 deep. The error, a *msgpack.FormatError, names the first part that is none of that.
func Check(raw []byte) error {
	if err := check(raw); err != nil {
		return err
	}
	r := msgpack.NewReader(raw)
	return checkValue(&r, 0)
}

// checkValue reads a value that was checked for its form and is within so many sets.
func checkValue(r *msgpack.Reader, sets int) error {
	t, err := r.Next()
	if err != nil {
		return err
	}
	if sets > 0 && (t.Kind >= msgpack.KindArray || t.Kind == msgpack.KindExt && t.Code == CodeSet) {
		return r.Fail(t.At, "is %v, which Python has not in sets", t.Kind)
	}
	switch t.Kind {
	case msgpack.KindArray:
		for i := range t.N() {
			if err := checkValue(r, 0); err != nil {
				return msgpack.Within(index(i), err)
			}
		}
	case msgpack.KindMap:
		for range t.N() {
			if err := checkPair(r); err != nil {
				return err
			}
		}
	case msgpack.KindExt:
		return checkExt(r, &t, sets)
	}
	return nil
}

func checkPair(r *msgpack.Reader) error {
	key, err := r.Want(msgpack.KindString)
	if err != nil {
		return err
	}
	if err := checkValue(r, 0); err != nil {
		return msgpack.Within(string(key.Body), err)
	}
	return nil
}

func checkExt(r *msgpack.Reader, t *msgpack.Token, sets int) (err error) {
	e := Ext{t.Code, t.Body}
	switch {
	case e.Code < 0:
		return r.Fail(t.At, "is an extension of type %d, must be of 0 to 127", e.Code)
	case e.Code == CodeUUID:
		err = checkUUID(e)
	case e.Code == CodeDatetime || e.Code == CodeXMLRPC:
		err = checkClock(e, all)
	case e.Code == CodeCount:
		err = checkCount(e)
	case e.Code == CodeIP:
		err = checkIP(e)
	case e.Code == CodeSet || e.Code == CodeFrozenset:
		err = checkSet(e, sets)
	case e.Code == CodeDate:
		err = checkClock(e, dateParts)
	}
	if err != nil {
		return r.Fail(t.At, "is a broken extension of type %d: %v", e.Code, err)
	}
	return nil
}

// checkUUID wants hexadecimal digits, which may have dashes between them.
func checkUUID(e Ext) error {
	if _, err := uuid.ParseBytes(e.Data); err != nil || len(e.Data) != 32 && len(e.Data) != 36 {
		r := msgpack.NewReader(e.Data)
		return r.Fail(0, "is no UUID: %.40q", e.Data)
	}
	return nil
}

// checkCount wants where a counter (itertools.count) is, and its step.
func checkCount(e Ext) error {
	r := msgpack.NewReader(e.Data)
	n, err := r.Members(msgpack.KindArray)
	if err != nil {
		return err
	}
	if n != 2 {
		return r.Fail(0, "is %d elements, must be start and step", n)
	}
	for _, part := range []string{"start", "step"} {
		if _, err := r.Int(); err != nil {
			return msgpack.Within(part, err)
		}
	}
	return r.End()
}

// checkIP wants an address as netaddr has it: one integer.
func checkIP(e Ext) error {
	r := msgpack.NewReader(e.Data)
	t, err := r.Next()
	switch {
	case err != nil:
		return err
	case t.Kind != msgpack.KindInt && t.Kind != msgpack.KindUint:
		return r.Mismatch(&t, "an integer")
	case t.Kind == msgpack.KindInt && t.Int() < 0:
		return r.Fail(t.At, "is %d, which is no IP address", t.Int())
	}
	return r.End()
}

func checkClock(e Ext, need uint8) error {
	var c clock
	if err := c.read(e); err != nil {
		return err
	}
	r := msgpack.NewReader(e.Data)
	switch {
	case c.at > 0:
		return msgpack.Within("tz", r.Fail(c.at, "is there, but the datetime must be naive"))
	case c.unusual > 0:
		return r.Fail(c.unusual, "is not the key of a part of a datetime, as text")
	}
	_, err := c.time(e, need)
	return err
}

func checkSet(e Ext, sets int) error {
	if err := check(e.Data); err != nil {
		return err
	}
	r := msgpack.NewReader(e.Data)
	if sets == maxSets {
		return r.Fail(0, "is a set within %d others", sets)
	}
	n, err := r.Members(msgpack.KindArray)
	if err != nil {
		return err
	}
	for i := range n {
		if err := checkValue(&r, sets+1); err != nil {
			return msgpack.Within(index(i), err)
		}
	}
	return nil
}
