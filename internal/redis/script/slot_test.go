package script

import "testing"

// Values of CLUSTER KEYSLOT.
func TestSlot(t *testing.T) {
	for key, want := range map[string]uint16{"": 0, "123456789": 12739, "foo": 12182, "{foo}bar": 12182, "a{foo}{bar}": 12182, "{}foo": 9500, "{foo": 13308} {
		if got := slot(key); got != want {
			t.Errorf("%q: %d, want %d", key, got, want)
		}
	}
}
