package keys

// Board makes the keys of one job board in the layout of TaskFlow, and a few of our own beside them. The zero value is the namespace "".
type Board struct{ namespace string }

// NewBoard returns the keys of a namespace, for example "taskflow" or, on a cluster, "{taskflow}".
func NewBoard(namespace string) Board { return Board{namespace} }

// Namespace is what every key begins with, without the colon.
func (b Board) Namespace() string { return b.namespace }

func (b Board) key(name string) string { return b.namespace + ":" + name }

// Those of TaskFlow. field is that of a posting in the listings.

func (b Board) Listings() string                 { return b.key("listings") }
func (b Board) Trash() string                    { return b.key("trash") }
func (b Board) Sequence() string                 { return b.key("sequence") }
func (b Board) Owner(field string) string        { return b.key(field + OwnerSuffix) }
func (b Board) LastModified(field string) string { return b.key(field + ModifiedSuffix) }

// What the keys of a posting end with.
const (
	OwnerSuffix    = ".owned"
	ModifiedSuffix = ".last_modified"
)

// Those that TaskFlow does not read.

func (b Board) Fence() string         { return b.key("fence") }
func (b Board) Attempts() string      { return b.key("attempts") }
func (b Board) Entities() string      { return b.key("entities") }
func (b Board) Call(id string) string { return b.key("call." + id) }

// Events is a channel, which says that something has changed.
func (b Board) Events() string { return b.key("events") }

// BoardKeys lists every kind of key that a board has below its namespace.
func BoardKeys() []Pattern {
	return []Pattern{
		{"listings", "hash", "TaskFlow, board", "field leaves when it is consumed or trashed", "field = UUID, value = posting (MessagePack)"},
		{"trash", "hash", "TaskFlow, board", "until purged or restored", "the same, of postings that were put aside"},
		{"sequence", "string", "TaskFlow, board", "stays", "last sequence number"},
		{"{field}.owned", "string", "TaskFlow, board", "until finished, or its time to live is over", "text of the owner"},
		{"{field}.last_modified", "string", "TaskFlow, board", "until consumed or purged", "time of the last claim, abandon or trash (MessagePack, extension type 1)"},
		{"fence", "string", "board", "stays", "last fence number of a claim"},
		{"attempts", "hash", "board", "field leaves with its posting", "field = that of the posting, value = claims so far"},
		{"entities", "hash", "board", "field leaves when its owner was not heard of for 30 s", "field = kind/name, value = ms since 1970 until which it counts, JSON"},
		{"call.{id}", "string", "board", "60 s", "what one call of Post gave, for repetitions after a lost reply"},
	}
}
