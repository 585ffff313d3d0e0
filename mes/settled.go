package mes

import "github.com/taktworks/takt/isa95"

// maxSettled is how many receipts of orders that are gone are kept per scope: some minutes of a busy station.
const maxSettled = 10_000

// settled are the receipts of orders that have left the index, the last ones only. A broker that was set back may bring such an order and its
// result again, with an index that looks new; the receipts in Memory are forgotten then.
type settled struct {
	receipts map[isa95.JobOrderID]Receipt
	line     []isa95.JobOrderID // in the order in which they left
}

func (s *settled) add(id isa95.JobOrderID, r Receipt) {
	if s.receipts == nil {
		s.receipts = map[isa95.JobOrderID]Receipt{}
	}
	if _, there := s.receipts[id]; !there {
		s.line = append(s.line, id)
	}
	s.receipts[id] = r
	if len(s.line) > maxSettled {
		delete(s.receipts, s.line[0])
		s.line = s.line[1:]
	}
}

// has says whether this result of an order was handed over. The receipt differs if the id was used again.
func (s *settled) has(id isa95.JobOrderID, r Receipt) bool {
	known, there := s.receipts[id]
	return there && known == r
}
