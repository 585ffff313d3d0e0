package oslo

import (
	"time"

	"github.com/taktworks/takt/internal/msgpack"
	"github.com/taktworks/takt/internal/zones"
)

// AppendTime appends t to dst as a naive datetime in UTC, cut to microseconds. It has no time outside the years 1 to 9999, which Python has not either: a
// *msgpack.ValueError, and dst is returned as it was given.
func AppendTime(dst []byte, t time.Time) ([]byte, error) {
	t = t.UTC()
	if year := t.Year(); year < 1 || year > 9999 {
		return dst, msgpack.Unfit("", "is in the year %d, must be in 1 to 9999", year)
	}
	from := len(dst)
	dst = msgpack.AppendMapLen(append(dst, 0xc7, 0, CodeDatetime), 7) // the body has 54 to 60 bytes
	dst = appendNumber(dst, "day", t.Day())
	dst = appendNumber(dst, "month", int(t.Month()))
	dst = appendNumber(dst, "year", t.Year())
	dst = appendNumber(dst, "hour", t.Hour())
	dst = appendNumber(dst, "minute", t.Minute())
	dst = appendNumber(dst, "second", t.Second())
	dst = appendNumber(dst, "microsecond", t.Nanosecond()/1000)
	dst[from+1] = byte(len(dst) - from - 3)
	return dst, nil
}

func appendNumber(dst []byte, name string, n int) []byte {
	return msgpack.AppendInt(msgpack.AppendString(dst, name), int64(n))
}

// Time returns the time of a datetime (1), to the microsecond, or of a datetime of XML-RPC (6). A naive one is in UTC. One with a zone is in
// that zone of the zone database; an hour that a change of clocks skips or repeats may be taken either way, as the versions of Python
// do. The error, a *msgpack.FormatError with an offset into e.Data, is for another code, a missing or impossible part, and an unknown zone.
func Time(e Ext) (time.Time, error) {
	var c clock
	if e.Code != CodeDatetime && e.Code != CodeXMLRPC {
		r := msgpack.NewReader(e.Data)
		return time.Time{}, r.Fail(0, "is an extension of type %d, must be a datetime", e.Code)
	}
	if err := c.read(e); err != nil {
		return time.Time{}, err
	}
	return c.time(e, all)
}

// clock is what a map of datetime says, in any order of its keys; they are bytes if Python 2 wrote it. What it does not know is ignored, as
// by Python.
type clock struct {
	parts   [len(partNames)]int64
	found   uint8 // bit i: parts[i] is there
	zone    string
	at      int // offset of zone, 0 = there is none
	unusual int // offset of a key that is none of those, or is bytes; 0 = there is none
}

// The first three are a date.
var partNames = [...]string{"year", "month", "day", "hour", "minute", "second", "microsecond"}

const (
	dateParts = 1<<3 - 1
	all       = 1<<len(partNames) - 1
)

func (c *clock) read(e Ext) error {
	r := msgpack.NewReader(e.Data)
	n, err := r.Members(msgpack.KindMap)
	if err != nil {
		return err
	}
	for range n {
		from := r.Offset()
		name, ok := r.ShortText()
		if !ok {
			key, err := r.Key()
			if err != nil {
				return err
			}
			name, c.unusual = key.Body, from
		}
		if err := c.readPart(&r, name, from); err != nil {
			return err
		}
	}
	return r.End()
}

// readPart reads the part whose name began at from.
func (c *clock) readPart(r *msgpack.Reader, name []byte, from int) (err error) {
	if i := part(name); i >= 0 {
		c.found |= 1 << i
		if c.parts[i], err = r.Int(); err != nil {
			return msgpack.Within(partNames[i], err)
		}
		return nil
	}
	if string(name) != "tz" {
		c.unusual = from
		return r.Skip(MaxDepth)
	}
	t, err := r.Next()
	if err == nil && t.Kind != msgpack.KindString && t.Kind != msgpack.KindBytes {
		err = r.Mismatch(&t, "text")
	}
	if err != nil {
		return msgpack.Within("tz", err)
	}
	c.zone, c.at = string(t.Body), t.At
	return nil
}

// part is the index of a name in partNames, -1 for others. Boards read thousands of datetimes at once.
func part(name []byte) int {
	switch string(name) {
	case "year":
		return 0
	case "month":
		return 1
	case "day":
		return 2
	case "hour":
		return 3
	case "minute":
		return 4
	case "second":
		return 5
	case "microsecond":
		return 6
	}
	return -1
}

func (c *clock) time(e Ext, need uint8) (time.Time, error) {
	r := msgpack.NewReader(e.Data)
	for i, name := range partNames {
		if need&^c.found&(1<<i) != 0 {
			return time.Time{}, msgpack.Within(name, r.Fail(0, "is missing"))
		}
	}
	p := c.parts
	if need == dateParts {
		clear(p[3:])
	}
	t := time.Date(int(p[0]), time.Month(p[1]), int(p[2]), int(p[3]), int(p[4]), int(p[5]), int(p[6])*1000, time.UTC)
	is := [...]int64{int64(t.Year()), int64(t.Month()), int64(t.Day()), int64(t.Hour()), int64(t.Minute()), int64(t.Second()), int64(t.Nanosecond() / 1000)}
	if is != p || p[0] < 1 || p[0] > 9999 {
		return time.Time{}, r.Fail(0, "there is no time %v (year to microsecond)", p)
	}
	if c.at == 0 || need == dateParts {
		return t, nil
	}
	zone, err := zones.Load(c.zone)
	if err != nil {
		return time.Time{}, msgpack.Within("tz", r.Fail(c.at, "is no known zone: %.40q", c.zone))
	}
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), zone), nil
}
