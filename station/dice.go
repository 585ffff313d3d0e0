package station

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
)

// newDice makes the pseudo-random numbers for one purpose. They depend on the seed and the words alone, not on what was
// drawn before or in which order commands arrive, so runs repeat.
func newDice(seed int64, words ...string) *rand.Rand {
	h := sha256.New()
	h.Write([]byte(strconv.FormatInt(seed, 10)))
	for _, w := range words {
		h.Write([]byte{0})
		h.Write([]byte(w))
	}
	sum := h.Sum(nil)
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum), binary.BigEndian.Uint64(sum[8:])))
}
