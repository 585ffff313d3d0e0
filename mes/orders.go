package mes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/taktworks/takt/internal/utf8text"
	"github.com/taktworks/takt/isa95"
)

// OrderList is job orders for one scope.
type OrderList struct {
	Scope     isa95.Scope // "" when the file does not say
	JobOrders []isa95.JobOrder
}

// OrderFileError is the first thing wrong in a file of job orders.
type OrderFileError struct {
	File  string
	Line  int    // from 1
	Where string // "JobOrders[3] (JO-7)", "" = the file as a whole
	Rule  string // what is wrong, or what must be
}

// Error is the fault on one line: file:line: where: rule.
func (e *OrderFileError) Error() string {
	if e.Where == "" {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Rule)
	}
	return fmt.Sprintf("%s:%d: %s: %s", e.File, e.Line, e.Where, e.Rule)
}

// maxOrderFile is the size of a file of job orders in bytes.
const maxOrderFile = 64 << 20

// LoadOrders reads job orders from a JSON file. It holds one of:
//
//	{"Scope": "cell-07", "JobOrders": [{"JobOrderID": "JO-1", ...}, ...]}   the orders of a station
//	[{"Scope": ..., "JobOrders": [...]}, ...]                               of several
//	{"JobOrderID": "JO-1", ...}                                            an order, whose scope you say yourself
//	[{"JobOrderID": "JO-1", ...}, ...]                                      several
//
// Members are spelled as in ISA95JobOrderDataType. A member that is not known is an error, as in a command. So is an id that
// stands there twice, or that Takt would refuse. The error is an *OrderFileError, or one of reading the file.
func LoadOrders(file string) ([]OrderList, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("mes: orders: %w", err)
	}
	return ParseOrders(filepath.Base(file), data)
}

// ParseOrders is LoadOrders of a text; file is for messages.
func ParseOrders(file string, data []byte) ([]OrderList, error) {
	data, wrong := utf8text.Of(data)
	p := &orderParser{file: file, data: data, seen: map[string]bool{}}
	if wrong != nil {
		return nil, p.fail(0, "", "%v", wrong)
	}
	lists, err := p.parse()
	if err != nil {
		return nil, err
	}
	return lists, nil
}

type orderParser struct {
	file string
	data []byte
	seen map[string]bool // job order ids
}

// element is a JSON value and where it begins in the file.
type element struct {
	text   json.RawMessage
	offset int
}

func (p *orderParser) parse() ([]OrderList, error) {
	if len(p.data) > maxOrderFile {
		return nil, p.fail(0, "", "must not be larger than %d bytes", maxOrderFile)
	}
	var whole json.RawMessage
	if err := json.Unmarshal(p.data, &whole); err != nil {
		return nil, p.fail(offsetOf(err), "", "must be JSON: %v", err)
	}
	start := bytes.IndexAny(p.data, "{[")
	if start < 0 || strings.TrimSpace(string(p.data[:start])) != "" {
		return nil, p.fail(0, "", "must be an object or an array of objects")
	}
	root := element{p.data[start:], start}
	if p.data[start] == '{' {
		list, isOrder, err := p.list(root, "")
		if err != nil || !isOrder {
			return []OrderList{list}, err
		}
		o, err := p.order(root, "")
		return []OrderList{{JobOrders: []isa95.JobOrder{o}}}, err
	}
	elements, err := p.elements(root)
	if err != nil {
		return nil, err
	}
	var lists []OrderList
	var loose OrderList
	for i, e := range elements {
		list, isOrder, err := p.list(e, fmt.Sprintf("[%d]", i))
		if err != nil {
			return nil, err
		}
		if !isOrder {
			lists = append(lists, list)
			continue
		}
		o, err := p.order(e, fmt.Sprintf("[%d]", i))
		if err != nil {
			return nil, err
		}
		loose.JobOrders = append(loose.JobOrders, o)
	}
	if len(loose.JobOrders) > 0 && len(lists) > 0 {
		return nil, p.fail(start, "", "must not mix job orders and lists of them")
	}
	if len(loose.JobOrders) > 0 {
		lists = append(lists, loose)
	}
	if len(lists) == 0 {
		return nil, p.fail(start, "", "must have at least one job order")
	}
	return lists, nil
}

// list reads an object with JobOrders; isOrder: it has none and is to be read as an order.
func (p *orderParser) list(e element, where string) (l OrderList, isOrder bool, err error) {
	members, err := p.members(e, where)
	if err != nil {
		return l, false, err
	}
	orders, ok := members["JobOrders"]
	if !ok {
		return l, true, nil
	}
	for name, m := range members {
		if name != "Scope" && name != "JobOrders" {
			return l, false, p.fail(m.offset, where, "member %q is not known here; known are Scope, JobOrders", name)
		}
	}
	if scope, ok := members["Scope"]; ok {
		var text string
		if json.Unmarshal(scope.text, &text) != nil {
			return l, false, p.fail(scope.offset, where, "Scope must be text")
		}
		if l.Scope, err = isa95.ParseScope(text); err != nil {
			return l, false, p.fail(scope.offset, where, "%v", err)
		}
	}
	if len(orders.text) == 0 || orders.text[0] != '[' {
		return l, false, p.fail(orders.offset, where, "JobOrders must be an array")
	}
	elements, err := p.elements(orders)
	if err != nil {
		return l, false, err
	}
	for i, e := range elements {
		o, err := p.order(e, fmt.Sprintf("%sJobOrders[%d]", where, i))
		if err != nil {
			return l, false, err
		}
		l.JobOrders = append(l.JobOrders, o)
	}
	if len(l.JobOrders) == 0 {
		return l, false, p.fail(orders.offset, where, "JobOrders must not be empty")
	}
	return l, false, nil
}

func (p *orderParser) order(e element, where string) (o isa95.JobOrder, err error) {
	var unknown *isa95.UnknownMembersError
	var wrong *isa95.DecodeError
	switch err := isa95.Receive(e.text, &o, isa95.RefuseUnknown); {
	case errors.As(err, &unknown):
		first := unknown.Members[0]
		return o, p.fail(p.lineStart(e.offset, first.Line), where, "%s", first)
	case errors.As(err, &wrong):
		return o, p.fail(p.lineStart(e.offset, wrong.Line), where, "%v", err)
	case err != nil:
		return o, p.fail(e.offset, where, "%v", err)
	}
	if o.JobOrderID != "" {
		where = strings.TrimSpace(where + " (" + o.JobOrderID + ")")
	}
	if _, err := isa95.ParseJobOrderID(o.JobOrderID); err != nil {
		return o, p.fail(e.offset, where, "%v", err)
	}
	if err := isa95.CheckNewName("JobOrderID", o.JobOrderID); err != nil {
		return o, p.fail(e.offset, where, "%v", err)
	}
	if p.seen[o.JobOrderID] {
		return o, p.fail(e.offset, where, "the JobOrderID stands in this file twice")
	}
	p.seen[o.JobOrderID] = true
	if o.Priority != nil && (*o.Priority < -1<<15 || *o.Priority >= 1<<15) {
		return o, p.fail(e.offset, where, "Priority must be from -32768 to 32767")
	}
	return o, nil
}

// lineStart is the offset of a line, counted from 1 at the line of offset.
func (p *orderParser) lineStart(offset, line int) int {
	for ; line > 1; line-- {
		i := bytes.IndexByte(p.data[offset:], '\n')
		if i < 0 {
			break
		}
		offset += i + 1
	}
	return offset
}

// elements takes an array apart.
func (p *orderParser) elements(e element) ([]element, error) {
	var all []element
	d := json.NewDecoder(bytes.NewReader(e.text))
	_, _ = d.Token() // [: the text is valid
	for d.More() {
		var text json.RawMessage
		if err := d.Decode(&text); err != nil {
			return nil, p.fail(e.offset, "", "%v", err)
		}
		all = append(all, element{text, e.offset + int(d.InputOffset()) - len(text)})
	}
	return all, nil
}

// members takes an object apart.
func (p *orderParser) members(e element, where string) (map[string]element, error) {
	if len(e.text) == 0 || e.text[0] != '{' {
		return nil, p.fail(e.offset, where, "must be an object")
	}
	all := map[string]element{}
	d := json.NewDecoder(bytes.NewReader(e.text))
	_, _ = d.Token() // {
	for d.More() {
		name, err := d.Token()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, p.fail(e.offset, where, "%v", err)
		}
		var text json.RawMessage
		if err := d.Decode(&text); err != nil {
			return nil, p.fail(e.offset, where, "%v", err)
		}
		all[fmt.Sprint(name)] = element{text, e.offset + int(d.InputOffset()) - len(text)}
	}
	return all, nil
}

func (p *orderParser) fail(offset int, where, rule string, args ...any) error {
	offset = min(max(offset, 0), len(p.data))
	return &OrderFileError{
		File: p.file, Line: 1 + bytes.Count(p.data[:offset], []byte{'\n'}), Where: where, Rule: fmt.Sprintf(rule, args...),
	}
}

// offsetOf is where in the text an error of encoding/json is.
func offsetOf(err error) int {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return int(syntax.Offset)
	}
	return 0
}
