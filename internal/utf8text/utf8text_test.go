package utf8text_test

import (
	"encoding/binary"
	"errors"
	"testing"
	"unicode/utf16"

	"github.com/taktworks/takt/internal/utf8text"
)

func TestOf(t *testing.T) {
	for _, text := range []string{"", "x", "{}", "scope: a\n", "ä", "\x00", "\x00\x00"} {
		for _, data := range []string{text, "\xef\xbb\xbf" + text} {
			if got, err := utf8text.Of([]byte(data)); string(got) != text || err != nil {
				t.Errorf("%q: %q, %v", data, got, err)
			}
		}
	}
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, text := range []string{"{}", "\ufeff{}", "\ufeff", "\ufeff漢", " x", "-\n"} {
			var data []byte
			for _, unit := range utf16.Encode([]rune(text)) {
				data = order.AppendUint16(data, unit)
			}
			if got, err := utf8text.Of(data); string(got) != string(data) || !errors.Is(err, utf8text.ErrUTF16) {
				t.Errorf("%q: %q, %v", data, got, err)
			}
		}
	}
}
