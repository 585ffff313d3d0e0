// Package utf8text reads text that a program of another system wrote: editors and PowerShell on Windows begin files with a byte
// order mark, or write UTF-16.
package utf8text

import (
	"bytes"
	"errors"
)

// ErrUTF16 is the error of Of.
var ErrUTF16 = errors.New("the text is UTF-16, must be UTF-8: save or send it as UTF-8")

var mark = []byte("\xef\xbb\xbf")

// Of is data without the byte order mark of UTF-8. Of UTF-16, with a mark or beginning with an ASCII character, it returns
// data and ErrUTF16. It does not look for other faults.
func Of(data []byte) ([]byte, error) {
	if len(data) >= 2 {
		first, second := data[0], data[1]
		if first == 0xff && second == 0xfe || first == 0xfe && second == 0xff || (first == 0) != (second == 0) {
			return data, ErrUTF16
		}
	}
	return bytes.TrimPrefix(data, mark), nil
}
