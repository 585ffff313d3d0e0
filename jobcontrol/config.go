package jobcontrol

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// configure stores or removes one piece of a station's configuration.
func (r *Receiver) configure(ctx context.Context, req *request) (cloudevent.Event, error) {
	q := jobstore.Query{Source: req.event.Source, ID: req.event.ID, Scope: req.scope}
	if req.config == isa95.ConfigWorkMaster {
		q.Holders = isa95.WorkMasterID(req.apply.ID)
	}
	snap, err := r.load(ctx, req, q)
	if err != nil {
		return cloudevent.Event{}, err
	}
	now := r.store.Now()
	reply := r.reply(req, verdict{status: isa95.NoError, message: req.warning()}, now)
	if req.config == isa95.ConfigWorkMaster {
		if reply, err = r.delivered(req, snap, now); err != nil {
			return cloudevent.Event{}, err
		}
	}
	return reply, r.store.Configure(ctx, req.apply, snap, &jobstore.Seen{Body: req.event.Data, Reply: &reply})
}

// delivered is the answer to the delivery of a work master: what it changes. Other stations are not named, for the requester may
// have no right to know them.
func (r *Receiver) delivered(req *request, snap *jobstore.Snapshot, now time.Time) (cloudevent.Event, error) {
	d, err := r.store.Delivery(req.apply, snap)
	if err != nil {
		return cloudevent.Event{}, err
	}
	body, err := isa95.Marshal(isa95.DeliveryResult{
		ReturnStatus: isa95.NoError, Change: d.Change, Before: d.Before, After: d.After, OtherScopes: d.Others,
	})
	reply := r.replyWith(req, body, now)
	reply.ErrorMessage = shorten(req.warning())
	return reply, err
}

// ReadConfiguration is what a Receiver stores for a configuration event; unknown is its Options.UnknownMembers. The error says why it refuses the event.
func ReadConfiguration(e cloudevent.Event, unknown isa95.UnknownMembers) (jobstore.Configuration, error) {
	r := &Receiver{opt: Options{UnknownMembers: unknown}}
	req, err := r.read(e)
	if err == nil && req.config == "" {
		err = cloudevent.Errorf(cloudevent.KindUnknownPayloadType, "type %.200q is no configuration", e.Type)
	}
	return req.apply, err
}

// warning is what the reply to a delivery says beside its ReturnStatus 1, "" if there is nothing to say.
func (req *request) warning() string {
	if len(req.warnings) == 0 {
		return ""
	}
	return "taken, with warnings: " + strings.Join(req.warnings, "; ")
}

// readConfiguration reads the body of a configuration event. Of the resources only the id is kept. The limit of job
// orders is deleted without looking at the body.
func (req *request) readConfiguration() error {
	c := &req.apply
	c.Kind, c.Scope = req.config, req.scope
	switch method := req.event.Method; method {
	case "", "PUT":
	case "DELETE":
		c.Delete = true
	default:
		return cloudevent.Errorf(cloudevent.KindPropertyInvalid, "method %.64q: want PUT, DELETE or none", method)
	}
	if !c.Delete {
		if err := isa95.CheckNewScope(req.scope); err != nil {
			return err
		}
	}
	data := req.event.Data
	switch req.config {
	case isa95.ConfigJobAcceptance:
		return req.readAcceptance(data)
	case isa95.ConfigWorkMaster:
		return req.readWorkMaster(data)
	case isa95.ConfigMaterialClass:
		return readKey(req, "MaterialClassID", func(m isa95.Material) string { return m.MaterialClassID })
	case isa95.ConfigMaterialDefinition:
		return readKey(req, "MaterialDefinitionID", func(m isa95.Material) string { return m.MaterialDefinitionID })
	case isa95.ConfigPersonnel:
		return readKey(req, "ID", func(p isa95.Personnel) string { return p.ID })
	case isa95.ConfigPhysicalAsset:
		return readKey(req, "ID", func(a isa95.PhysicalAsset) string { return a.ID })
	}
	return readKey(req, "ID", func(e isa95.Equipment) string { return e.ID })
}

// readKey reads a resource and keeps its key field.
func readKey[T any](req *request, field string, key func(T) string) error {
	var body T
	if err := isa95.Receive(req.event.Data, &body, req.unknownInConfiguration()); err != nil {
		return err
	}
	if req.apply.ID = key(body); req.apply.ID == "" {
		return missing(field)
	}
	return req.newName(field, req.apply.ID)
}

// unknownInConfiguration: what is taken away may be called by an old body.
func (req *request) unknownInConfiguration() isa95.UnknownMembers {
	if req.apply.Delete {
		return isa95.IgnoreUnknown
	}
	return req.unknown
}

// newName checks a name that a configuration event brings in; one that it takes away may be as it is.
func (req *request) newName(kind, name string) error {
	if req.apply.Delete {
		return nil
	}
	return isa95.CheckNewName(kind, name)
}

func (req *request) readAcceptance(data []byte) error {
	if req.apply.Delete {
		return nil
	}
	var body isa95.JobAcceptance
	if err := isa95.Receive(data, &body, req.unknown); err != nil {
		return err
	}
	req.apply.Limit = int64(body.MaxDownloadableJobOrders)
	if req.apply.Limit < 0 {
		return cloudevent.Errorf(cloudevent.KindPropertyInvalid, "max_downloadable_job_orders is %d, must be 0 or more", req.apply.Limit)
	}
	return nil
}

// readWorkMaster also checks a recipe of ours, so that a broken one is refused here and not found out by a job order that
// names it. Work masters with other data are left to other programs.
func (req *request) readWorkMaster(data []byte) error {
	var body isa95.WorkMaster
	if err := isa95.Receive(data, &body, req.unknownInConfiguration()); err != nil {
		return err
	}
	if body.ID == "" {
		return missing("ID")
	}
	if _, err := isa95.ParseWorkMasterID(body.ID); err != nil {
		return err
	}
	if err := req.newName("WorkMasterID", body.ID); err != nil {
		return err
	}
	req.apply.ID = body.ID
	if req.apply.Delete {
		return nil
	}
	req.apply.WorkMaster = &body
	if body.DataSchema == recipe.SchemaURI {
		return req.readRecipe(body.Data)
	}
	return req.readForeign(&body)
}

// readForeign looks at a work master for other programs: its job orders wait for them. One that was meant for Takt is refused if its dataschema is misspelt, and taken with a
// warning if it has none.
func (req *request) readForeign(body *isa95.WorkMaster) error {
	switch {
	case body.DataSchema != "" && plainURI(body.DataSchema) == plainURI(recipe.SchemaURI):
		return cloudevent.Errorf(cloudevent.KindPropertyInvalid, "dataschema %q is not known, did you mean %s?", body.DataSchema, recipe.SchemaURI)
	case body.DataSchema == "" && recipe.Resembles(body.Data):
		req.warnings = append(req.warnings, fmt.Sprintf("data has Steps, Transitions and Actions, but without a dataschema Takt carries nothing out: for a recipe of Takt set it to %s", recipe.SchemaURI))
	}
	return nil
}

// plainURI leaves out what is easily mistyped in a URI: its scheme, case, and a slash at its end.
func plainURI(uri string) string {
	_, after, ok := strings.Cut(strings.ToLower(uri), "://")
	if !ok {
		after = strings.ToLower(uri)
	}
	return strings.Trim(strings.TrimSpace(after), "/")
}

// readRecipe checks a recipe of ours by the rules for a delivery. What is no reason to refuse it is a warning for the
// sender.
func (req *request) readRecipe(data []byte) error {
	var wrong []string
	kind := cloudevent.KindPropertyInvalid // of members that are not known; any other finding is about the payload
	for _, f := range recipe.Check(data, recipe.Options{AllowUnknown: req.unknown != isa95.RefuseUnknown}) {
		text := fmt.Sprintf("%s at %q: %s", f.Code, f.Pointer, f.Message)
		if f.Severity != recipe.SeverityError {
			req.warnings = append(req.warnings, text)
			continue
		}
		wrong = append(wrong, text)
		if f.Code != recipe.RuleUnknownMember {
			kind = cloudevent.KindPayloadInvalid
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return cloudevent.Errorf(kind, "the recipe in data cannot run; %s", strings.Join(wrong, "; "))
}
