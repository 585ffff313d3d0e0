package redis

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/lifecycle"
)

const (
	subscribePause = 50 * time.Millisecond // before a lost subscription is made anew; it doubles up to
	subscribeMost  = time.Second
	subscribeCall  = 5 * time.Second
)

// Subscribe calls message for everything published on a channel until ctx ends, over lost connections too; ready is called after each time that the
// subscription is there, for what was published before that is lost. Calls come one at a time and must not block. log may be nil.
func Subscribe(ctx context.Context, rdb rueidis.Client, channel string, ready func(), message func(string), log *slog.Logger) {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	pause := subscribePause
	for ctx.Err() == nil {
		err := subscribeOnce(ctx, rdb, channel, func() { pause = subscribePause; ready() }, message)
		if ctx.Err() != nil {
			return
		}
		level := slog.LevelDebug
		if pause == subscribePause && Denied(err) { // it lasts: say so once
			level = slog.LevelWarn
		}
		log.Log(ctx, level, "redis: subscription lost; it is tried again until it is there", "channel", channel, "error", err)
		lifecycle.Sleep(ctx, pause)
		pause = min(2*pause, subscribeMost)
	}
}

var errUnsubscribed = errors.New("the subscription has ended")

func subscribeOnce(ctx context.Context, rdb rueidis.Client, channel string, ready func(), message func(string)) error {
	conn, release := rdb.Dedicate()
	defer release()
	lost := conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { message(m.Message) }})
	call, cancel := context.WithTimeout(ctx, subscribeCall)
	err := conn.Do(call, rdb.B().Subscribe().Channel(channel).Build()).Error()
	cancel()
	if err != nil {
		return err
	}
	ready()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-lost:
		if err == nil {
			err = errUnsubscribed
		}
		return err
	}
}
