package isa95

// StateIndex is the retained list of a scope's job orders. Seq grows by one per publication; an MES that sees a gap
// reads the results it missed. PublishedAt is RFC 3339 text. The three members are required, Jobs is [] when absent.
// Epoch names the store that counts Seq: another one says that the store lost something. "" = not told.
type StateIndex struct {
	Seq         int64             `json:"seq" rule:"required"`
	Scope       string            `json:"scope" rule:"required"`
	PublishedAt string            `json:"published_at" rule:"required"`
	Epoch       string            `json:"epoch,omitempty"`
	Jobs        []StateIndexEntry `json:"jobs"`
}

// StateIndexEntry is one job order of a StateIndex. HasResult: its result topic was acknowledged by the broker.
type StateIndexEntry struct {
	JobOrderID string         `json:"job_order_id" rule:"required"`
	State      []StateElement `json:"state"`
	HasResult  bool           `json:"has_result"`
}

// Spelling is how the members of a state are named in a state index. Readers take both. "" is Page.
type Spelling string

const (
	Page Spelling = "page" // as on the MES Northbound Publishing page: state_text, text, locale, state_number
	Wire Spelling = "wire" // as MicroDCS really writes it: StateText, Locale, Text, StateNumber
)
