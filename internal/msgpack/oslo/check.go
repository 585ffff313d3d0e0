package oslo

import "github.com/taktworks/takt/internal/msgpack"

// maxSets is how many sets may be one within the other. Python takes 40 KB of its stack for each and dies at 195 of them, where no handler
// of errors helps it.
const maxSets = 32

// Check says whether every Python that reads raw makes the same of it, so that no reader of a board takes it for broken, and deletes it, or
// dies. Beyond what Decode asks: map keys are text; extension codes are 0 to 127, and those of oslo mean something; datetimes
// are naive and have no members that oslo does not know; members of sets can be compared, which arrays, maps and sets cannot, and sets
// are at most 32 deep. The error, a *msgpack.FormatError, names the first part that is none of that.
func Check(raw []byte, l Limits) error {
	if err := check(raw, l); err != nil {
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
		_, err = UUID(e)
	case e.Code == CodeDatetime || e.Code == CodeXMLRPC:
		err = checkClock(e, all)
	case e.Code == CodeCount:
		_, _, err = Count(e)
	case e.Code == CodeIP:
		_, err = IP(e)
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

func checkClock(e Ext, need uint8) error {
	var c clock
	if err := c.read(e, "a datetime", e.Code); err != nil {
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
	if err := check(e.Data, Limits{}); err != nil {
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
