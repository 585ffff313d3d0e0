package isa95_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/taktworks/takt/isa95"
)

// A member that is not known is refused with its place, its line and the name that was probably meant.
func TestReceiveRefusesUnknownMembers(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       []isa95.UnknownMember
	}{
		{"misspelt", "{\"JobOrder\":{\n\"JobOrderID\":\"a\",\n\"Prioritty\":3}}", []isa95.UnknownMember{{Pointer: "/JobOrder", Line: 3, Name: "Prioritty", Nearest: "Priority"}}},
		{"case", `{"JobOrder":{"JobOrderId":"a"}}`, []isa95.UnknownMember{{Pointer: "/JobOrder", Line: 1, Name: "JobOrderId", Nearest: "JobOrderID"}}},
		{"in an element", `{"JobOrder":{"JobOrderParameters":[{},{"Subparameters":[{"Valu":1}]}]}}`, []isa95.UnknownMember{{Pointer: "/JobOrder/JobOrderParameters/1/Subparameters/0", Line: 1, Name: "Valu", Nearest: "Value"}}},
		{"nothing is near", `{"colour":1,"JobOrder":{}}`, []isa95.UnknownMember{{Line: 1, Name: "colour"}}},
		{"two", `{"Coment":[],"JobOrder":{"EndTim":"x"}}`, []isa95.UnknownMember{{Line: 1, Name: "Coment", Nearest: "Comment"}, {Pointer: "/JobOrder", Line: 1, Name: "EndTim", Nearest: "EndTime"}}},
		{"free names", `{"_dataschema":"u","JobOrder":{"_x":1,"x-lot":{"a":1},"JobOrderParameters":[{"_dataschema":"u","Value":{"Prioritty":1}}]}}`, nil},
		{"snake_case", `{"job_order":{"job_order_id":"a"}}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var call isa95.JobOrderCall
			err := isa95.Receive([]byte(c.body), &call, isa95.RefuseUnknown)
			var unknown *isa95.UnknownMembersError
			if len(c.want) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.As(err, &unknown) {
				t.Fatal(err)
			}
			if len(unknown.Members) != len(c.want) {
				t.Fatalf("%+v", unknown.Members)
			}
			for i, m := range unknown.Members {
				if m != c.want[i] {
					t.Errorf("%+v, want %+v", m, c.want[i])
				}
				if text := err.Error(); !strings.Contains(text, m.Name) || !strings.Contains(text, m.Pointer) || !strings.Contains(text, m.Nearest) {
					t.Errorf("%s", text)
				}
			}
			for _, policy := range []isa95.UnknownMembers{isa95.KeepUnknown, isa95.IgnoreUnknown} {
				if err := isa95.Receive([]byte(c.body), &call, policy); err != nil {
					t.Errorf("%s: %v", policy, err)
				}
			}
		})
	}
	many := `{"JobOrder":{` + strings.TrimSuffix(strings.Repeat(`"@":1,`, 1), ",")
	for i := range 30 {
		many += `,"q` + strings.Repeat("z", i+1) + `":1`
	}
	err := isa95.Receive([]byte(many+"}}"), new(isa95.JobOrderCall), "")
	if err == nil || !strings.HasSuffix(err.Error(), "; and 21 more") {
		t.Errorf("%v", err)
	}
}

// What is kept is written back, in every type that a job order is made of; what is ignored is gone; a store's own members
// always are.
func TestUnknownMembersAreKept(t *testing.T) {
	const body = `{"JobOrderID":"a","WorkMasterID":[{"ID":"w","p":1}],"JobOrderParameters":[{"ID":"x","Value":1.50,"q":{"b":[1, 2]}}],` +
		`"EquipmentRequirements":[{"ID":"e","r":null}],"_dataschema":"u","x-lot":"L1","s":0}`
	for policy, want := range map[isa95.UnknownMembers]string{
		isa95.KeepUnknown: `{"JobOrderID":"a","WorkMasterID":[{"ID":"w","p":1}],"JobOrderParameters":[{"ID":"x","Value":1.50,"q":{"b":[1,2]}}],` +
			`"EquipmentRequirements":[{"ID":"e","r":null}],"x-lot":"L1","s":0}`,
		isa95.IgnoreUnknown: `{"JobOrderID":"a","WorkMasterID":[{"ID":"w"}],"JobOrderParameters":[{"ID":"x","Value":1.50}],"EquipmentRequirements":[{"ID":"e"}]}`,
	} {
		var o isa95.JobOrder
		if err := isa95.Receive([]byte(body), &o, policy); err != nil {
			t.Fatal(err)
		}
		got, err := isa95.Marshal(o)
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v\nwant %s", policy, got, err, want)
		}
		if policy == isa95.KeepUnknown {
			stored := isa95.JobOrder{}
			if err := isa95.UnmarshalStored(got, &stored); err != nil {
				t.Fatal(err)
			}
			if again, err := isa95.Marshal(stored); err != nil || string(again) != want {
				t.Errorf("stored and read: %s, %v", again, err)
			}
		}
	}
}

// Of two members of one name readers take different ones, so the body is refused (an order for JO-1 that a queue takes
// for one of JO-2). Inside a work master's data its own format rules.
func TestReceiveRefusesDoubledMembers(t *testing.T) {
	for body, pointer := range map[string]string{
		`{"JobOrder":{"JobOrderID":"a","JobOrderID":"b"}}`:                               "/JobOrder/JobOrderID",
		`{"JobOrder":{"JobOrderID":"a","job_order_id":"b"}}`:                             "/JobOrder/job_order_id",
		`{"JobOrder":{"job_order_id":"a","JobOrderID":"b"}}`:                             "/JobOrder/JobOrderID",
		`{"job_order":null,"JobOrder":{}}`:                                               "/JobOrder",
		`{"JobOrder":{},"JobOrder":{}}`:                                                  "/JobOrder",
		`{"JobOrder":{"job_order_id":"a","job_order_id":"a"}}`:                           "/JobOrder/job_order_id",
		`{"JobOrder":{"JobOrderParameters":[{"ID":"p","Value":{"a":[{"b":1,"b":2}]}}]}}`: "/JobOrder/JobOrderParameters/0/Value/b",
		`{"x-a":{"b":1,"b":1}}`:                                                          "/x-a/b",
	} {
		for _, policy := range []isa95.UnknownMembers{isa95.RefuseUnknown, isa95.KeepUnknown, isa95.IgnoreUnknown} {
			err := isa95.Receive([]byte(body), new(isa95.JobOrderCall), policy)
			var decode *isa95.DecodeError
			if !errors.As(err, &decode) || !errors.Is(err, isa95.ErrTwice) || decode.Pointer != pointer {
				t.Errorf("%s %s: %v", policy, body, err)
			}
		}
		if err := isa95.Unmarshal([]byte(body), new(isa95.JobOrderCall)); err != nil {
			t.Errorf("stored: %v", err)
		}
	}
	wide := `{"JobOrder":{"JobOrderParameters":[{"Value":{`
	for i := range 100 {
		wide += `"k` + strings.Repeat("i", i) + `":1,`
	}
	if err := isa95.Receive([]byte(wide+`"l":1}}]}}`), new(isa95.JobOrderCall), ""); err != nil {
		t.Error(err)
	}
	if err := isa95.Receive([]byte(wide+`"kiii":1}}]}}`), new(isa95.JobOrderCall), ""); !errors.Is(err, isa95.ErrTwice) {
		t.Error(err)
	}
	if err := isa95.Receive([]byte(`{"ID":"w","data":{"a":1,"a":2}}`), new(isa95.WorkMaster), ""); err != nil {
		t.Error(err)
	}
}

// The refusal says whether a member is there under one name or under both of its names, whichever comes first.
func TestReceiveNamesBothSpellings(t *testing.T) {
	for body, want := range map[string]string{
		`{"JobOrderID":"a","JobOrderID":"b"}`:     "JobOrderID is there twice; send it once",
		`{"job_order_id":"a","job_order_id":"b"}`: "job_order_id is there twice; send it once",
		`{"JobOrderID":"a","job_order_id":"b"}`:   "job_order_id is there twice, as JobOrderID and as job_order_id; send it once",
		`{"job_order_id":"a","JobOrderID":"b"}`:   "JobOrderID is there twice, as JobOrderID and as job_order_id; send it once",
		`{"x-a":1,"x-a":2}`:                       "x-a is there twice; send it once",
	} {
		err := isa95.Receive([]byte(body), new(isa95.JobOrderIDCall), "")
		if !errors.Is(err, isa95.ErrTwice) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// A name that enters can be told from every other by looking at it. What is stored already keeps working.
func TestCheckNewName(t *testing.T) {
	for _, name := range []string{"a\u200b", "\u202ea", "a\u2028b", "\ufeffa", "a\u00ad", " a", "a ", " ", "\u00a0a", "a\u3000"} {
		err := isa95.CheckNewName("JobOrderID", name)
		var wrong *isa95.NameError
		if !errors.As(err, &wrong) || wrong.Kind != "JobOrderID" {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := isa95.ParseJobOrderID(name); err != nil {
			t.Errorf("%q stored: %v", name, err)
		}
	}
	for _, name := range []string{"JO-1", "Auftrag 7", "ü", "部品", "a\u0308"} {
		if err := isa95.CheckNewName("JobOrderID", name); err != nil {
			t.Error(err)
		}
	}
}
