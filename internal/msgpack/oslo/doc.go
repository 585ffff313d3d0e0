// Package oslo reads and writes values as msgpackutils of oslo.serialization does, byte for byte: the records of job boards in Redis.
//
//	raw ──Decode──► value ──Append──► raw         the same bytes, if raw is as Python writes it
//	                  └ Ext ─Time─► instant ─AppendTime─► raw
//
// A value that was read is nil, a bool, an int64, above that a uint64, a float64, a string, a []byte, a []any, a Map or an Ext. Extensions
// stay as they are, so that one nobody here knows, or whose body is broken, is an error of itself alone and is written as it was.
//
// What Append writes, Decode reads; whether the Pythons read it, says Check, which whoever writes to a board asks first.
//
// Everything may be called at once; values share no bytes with what they were read from.
package oslo
