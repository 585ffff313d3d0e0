package jobcontrol

import (
	"context"
	"fmt"
	"strings"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// configure stores or removes one piece of a station's configuration (spec/machinery-jobs 5.1).
func (r *Receiver) configure(ctx context.Context, req *request) (cloudevent.Event, error) {
	q := jobstore.Query{Source: req.event.Source, ID: req.event.ID, Scope: req.scope}
	if req.config == isa95.ConfigWorkMaster {
		q.Holders = isa95.WorkMasterID(req.apply.ID)
	}
	snap, err := r.load(ctx, req, q)
	if err != nil {
		return cloudevent.Event{}, err
	}
	reply := r.reply(req, verdict{status: isa95.NoError}, r.store.Now())
	return reply, r.store.Configure(ctx, req.apply, snap, &jobstore.Seen{Body: req.event.Data, Reply: &reply})
}

// readConfiguration reads the body of a configuration event. Of the resources only the id is kept. The limit of job
// orders is deleted without looking at the body (D1).
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
	data := req.event.Data
	switch req.config {
	case isa95.ConfigJobAcceptance:
		return req.readAcceptance(data)
	case isa95.ConfigWorkMaster:
		return req.readWorkMaster(data)
	case isa95.ConfigMaterialClass:
		return readKey(data, "MaterialClassID", func(m isa95.Material) string { return m.MaterialClassID }, c)
	case isa95.ConfigMaterialDefinition:
		return readKey(data, "MaterialDefinitionID", func(m isa95.Material) string { return m.MaterialDefinitionID }, c)
	case isa95.ConfigPersonnel:
		return readKey(data, "ID", func(p isa95.Personnel) string { return p.ID }, c)
	case isa95.ConfigPhysicalAsset:
		return readKey(data, "ID", func(a isa95.PhysicalAsset) string { return a.ID }, c)
	}
	return readKey(data, "ID", func(e isa95.Equipment) string { return e.ID }, c)
}

// readKey reads a resource and keeps its key field.
func readKey[T any](data []byte, field string, key func(T) string, c *jobstore.Configuration) error {
	var body T
	if err := isa95.Unmarshal(data, &body); err != nil {
		return err
	}
	if c.ID = key(body); c.ID == "" {
		return missing(field)
	}
	return nil
}

func (req *request) readAcceptance(data []byte) error {
	if req.apply.Delete {
		return nil
	}
	var body isa95.JobAcceptance
	if err := isa95.Unmarshal(data, &body); err != nil {
		return err
	}
	req.apply.Limit = int64(body.MaxDownloadableJobOrders)
	if req.apply.Limit < 0 {
		return cloudevent.Errorf(cloudevent.KindPropertyInvalid, "max_downloadable_job_orders is %d, must be 0 or more", req.apply.Limit)
	}
	return nil
}

// readWorkMaster also checks a recipe of ours, so that a broken one is refused here and not found out by a job order that
// names it (E-S25). Work masters with other data are left to other programs.
func (req *request) readWorkMaster(data []byte) error {
	var body isa95.WorkMaster
	if err := isa95.Unmarshal(data, &body); err != nil {
		return err
	}
	if body.ID == "" {
		return missing("ID")
	}
	if _, err := isa95.ParseWorkMasterID(body.ID); err != nil {
		return err
	}
	req.apply.ID = body.ID
	if req.apply.Delete {
		return nil
	}
	req.apply.WorkMaster = &body
	if body.DataSchema != recipe.SchemaURI {
		return nil
	}
	return brokenRecipe(body.Data)
}

func brokenRecipe(data []byte) error {
	findings := recipe.Check(data)
	if !recipe.HasErrors(findings) {
		return nil
	}
	var text strings.Builder
	for _, f := range findings {
		if f.Severity == recipe.SeverityError {
			fmt.Fprintf(&text, "; %s at %q: %s", f.Code, f.Pointer, f.Message)
		}
	}
	return cloudevent.Errorf(cloudevent.KindPayloadInvalid, "the recipe in data cannot run%s", text.String())
}
