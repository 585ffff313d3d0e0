package jobcontrol_test

import (
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
)

// A full Redis is named to the MES at once, without waiting for HoldWhenAway. Clear and Cancel make room, so they are
// carried out; a refused Store is carried out under the same id when there is room.
func TestFullRedisIsNamedAtOnce(t *testing.T) {
	const hold = 10 * time.Minute // longer than the test may take
	p := plantOn(t, testenv.StartRedis(t, embedded.RedisOptions{}), storeOptions(), jobcontrol.Options{HoldWhenAway: hold})
	p.do(t, isa95.Store, order("JO-cancel"), isa95.NoError)
	p.do(t, isa95.StoreAndStart, order("JO-clear"), isa95.NoError)
	p.do(t, isa95.Abort, "JO-clear", isa95.NoError)
	p.redis(t, "CONFIG", "SET", "maxmemory", "1")
	store := call(isa95.Store, order("JO-1"))
	for range 2 {
		reply := p.answer(t, store)
		if reply.ErrorKind != cloudevent.KindServiceUnavailable || len(reply.Data) != 0 || !strings.Contains(reply.ErrorMessage, "Redis is out of memory (OOM)") {
			t.Errorf("%s %q %s", reply.ErrorKind, reply.ErrorMessage, reply.Data)
		}
	}
	p.do(t, isa95.Cancel, "JO-cancel", isa95.NoError)
	p.do(t, isa95.Clear, "JO-clear", isa95.NoError)
	if got := p.state(t, "JO-1"); got != "" {
		t.Errorf("the refused order is %s", got)
	}
	p.redis(t, "CONFIG", "SET", "maxmemory", "0")
	wantStatus(t, p.answer(t, store), isa95.NoError)
	p.redis(t, "DEL", p.keys.SfcWork())
	p.wantSound(t)
}

// A right that is withdrawn is no fault of the command. It waits; then the answer is SERVICE_UNAVAILABLE with the reason, and no
// ReturnStatus. Once the right is back, a repeat under the same id is carried out.
func TestWithdrawnRightIsNamed(t *testing.T) {
	long.Test(t, "waits until a command is given up")
	const hold = time.Second
	env := testenv.StartRedis(t, embedded.RedisOptions{})
	rights := func(rule string) {
		if err := env.Client.Do(t.Context(), env.Client.B().Arbitrary("ACL", "SETUSER", "takt", "on", ">secret", "~*", "&*", rule).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	rights("+@all")
	p := plantOn(t, env, jobstore.Options{URL: strings.Replace(env.URL, "redis://", "redis://takt:secret@", 1)}, jobcontrol.Options{HoldWhenAway: testenv.Patience})
	hurried := p.hurried(hold, nil)
	p.do(t, isa95.Store, order("JO-0"), isa95.NoError)
	rights("-evalsha")
	store, silent := call(isa95.Store, order("JO-1")), call(isa95.Start, "JO-0")
	if reply := hurried.answer(t, store); reply.ErrorKind != cloudevent.KindServiceUnavailable || len(reply.Data) != 0 ||
		!strings.Contains(reply.ErrorMessage, "NOPERM") || strings.Contains(reply.ErrorMessage, "secret") {
		t.Errorf("%s %q %s", reply.ErrorKind, reply.ErrorMessage, reply.Data)
	}
	silent.Delivery.ResponseTopic = ""
	if reply, err := hurried.Handle(t.Context(), silent); reply != nil || !jobstore.Waits(err) {
		t.Errorf("reply %v, err %v: nobody would repeat it, so it must not be taken for handled", reply, err)
	}
	rights("+@all")
	wantStatus(t, p.answer(t, store), isa95.NoError)
	p.wantSound(t)
}
