package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/jobstore"
)

// brokerEvery is how often watchBroker looks at what the broker said last.
const brokerEvery = 5 * time.Second

// brokerFit names what the broker lacks of what Takt cannot do without, as it said when the connections were made; nil = nothing, or there was no connection yet.
// It is part of /readyz.
func (p *parts) brokerFit(context.Context) error {
	var errs []error
	if facts := p.publish.Facts(); !facts.Since.IsZero() {
		for _, d := range diagnoseBroker(facts) {
			if d.Grade == jobstore.Bad {
				errs = append(errs, fmt.Errorf("%s: %s; %s", d.Subject, d.Found, d.Next))
			}
		}
	}
	if facts := p.receive.Facts(); p.sc.SessionExpiry > 0 && !facts.Since.IsZero() && facts.SessionExpiry == 0 {
		errs = append(errs, errors.New("broker: sessions: not kept: what comes while this instance is away is lost; allow them in the broker's settings, or set --session-expiry 0 if that may be"))
	}
	return errors.Join(errs...)
}

// watchBroker logs what brokerFit says, whenever that changes, until ctx ends.
func (p *parts) watchBroker(ctx context.Context) error {
	last := ""
	for p.publish.Ready(ctx) == nil && p.receive.Ready(ctx) == nil {
		switch err := p.brokerFit(ctx); {
		case err != nil && err.Error() != last:
			last = err.Error()
			p.log.Error("the broker is unfit for Takt: this process is not ready while it is", "err", err)
		case err == nil && last != "":
			last = ""
			p.log.Info("the broker is fit for Takt now")
		}
		if !lifecycle.Sleep(ctx, brokerEvery) {
			break
		}
	}
	<-ctx.Done()
	return nil
}
