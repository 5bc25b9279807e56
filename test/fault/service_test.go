//go:build fault

package fault

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-audit/docket/store/storetest"
	"github.com/docket-audit/docket/verify"
)

// docket runs the command line against a data folder.
func docket(t *testing.T, data string, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "docket"), append(args, "--data", data)...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// service starts docketd, under strace with inject where that is given, and
// returns when it listens.
func service(t *testing.T, data, inject, log string) *exec.Cmd {
	t.Helper()
	args := []string{filepath.Join(bin, "docketd"), "run", "--data", data, "--listen", "127.0.0.1:0"}
	if inject != "" {
		args = append([]string{"strace", "-f", "-y", "-s", "64", "-o", log, "-e", "trace=" + traced, "-e", "signal=none", "-e", "inject=" + inject}, args...)
	}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("docketd said:\n%s", stderr.String())
		}
	})
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); !strings.HasPrefix(line, "listening ") {
		t.Fatal(line, err)
	}
	return cmd
}

// The service as it is built: a sync of the data or of the meta page fails, it
// answers no append after that and exits with 74, and its next start examines
// the file and goes on with everything that was acknowledged.
func TestServiceStorageError(t *testing.T) {
	for _, n := range []int{11, 12, 21, 22} {
		t.Run(fmt.Sprint("fdatasync ", n), func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "data")
			path := filepath.Join(data, "ledger.db")
			if r := run(t, nil, "docketd", "init", "--data", data); r.code != 0 {
				t.Fatal(r.out)
			}
			log := filepath.Join(t.TempDir(), "trace")
			daemon := service(t, data, fmt.Sprintf("fdatasync:error=EIO:when=%d", n), log)
			acked := 0
			for ; acked < 50; acked++ {
				if _, code := docket(t, data, "append", "--type", "tool.call", "--key", fmt.Sprint("k", acked)); code != 0 {
					break
				}
			}
			if out, code := docket(t, data, "append", "--type", "tool.call"); code == 0 {
				t.Errorf("the second append: %s", out)
			}
			_ = daemon.Wait()
			if code := daemon.ProcessState.ExitCode(); code != 74 {
				t.Errorf("exit code %d", code)
			}
			b, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			r := result{trace: strings.Split(string(b), "\n")}
			at := r.injected()
			if at < 0 {
				t.Fatal("the fault did not fire")
			}
			for _, line := range r.trace[at+1:] {
				if writes(line, path) {
					t.Errorf("after the first error: %s", line)
				}
			}

			daemon = service(t, data, "", "")
			// What was sent and not answered is sent again: one event.
			for i := range acked + 1 {
				if out, code := docket(t, data, "append", "--type", "tool.call", "--key", fmt.Sprint("k", i)); code != 0 {
					t.Errorf("sent again: %s", out)
				}
			}
			out, code := docket(t, data, "export", "--json")
			if code != 0 {
				t.Fatal(out)
			}
			for i := range acked + 1 {
				if got := strings.Count(out, fmt.Sprintf(`"key":"k%d"`, i)); got != 1 {
					t.Errorf("key k%d stands %d times", i, got)
				}
			}
			if err := daemon.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			if err := daemon.Wait(); err != nil {
				t.Error(err)
			}
			storetest.Check(t, path, verify.Intact)
		})
	}
}
