package oslo

import (
	"encoding/hex"
	"math/big"
	"net/netip"
	"slices"

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

// open returns a reader of the body of e, which must have one of the codes.
func open(e Ext, what string, codes ...int8) (msgpack.Reader, error) {
	r := msgpack.NewReader(e.Data)
	if !slices.Contains(codes, e.Code) {
		return r, r.Fail(0, "is an extension of type %d, must be %s", e.Code, what)
	}
	return r, nil
}

// FromUUID returns u as a UUID.
func FromUUID(u uuid.UUID) Ext { return Ext{CodeUUID, hex.AppendEncode(nil, u[:])} }

// UUID returns a UUID (0), whose hexadecimal digits may have dashes between them. The error is a *msgpack.FormatError.
func UUID(e Ext) (uuid.UUID, error) {
	r, err := open(e, "a UUID", CodeUUID)
	if err != nil {
		return uuid.UUID{}, err
	}
	u, err := uuid.ParseBytes(e.Data)
	if err != nil || len(e.Data) != 32 && len(e.Data) != 36 {
		return uuid.UUID{}, r.Fail(0, "is no UUID: %.40q", e.Data)
	}
	return u, nil
}

// FromCount returns a counter (itertools.count) that is at start.
func FromCount(start, step int64) Ext {
	return Ext{CodeCount, msgpack.AppendInt(msgpack.AppendInt(msgpack.AppendArrayLen(nil, 2), start), step)}
}

// Count returns where a counter (2) is and its step. The error is a *msgpack.FormatError.
func Count(e Ext) (start, step int64, err error) {
	r, err := open(e, "a counter", CodeCount)
	if err != nil {
		return 0, 0, err
	}
	n, err := r.Members(msgpack.KindArray)
	if err != nil {
		return 0, 0, err
	}
	if n != 2 {
		return 0, 0, r.Fail(0, "is %d elements, must be start and step", n)
	}
	if start, err = r.Int(); err != nil {
		return 0, 0, msgpack.Within("start", err)
	}
	if step, err = r.Int(); err != nil {
		return 0, 0, msgpack.Within("step", err)
	}
	return start, step, r.End()
}

// FromIP returns an address as netaddr has it: one integer. An IPv6 address above 64 bits does not fit, one of 32 bits would be read
// as IPv4, and a zone is not kept: a *msgpack.ValueError.
func FromIP(a netip.Addr) (Ext, error) {
	n := new(big.Int).SetBytes(a.AsSlice())
	if !a.IsValid() || a.Zone() != "" || !n.IsUint64() || a.Is6() && n.Uint64() < 1<<32 {
		return Ext{}, msgpack.Unfit("", "the address %v would not be read as the same", a)
	}
	return Ext{CodeIP, msgpack.AppendUint(nil, n.Uint64())}, nil
}

// IP returns an address (3): IPv4 if it is less than 32 bits, as Python takes it, whatever it was once. The error is a *msgpack.FormatError.
func IP(e Ext) (netip.Addr, error) {
	r, err := open(e, "an IP address", CodeIP)
	if err != nil {
		return netip.Addr{}, err
	}
	t, err := r.Next()
	switch {
	case err != nil:
		return netip.Addr{}, err
	case t.Kind != msgpack.KindInt && t.Kind != msgpack.KindUint:
		return netip.Addr{}, r.Mismatch(&t, "an integer")
	case t.Kind == msgpack.KindInt && t.Int() < 0:
		return netip.Addr{}, r.Fail(t.At, "is %d, which is no IP address", t.Int())
	}
	var b [16]byte
	new(big.Int).SetUint64(t.Uint()).FillBytes(b[:])
	if t.Uint() < 1<<32 {
		return netip.AddrFrom4([4]byte(b[12:])), r.End()
	}
	return netip.AddrFrom16(b), r.End()
}

// FromSet returns a set of members, which Append can write. It does not look whether they are different, nor in what order they are. The
// error is that of Append.
func FromSet(members []any) (Ext, error) { return fromSet(CodeSet, members) }

// FromFrozenset returns members as a set that cannot be changed; for Python those are different types.
func FromFrozenset(members []any) (Ext, error) { return fromSet(CodeFrozenset, members) }

func fromSet(code int8, members []any) (Ext, error) {
	if members == nil {
		members = []any{}
	}
	body, err := Append(nil, members, Limits{})
	return Ext{code, body}, err
}

// Set returns the members of a set (4) or frozenset (5) in the order they were written in, as Decode gives them. The error is
// a *msgpack.FormatError.
func Set(e Ext) ([]any, error) {
	r, err := open(e, "a set", CodeSet, CodeFrozenset)
	if err != nil {
		return nil, err
	}
	if _, err := r.Members(msgpack.KindArray); err != nil {
		return nil, err
	}
	members, err := Decode(e.Data, Limits{})
	list, _ := members.([]any)
	return list, err
}
