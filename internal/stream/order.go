package stream

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"
)

// readNow reads what is there, without waiting, and says how many entries that were.
func (s *session) readNow(run context.Context, rooms []int, ready int) (n int, err error) {
	asks, room := s.inOrder(rooms), rooms[len(rooms)-1]
	if s.mixed && ready >= plainFrom {
		asks = s.byShare(room)
	}
	got, err := s.readParts(run, asks)
	if err != nil {
		return 0, err
	}
	asked, had := make([]bool, len(rooms)), make([]bool, len(rooms))
	streams := 0
	for i, a := range asks {
		asked[a.stream] = asked[a.stream] || n < a.upto
		if got[i] > 0 && !had[a.stream] {
			had[a.stream] = true
			streams++
		}
		n += got[i]
	}
	if n < room || streams < 2 && !slices.Contains(asked, false) {
		s.mixed = false // that was all there is, or all there is is in one stream
	}
	return n, nil
}

// ask is a part of a read: of a stream, until it and the parts before it have brought upto entries together.
type ask struct{ stream, upto int }

// inOrder asks for the first streams in order that have something.
func (s *session) inOrder(rooms []int) (asks []ask) {
	for _, i := range s.held.first() {
		if rooms[i] > 0 {
			asks = append(asks, ask{i, rooms[i]})
		}
	}
	return asks
}

// byShare asks of each stream for as many as are to be begun of it while all have enough; and for more, in order, should one have less.
func (s *session) byShare(room int) (asks []ask) {
	upto := 0
	for i, n := range s.held.shares(room) {
		if upto += n; n > 0 {
			asks = append(asks, ask{i, upto})
		}
	}
	for _, i := range s.held.first() {
		asks = append(asks, ask{i, room})
	}
	return asks
}

// readParts says how many entries each part brought. One round trip.
func (s *session) readParts(run context.Context, asks []ask) (got []int, err error) {
	if len(asks) == 0 {
		return nil, nil
	}
	ctx, cancel := call(run, 0)
	defer cancel()
	w := s.g.Worker
	var buckets []string
	keys := make([]string, len(asks))
	args := []string{s.g.Name, w.id}
	for i, a := range asks {
		rate, bucket := s.rate(a.stream)
		if rate > 0 {
			buckets = append(buckets, bucket)
		}
		keys[i] = s.g.Streams[a.stream]
		args = append(args, strconv.Itoa(a.upto), strconv.FormatFloat(max(rate, 0), 'f', -1, 64))
	}
	reply, err := readScript.Run(ctx, w.rdb, append(keys, buckets...), args...).ToArray()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, err
	}
	got = make([]int, len(asks))
	for _, part := range reply {
		pair, err := parts(part, 2)
		if err != nil {
			return nil, fmt.Errorf("read.lua: %w", err)
		}
		at, err := pair[0].AsInt64()
		if err != nil {
			return nil, fmt.Errorf("read.lua replied no stream: %w", err)
		}
		if at < 1 || int(at) > len(asks) {
			return nil, fmt.Errorf("read.lua replied part %d of %d", at, len(asks))
		}
		if got[at-1], err = s.take(asks[at-1].stream, pair[1]); err != nil {
			return nil, fmt.Errorf("read.lua: %w", err)
		}
	}
	return got, nil
}
