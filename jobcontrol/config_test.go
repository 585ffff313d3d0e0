package jobcontrol_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

func quote(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}

// config is a configuration event.
func config(kind isa95.ConfigKind, method, body string) cloudevent.Event {
	e := command(kind.TypeID(), body)
	e.Method = method
	return e
}

func (p *plant) configure(t testing.TB, kind isa95.ConfigKind, method, body string, want isa95.ReturnStatus) cloudevent.Event {
	t.Helper()
	e := config(kind, method, body)
	reply := p.answer(t, e)
	wantStatus(t, reply, want)
	wantReply(t, e, reply)
	return reply
}

// PUT and no method insert, DELETE removes, for all seven kinds (row 32), and each is answered.
func TestConfiguration(t *testing.T) {
	bodies := map[isa95.ConfigKind]string{
		isa95.ConfigEquipment: `{"ID":"X-1","Description":[{"Text":"x"}]}`, isa95.ConfigMaterialClass: `{"MaterialClassID":"X-1"}`,
		isa95.ConfigMaterialDefinition: `{"MaterialDefinitionID":"X-1"}`, isa95.ConfigPersonnel: `{"ID":"X-1"}`,
		isa95.ConfigPhysicalAsset: `{"ID":"X-1"}`, isa95.ConfigWorkMaster: `{"ID":"X-1"}`,
		isa95.ConfigJobAcceptance: `{"max_downloadable_job_orders":5}`,
	}
	for _, kind := range isa95.ConfigKinds() {
		for _, method := range []string{"", "PUT"} {
			t.Run(fmt.Sprintf("%s/%q", kind, method), func(t *testing.T) {
				p := newPlant(t, jobcontrol.Options{})
				reply := p.configure(t, kind, method, bodies[kind], isa95.NoError)
				want := `{"ReturnStatus":1}`
				if kind == isa95.ConfigWorkMaster {
					want = `{"ReturnStatus":1,"Change":"new"}`
				}
				if string(reply.Data) != want || reply.DataSchema != "" {
					t.Errorf("reply %s, schema %q", reply.Data, reply.DataSchema)
				}
				switch kind {
				case isa95.ConfigJobAcceptance:
					if text, err := p.redis(t, "GET", p.keys.JobAcceptance(scope)).ToString(); err != nil || text != "5" {
						t.Errorf("limit %q, %v", text, err)
					}
				case isa95.ConfigWorkMaster:
					if doc, err := p.redis(t, "GET", p.keys.WorkMaster("X-1")).ToString(); err != nil || doc != `{"ID":"X-1","_dataschema":"`+kind.Schema()+`"}` {
						t.Errorf("document %s, %v", doc, err)
					}
					if ok, err := p.redis(t, "SISMEMBER", p.keys.WorkMasterList(scope), "X-1").AsBool(); err != nil || !ok {
						t.Errorf("not in the list: %v", err)
					}
				default:
					if ok, err := p.redis(t, "SISMEMBER", p.keys.ResourceList(string(kind), scope), "X-1").AsBool(); err != nil || !ok {
						t.Errorf("not in the list: %v", err)
					}
				}
				if n := len(p.entries(t, p.keys.ChangesAll())) + len(p.events(t)); n != 0 {
					t.Errorf("%d changes and events of a configuration", n)
				}
				p.configure(t, kind, "DELETE", bodies[kind], isa95.NoError)
				for key := range p.snapshot(t) {
					if key == "configured-scopes" {
						continue // it was configured once
					}
					if !strings.HasPrefix(key, "cededupe:") && !strings.HasPrefix(key, "wmx:content:") { // both expire
						t.Errorf("%s is left over", key)
					}
				}
				p.configure(t, kind, "DELETE", bodies[kind], isa95.NoError) // of nothing
			})
		}
	}
}

// The answer to a delivery says what it changes at the station, and how many others list the work master. It does not name
// them.
func TestDeliverySaysWhatItChanges(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	at := func(scope, method, data string) string {
		e := config(isa95.ConfigWorkMaster, method, `{"ID":"WM-1","data":`+data+`,"dataschema":"urn:x"}`)
		e.Subject, e.Delivery.Topic = scope, "app/jobs/"+scope+"/commands"
		return string(p.answer(t, e).Data)
	}
	one, two := jobstore.Hash([]byte(`{"a":1}`)), jobstore.Hash([]byte(`{"a":2}`))
	for _, step := range []struct{ scope, method, data, want string }{
		{"m42", "PUT", `{"a":1}`, `{"ReturnStatus":1,"Change":"new","After":"` + one + `"}`},
		{"m43", "", `{"a":1}`, `{"ReturnStatus":1,"Change":"new","After":"` + one + `","OtherScopes":1}`},
		{"m42", "PUT", `{"a":2}`, `{"ReturnStatus":1,"Change":"changed","Before":"` + one + `","After":"` + two + `","OtherScopes":1}`},
		{"m42", "PUT", `{"a":2}`, `{"ReturnStatus":1,"Change":"unchanged","Before":"` + two + `","After":"` + two + `","OtherScopes":1}`},
		{"m42", "DELETE", `{}`, `{"ReturnStatus":1,"Change":"removed","Before":"` + two + `","OtherScopes":1}`},
		{"m42", "DELETE", `{}`, `{"ReturnStatus":1,"Change":"unchanged","OtherScopes":1}`},
	} {
		if got := at(step.scope, step.method, step.data); got != step.want {
			t.Errorf("%s %s %s: %s, want %s", step.scope, step.method, step.data, got, step.want)
		}
	}
}

func TestConfigurationRefused(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	for _, test := range []struct {
		kind         isa95.ConfigKind
		method, body string
		want         cloudevent.ErrorKind
		says         string
	}{
		{isa95.ConfigEquipment, "", `{}`, cloudevent.KindMissingProperty, "ID is missing"},
		{isa95.ConfigEquipment, "DELETE", ``, cloudevent.KindMissingProperty, "ID is missing"},
		{isa95.ConfigMaterialClass, "", `{"ID":"M-1"}`, cloudevent.KindPropertyInvalid, `member "ID" is not known`},
		{isa95.ConfigMaterialClass, "", `{"MaterialDefinitionID":"M-1"}`, cloudevent.KindMissingProperty, "MaterialClassID is missing"},
		{isa95.ConfigMaterialDefinition, "", `{"MaterialClassID":"M-1"}`, cloudevent.KindMissingProperty, "MaterialDefinitionID is missing"},
		{isa95.ConfigPersonnel, "", `{"ID":""}`, cloudevent.KindMissingProperty, "ID is missing"},
		{isa95.ConfigPhysicalAsset, "", `{"ID":null}`, cloudevent.KindMissingProperty, "ID is missing"},
		{isa95.ConfigWorkMaster, "", `{"data":{}}`, cloudevent.KindMissingProperty, "ID is missing"},
		{isa95.ConfigWorkMaster, "", `{"ID":"WM-1","data":"Steps"}`, cloudevent.KindPayloadInvalid, "/data"},
		{isa95.ConfigJobAcceptance, "", `{}`, cloudevent.KindPayloadInvalid, "max_downloadable_job_orders is required"},
		{isa95.ConfigJobAcceptance, "", `{"max_downloadable_job_orders":-1}`, cloudevent.KindPropertyInvalid, "0 or more"},
		{isa95.ConfigJobAcceptance, "", `{"max_downloadable_job_orders":"many"}`, cloudevent.KindPayloadInvalid, "integer"},
		{isa95.ConfigEquipment, "delete", `{"ID":"EQ-1"}`, cloudevent.KindPropertyInvalid, `"delete": want PUT, DELETE or none`},
		{isa95.ConfigEquipment, "POST", `{"ID":"EQ-1"}`, cloudevent.KindPropertyInvalid, `"POST"`},
		{isa95.ConfigEquipment, "", `[1]`, cloudevent.KindPayloadInvalid, "must be an object"},
	} {
		reply := p.configure(t, test.kind, test.method, test.body, isa95.InvalidRequest)
		if reply.ErrorKind != test.want || !strings.Contains(reply.ErrorMessage, test.says) {
			t.Errorf("%s %s: %s %q", test.kind, test.body, reply.ErrorKind, reply.ErrorMessage)
		}
	}
	if diff := cmp.Diff(map[string]string{}, p.snapshot(t)); diff != "" {
		t.Errorf("a refusal wrote:\n%s", diff)
	}
}

// A recipe of ours that cannot run is refused with its findings, and nothing is stored; data of other programs is
// theirs to judge.
func TestBrokenRecipeES25(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	broken := `{"Steps":[{"Name":"a","Initial":true}],"Transitions":[{"Source":"a","Target":"nowhere"}],"Actions":[]}`
	findings := recipe.Check([]byte(broken), recipe.Options{})
	if !recipe.HasErrors(findings) {
		t.Fatal("the recipe of this test is not broken")
	}
	workMaster := func(schema, data string) string {
		return fmt.Sprintf(`{"ID":"WM-1","data":%s,"dataschema":%q}`, data, schema)
	}
	reply := p.configure(t, isa95.ConfigWorkMaster, "PUT", workMaster(recipe.SchemaURI, broken), isa95.InvalidRequest)
	if reply.ErrorKind != cloudevent.KindPayloadInvalid {
		t.Errorf("kind %s", reply.ErrorKind)
	}
	for _, f := range findings {
		if said := strings.Contains(reply.ErrorMessage, f.Code); said != (f.Severity == recipe.SeverityError) {
			t.Errorf("finding %s in %q: %v", f.Code, reply.ErrorMessage, said)
		}
	}
	for _, body := range []string{`{"ID":"WM-1","dataschema":"` + recipe.SchemaURI + `"}`, workMaster(recipe.SchemaURI, "[]")} {
		p.configure(t, isa95.ConfigWorkMaster, "PUT", body, isa95.InvalidRequest)
	}
	if diff := cmp.Diff(map[string]string{}, p.snapshot(t)); diff != "" {
		t.Fatalf("a broken recipe was stored:\n%s", diff)
	}
	p.configure(t, isa95.ConfigWorkMaster, "PUT", workMaster("urn:x", broken), isa95.NoError)
	p.configure(t, isa95.ConfigWorkMaster, "PUT", workMaster(recipe.SchemaURI, linear), isa95.NoError)
	p.configure(t, isa95.ConfigWorkMaster, "DELETE", `{"ID":"WM-1"}`, isa95.NoError)
}

// A work master that was meant for Takt is not taken in silence as one for other programs: nothing would carry its job orders out.
func TestRecipeWithoutItsSchema(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	put := func(schema, data string, want isa95.ReturnStatus) string {
		t.Helper()
		reply := p.answer(t, config(isa95.ConfigWorkMaster, "PUT", fmt.Sprintf(`{"ID":"WM-1","data":%s%s}`, data, schema)))
		if got := status(t, reply); got != want {
			t.Errorf("%s%s: %v, want %v", data, schema, got, want)
		}
		return reply.ErrorMessage
	}
	for _, near := range []string{strings.TrimSuffix(recipe.SchemaURI, "/"), strings.Replace(recipe.SchemaURI, "https", "http", 1), strings.ToUpper(recipe.SchemaURI), " " + recipe.SchemaURI} {
		if said := put(fmt.Sprintf(`,"dataschema":%q`, near), linear, isa95.InvalidRequest); !strings.Contains(said, "did you mean "+recipe.SchemaURI) {
			t.Errorf("%q: %q", near, said)
		}
	}
	if diff := cmp.Diff(map[string]string{}, p.snapshot(t)); diff != "" {
		t.Fatalf("a refused work master was stored:\n%s", diff)
	}
	for data, warns := range map[string]bool{linear: true, `{"Steps":[],"Other":1}`: false, `[1]`: false} {
		if said := put("", data, isa95.NoError); strings.Contains(said, recipe.SchemaURI) != warns {
			t.Errorf("%s without a dataschema: %q", data, said)
		}
	}
	if said := put(`,"dataschema":"https://example.com/recipes/v1/"`, linear, isa95.NoError); said != "" {
		t.Errorf("of another program: %q", said)
	}
}

// linear is a recipe of two commands.
const linear = `{"Steps":[{"Name":"load","Initial":true},{"Name":"cut","Initial":false}],
"Transitions":[{"Source":"load","Target":"cut","Condition":"always","Priority":1}],
"Actions":[{"Name":"clamp","Step":"load","Qualifier":"N","Interaction":"push_command","TypeId":"com.example.clamp.v1","TimeoutSeconds":60},
{"Name":"cut_part","Step":"cut","Qualifier":"N","Interaction":"push_command","TypeId":"com.example.cut.v1","TimeoutSeconds":60}]}`

// Two scopes share the document of a work master: it goes with the last of them.
func TestSharedWorkMaster(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	at := func(subject, method string) {
		t.Helper()
		e := config(isa95.ConfigWorkMaster, method, `{"ID":"WM-1"}`)
		e.Subject, e.Delivery.Topic = subject, "app/jobs/"+subject+"/commands"
		wantStatus(t, p.answer(t, e), isa95.NoError)
	}
	exists := func(want int64) {
		t.Helper()
		if n, err := p.redis(t, "EXISTS", p.keys.WorkMaster("WM-1")).AsInt64(); err != nil || n != want {
			t.Errorf("document: %d, %v, want %d", n, err, want)
		}
	}
	at("m42", "PUT")
	at("m43", "PUT")
	at("m42", "DELETE")
	exists(1)
	p.do(t, isa95.Store, `{"JobOrderID":"JO-1","WorkMasterID":[{"ID":"WM-1"}]}`, isa95.UnableToAccept)
	at("m42", "DELETE")
	exists(1)
	at("m43", "DELETE")
	exists(0)
}
