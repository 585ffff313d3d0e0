package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// The broker keeps sessions for every instance, so that one that comes back finds what was sent to it meanwhile. But a
// shared subscription gives its share also to a session whose instance is dead, where it would wait until the session expires.
// So those that live take over the session of one that is dead: they handle what waits in it and end it.

// inherit looks for dead instances until ctx ends. Every instance does; a lease has one of them take a session over.
func (p *parts) inherit(ctx context.Context) error {
	every := time.NewTicker(max(p.sc.WorkerTTL/2, 50*time.Millisecond))
	defer every.Stop()
	for {
		if err := p.inheritOnce(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("sessions of dead instances not taken over yet", "err", err)
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *parts) inheritOnce(ctx context.Context) error {
	if err := p.store.Enlist(ctx, p.sessions()); err != nil { // again and again, for Redis may be a new one
		return err
	}
	dead, err := p.store.Dead(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for session, roles := range dead {
		if !p.canDo(roles) {
			continue // one that has these roles will
		}
		errs = append(errs, p.store.Lease(ctx, strings.TrimSuffix("heir:"+session.Instance+":"+session.Name, ":"), p.sc.WorkerTTL, func(ctx context.Context, _ *jobstore.Lease) error {
			return p.takeOver(ctx, session)
		}))
	}
	return errors.Join(errs...)
}

// sessions are those of this process, with the roles that taking each over needs.
func (p *parts) sessions() map[string]string {
	var roles []string
	for _, role := range []string{roleReceiver, roleEngine} {
		if slices.Contains(p.sc.Roles, role) {
			roles = append(roles, role)
		}
	}
	sessions := map[string]string{commandSession: strings.Join(roles, ",")}
	if slices.Contains(roles, roleEngine) {
		sessions[answerSession] = roleEngine
	}
	return sessions
}

func (p *parts) canDo(roles string) bool {
	for role := range strings.SplitSeq(roles, ",") {
		if role != "" && !slices.Contains(p.sc.Roles, role) {
			return false
		}
	}
	return true
}

// takeOver handles what waits in a session of a dead instance and ends it. If the instance comes back meanwhile, the broker
// gives it the session and closes this connection, and that is an end of it too.
func (p *parts) takeOver(ctx context.Context, session jobstore.Session) error {
	dead, err := p.store.Dead(ctx)
	if err != nil {
		return err
	}
	if _, still := dead[session]; !still {
		return nil // it is back, or another instance was faster
	}
	o := p.cfg.intakeOptions(session, p.sc, p.log)
	o.OneConnection = true
	conn, err := mqtt.New(o)
	if err != nil {
		return err
	}
	intake, err := p.intake(conn, session)
	if err != nil {
		return err
	}
	parts := newGroup(ctx)
	for name, run := range intake {
		parts.start(name, run)
	}
	connection := newGroup(ctx)
	connection.start("session "+o.ClientID, conn.Run)
	err = conn.Ready(connection.ctx)
	if err == nil {
		err = conn.Leave(connection.ctx)
	}
	if err == nil {
		err = p.store.Delist(ctx, session)
	}
	if err := errors.Join(err, parts.stop(), connection.stop()); err != nil {
		return fmt.Errorf("session %s: %w", o.ClientID, err)
	}
	p.log.Info("took over what the broker kept for a dead instance", "dead", session.Instance, "session", o.ClientID)
	return nil
}
