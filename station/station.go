package station

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mqtt"
)

// Options of a Station. The zero value of a field means its default.
type Options struct {
	Equipment *Equipment // how it behaves; required

	// MQTT is the broker and how to reach it. ClientID is that of the receiving connection, default
	// takt-station-{first scope}; the publishing one adds -pub. SessionExpiry is how long the broker keeps commands while
	// the station is away, default 24 h.
	MQTT mqtt.Options

	TopicPrefix string // default takt

	// LogFile is the station's log and its memory over a restart; mode 0600, JSON lines. "" = no memory. One station per
	// file.
	LogFile string

	// OnLog is called with every entry, one at a time and in order. It must not block. Default: nobody is told.
	OnLog func(Entry)

	Log *slog.Logger // default slog.Default()
}

// Station is simulated equipment. Make it with New and let Run hold it.
type Station struct {
	o         Options
	log       *slog.Logger
	recv, pub *mqtt.Conn
	ctx       context.Context // of Run
	running   sync.WaitGroup  // work, answers and events under way

	mu     sync.Mutex
	open   bool // Run takes work
	file   *logFile
	failed error              // of the log
	stop   context.CancelFunc // of Run
	memory
}

// New checks the options and makes a Station that does nothing before Run.
func New(o Options) (*Station, error) {
	if o.Equipment == nil {
		return nil, errors.New("station: Options.Equipment: missing")
	}
	if o.TopicPrefix == "" {
		o.TopicPrefix = "takt"
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.MQTT.Log == nil {
		o.MQTT.Log = o.Log
	}
	if o.MQTT.ClientID == "" {
		o.MQTT.ClientID = "takt-station-" + string(o.Equipment.Scopes[0])
	}
	if o.MQTT.SessionExpiry == 0 {
		o.MQTT.SessionExpiry = 24 * time.Hour
	}
	s := &Station{o: o, log: o.Log, memory: newMemory(o.Equipment)}
	var err error
	if s.recv, err = mqtt.New(o.MQTT); err != nil {
		return nil, fmt.Errorf("station: %w", err)
	}
	pub := o.MQTT
	pub.ClientID, pub.SessionExpiry = o.MQTT.ClientID+"-pub", 0
	if s.pub, err = mqtt.New(pub); err != nil {
		return nil, fmt.Errorf("station: %w", err)
	}
	for _, scope := range o.Equipment.Scopes {
		err := s.recv.Subscribe(context.Background(), mqtt.Subscription{
			Filter: s.topic(scope, "commands"), QoS: 1,
			Handle: func(_ context.Context, in *mqtt.Inbound) { s.take(scope, in) },
		})
		if err != nil {
			return nil, fmt.Errorf("station: %w", err)
		}
	}
	return s, nil
}

// Ready waits until the station hears commands and can answer, or ctx ends.
func (s *Station) Ready(ctx context.Context) error {
	if err := s.recv.Ready(ctx); err != nil {
		return fmt.Errorf("station: %w", err)
	}
	if err := s.pub.Ready(ctx); err != nil {
		return fmt.Errorf("station: %w", err)
	}
	return nil
}

// Run is the station at work until ctx ends. What is under way then is left: a new station with the same log goes on
// with it. An error is one of the log file, without which the station must not go on. Run it once.
func (s *Station) Run(ctx context.Context) error {
	var past []Entry
	if s.o.LogFile != "" {
		var err error
		if s.file, past, err = openLog(s.o.LogFile); err != nil {
			return err
		}
	}
	ctx, s.stop = context.WithCancel(ctx)
	defer s.stop()
	s.ctx = ctx
	s.recall(past, time.Now())

	s.mu.Lock()
	s.open = true
	for _, r := range s.ages {
		s.resume(r)
	}
	for _, supply := range s.supplies {
		s.running.Go(func() { s.supply(ctx, supply) })
	}
	s.mu.Unlock()

	// Not before it is open: a command that take leaves comes again only on another connection.
	connected, disconnect := context.WithCancel(context.WithoutCancel(ctx))
	var conns sync.WaitGroup
	conns.Go(func() { _ = s.recv.Run(connected) }) // Run of a Conn fails only when called twice
	conns.Go(func() { _ = s.pub.Run(connected) })

	<-ctx.Done()
	s.mu.Lock()
	s.open = false
	s.mu.Unlock()
	s.running.Wait()
	disconnect()
	conns.Wait()
	return errors.Join(s.failed, s.file.close())
}

func (s *Station) topic(scope isa95.Scope, what string) string {
	return topics.Prefix(s.o.TopicPrefix).Equipment(string(scope), what)
}

// write puts an entry into the log and tells it. s.mu is held. A log that cannot be written ends Run: work that is not
// remembered could be done twice.
func (s *Station) write(e Entry) {
	e.Time = time.Now().UTC()
	if err := s.file.append(e); err != nil {
		if s.failed == nil {
			s.failed = err
		}
		s.stop()
		return
	}
	if s.o.OnLog != nil {
		s.o.OnLog(e)
	}
}

// recall fills the memory from the log.
func (s *Station) recall(past []Entry, now time.Time) {
	for i := range past {
		e := &past[i]
		r := s.commands[e.Command]
		switch e.Kind {
		case Received:
			if now.Sub(e.Time) < remember && s.o.Equipment.commands[e.Type] != nil {
				s.add(command{
					ID: e.Command, Type: e.Type, Subject: e.Subject, Correlation: e.Correlation, Scope: isa95.Scope(e.Scope),
					Order: e.Order, Action: e.Action, Attempt: e.Attempt, Parameters: e.Body, Cancels: e.Cancels,
				}, e.ResponseTopic, e.CorrelationData, e.Time)
			}
		case Repeated:
			if r != nil {
				r.deliveries++
				r.responseTopic, r.correlationData = e.ResponseTopic, e.CorrelationData
			}
		case Executed:
			if r != nil {
				r.executed, r.result, r.refused = true, e.Body, e.refusal()
			}
		case Answered:
			if r != nil {
				r.answered = true
			}
		case Event:
			if r != nil {
				r.noteSent(e.Event)
			}
			for _, supply := range s.supplies {
				supply.recall(e)
			}
		}
	}
}
