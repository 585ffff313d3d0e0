package interop_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/taktworks/takt/board"
)

const (
	killTTL = 8 * time.Second // of claims whose owners are killed, or their sessions: longer than a few calls of both on a busy machine
	// Takt takes over this long after the time of the claim at the latest: on a quiet machine within a second, on any before the board is read although nothing was heard.
	takeOver = unheard
)

var kills = map[string]func(*world){
	"a killed owner that uses TaskFlow is succeeded by Takt": func(w *world) {
		p := startPeer(w.T)
		if !w.expires {
			w.conf["timeout"] = killTTL.Seconds()
		}
		py := w.openIn(p)
		posted := w.post("one")
		args := map[string]any{"uuid": posted.UUID, "who": "python"}
		if w.expires {
			args["expiry"] = killTTL.Seconds()
		}
		begin := time.Now()
		w.must(py.do("claim", args, nil))
		w.sees(posted, board.Claimed, "python")
		if !w.expires {
			begin = time.Now() // the session lives that long from the last sign of life
		}
		p.kill(w.T)
		w.must(w.b.WaitUnclaimed(w.ctx))
		c, err := w.b.ClaimNext(w.ctx, "takt", board.ClaimOptions{})
		w.must(err)
		took := time.Since(begin)
		if w.expires && took < killTTL || took > killTTL+takeOver {
			w.Errorf("took over after %v, the claim lived for %v", took, killTTL)
		}
		w.Logf("took over %v after the claim's time", took-killTTL)
		w.sees(posted, board.Claimed, c.Owner())
		w.must(c.Consume(w.ctx))
	},

	"a killed owner that uses Takt is succeeded by TaskFlow": func(w *world) {
		posted := w.posted("one")
		owner := w.startOwner(posted.UUID)
		r := w.find(posted.UUID)
		w.sees(posted, board.Claimed, r.Owner)
		w.refused(posted, "python", r.Owner)
		owner()
		w.must(w.b.WaitUnclaimed(w.ctx))
		w.py.claim(posted, "python")
		w.must(w.py.finish("consume", posted, "python"))
		w.sees(posted, board.Complete, "")
	},
}

// ownerRole makes this program one that claims a posting and keeps it.
const ownerRole = "TAKT_TEST_OWNER"

// startOwner starts a process that has claimed a posting, and returns what kills it.
func (w *world) startOwner(uuid string) (kill func()) {
	w.Helper()
	self, err := os.Executable()
	w.must(err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), ownerRole+"="+uuid+" "+w.url)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	w.must(err)
	in, err := cmd.StdinPipe() // it ends with this process
	w.must(err)
	w.must(cmd.Start())
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		in.Close()
	}
	w.Cleanup(kill)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "claimed\n" {
		w.Fatalf("the owner says %q, %v", line, err)
	}
	return kill
}

// runOwner is the process of startOwner.
func runOwner() int {
	uuid, url, _ := strings.Cut(os.Getenv(ownerRole), " ")
	if err := own(context.Background(), uuid, url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func own(ctx context.Context, uuid, url string) error {
	b, err := board.Connect{URL: url, Session: killTTL}.Open(ctx)
	if err != nil {
		return err
	}
	r, err := b.Find(ctx, uuid)
	if err != nil {
		return err
	}
	if _, err := b.Claim(ctx, r.Posting, "takt", board.ClaimOptions{TTL: killTTL}); err != nil {
		return err
	}
	fmt.Println("claimed")
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	return nil
}
