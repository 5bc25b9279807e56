package engine_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/engine"
)

// crashEnv names the ledger for the child process that is killed.
const crashEnv = "DOCKET_TEST_CRASH_LEDGER"

// crashChild leaves three calls open, one settled, and waits to be killed.
func crashChild(path string) {
	ctx := context.Background()
	e, err := engine.Open(ctx, engine.Options{Path: path})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	for i := range 4 {
		c, err := e.Begin(ctx, spec("r"))
		if err == nil && i == 1 {
			_, err = c.Respond(response(7))
		}
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	fmt.Println("ready")
	select {}
}

func TestCallsOfACrashAreSettledBeforeAnythingNew(t *testing.T) {
	path, signer := newLedger(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), crashEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("child: %q %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()

	e := open(t, path, signer)
	list := events(t, e)
	settled := map[uint64]string{}
	started := 0
	for _, ev := range list {
		switch ev.Type {
		case chain.TypeResponse:
			settled[ev.Call] = ev.Type
		case chain.TypeFailed:
			settled[ev.Call] = fmt.Sprint(ev.Type, " ", ev.content["reason"], " ", ev.content["upstream"])
		case chain.TypeServiceStart:
			started++
			if started == 2 && (ev.content["recovered"] != 3.0 || ev.content["clean"] != false) {
				t.Errorf("service.started %v", ev.content)
			}
		}
	}
	if started != 2 {
		t.Errorf("%d starts", started)
	}
	requests := 0
	for _, ev := range list {
		if ev.Type != chain.TypeRequest {
			continue
		}
		requests++
		want := "model.failed crash anthropic"
		if requests == 2 {
			want = chain.TypeResponse
		}
		if settled[ev.Seq] != want {
			t.Errorf("call %d: %q, want %q", ev.Seq, settled[ev.Seq], want)
		}
	}
	r, err := e.CloseRun(t.Context(), "r", engine.CloseSpec{})
	if err != nil || r.Totals.Calls != 1 || r.Totals.Failed != 3 {
		t.Errorf("%+v %v", r.Totals, err)
	}
}
