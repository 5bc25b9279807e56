package store_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/store"
	"go.etcd.io/bbolt"
)

// children are what this test binary does as another process.
var children = map[string]func() int{
	// Opens the ledger, says so, and holds it until its input ends.
	"hold": func() int {
		s, err := store.Open(context.Background(), os.Getenv("LEDGER"), store.Options{Verify: noVerify})
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("open")
		bufio.NewReader(os.Stdin).ReadByte()
		if err := s.Close(); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	},
	// Opens the ledger and says what came of it.
	"try": func() int {
		s, err := store.Open(context.Background(), os.Getenv("LEDGER"), store.Options{})
		if err == nil {
			err = s.Close()
		}
		fmt.Println(err)
		return 0
	},
}

func child(t *testing.T, what, ledger string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "DOCKET_STORE_CHILD="+what, "LEDGER="+ledger)
	cmd.Stderr = os.Stderr
	return cmd
}

// Absent, empty and unreadable are three things, and each has its own words.
// None is changed, and nothing is made.
func TestSixMessages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	noise := make([]byte, 100_000)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	cases := []struct {
		name, path, says string
		err              error
	}{
		{"0 bytes", put("empty.db", nil), "0 bytes", store.ErrNotLedger},
		{"zeros", put("zeros.db", make([]byte, 100_000)), "zeros", store.ErrNotLedger},
		{"random bytes", put("noise.db", noise), "does not begin like a ledger", store.ErrNotLedger},
		{"short", put("short.db", noise[:100]), "does not begin like a ledger", store.ErrNotLedger},
		{"directory", dir, "is a directory", store.ErrNotLedger},
		{"absent", filepath.Join(dir, "absent.db"), "no ledger at", fs.ErrNotExist},
	}
	said := map[string]bool{}
	for _, c := range cases {
		_, err := store.Open(t.Context(), c.path, store.Options{Verify: noVerify})
		if !errors.Is(err, c.err) || !strings.Contains(fmt.Sprint(err), c.says) || !strings.Contains(fmt.Sprint(err), c.path) {
			t.Errorf("%s: %v", c.name, err)
		}
		said[c.says] = true
	}
	if len(said) != 5 {
		t.Errorf("%d different messages", len(said))
	}
	for name, b := range map[string][]byte{"empty.db": nil, "zeros.db": make([]byte, 100_000), "noise.db": noise} {
		if !bytes.Equal(bytesOf(t, filepath.Join(dir, name)), b) {
			t.Errorf("%s was changed", name)
		}
	}
	if got := names(t, filepath.Join(dir, "x")); len(got) != 4 {
		t.Errorf("left in the folder: %v", got)
	}
}

// A file that may not be read says so, in the words of the system.
func TestNoPermission(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "docket")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ledger.db")
	makeLedger(t, path)
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(path, 0)); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		if _, err := store.Open(t.Context(), path, store.Options{}); !errors.Is(err, fs.ErrPermission) {
			t.Error(err)
		}
		return
	}
	// Permissions don't bind root, so somebody else tries; the test binary
	// has to be where they can run it.
	exe := filepath.Join(dir, "test")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(copyFile(self, exe), os.Chmod(exe, 0o755)); err != nil {
		t.Fatal(err)
	}
	try := func() string {
		cmd := child(t, "try", path)
		cmd.Path, cmd.Dir = exe, dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if out := try(); !strings.Contains(out, "permission denied") {
		t.Error(out)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if out := try(); !strings.Contains(out, "belongs to uid 0") {
		t.Error(out)
	}
}

// Links are refused, and what one points at is neither made nor changed.
func TestLinks(t *testing.T) {
	t.Parallel()
	path := newLedger(t)
	link := path + ".link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	dangling, target := path+".dangling", path+".target"
	if err := os.Symlink(target, dangling); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{link, dangling} {
		if _, err := store.Open(t.Context(), p, store.Options{}); !errors.Is(err, store.ErrUnsafeFile) {
			t.Errorf("open %s: %v", p, err)
		}
		if _, err := store.Init(t.Context(), p, store.InitOptions{CreatedBy: "x"}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("init %s: %v", p, err)
		}
	}
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the target of a dangling link: %v", err)
	}
	if err := os.Link(path, path+".hard"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.Context(), path, store.Options{}); !errors.Is(err, store.ErrUnsafeFile) || !strings.Contains(err.Error(), "2 names") {
		t.Error(err)
	}
	fifo := path + ".fifo"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.Context(), fifo, store.Options{}); !errors.Is(err, store.ErrNotLedger) {
		t.Error(err)
	}
}

// A second writer is refused, in this process and in another, with the name of
// the first.
func TestSecondWriter(t *testing.T) {
	t.Parallel()
	path := newLedger(t)
	s := open(t, path)
	holder := fmt.Sprintf("process %d", os.Getpid())
	if _, err := store.Open(t.Context(), path, store.Options{}); !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), holder) {
		t.Error(err)
	}
	out, err := child(t, "try", path).Output()
	if err != nil || !strings.Contains(string(out), "ledger in use") || !strings.Contains(string(out), holder) {
		t.Errorf("%s %v", out, err)
	}
	// The refused ones must not have taken lock or marker from the first.
	mustAppend(t, s, event("x"))
	if _, err := os.Stat(store.MarkerPath(path)); err != nil {
		t.Error(err)
	}
	mustClose(t, s)

	other := child(t, "hold", path)
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "open\n" {
		t.Fatal(line, err)
	}
	holder = fmt.Sprintf("process %d", other.Process.Pid)
	// The system knows who holds it, whatever the marker says.
	if err := os.WriteFile(store.MarkerPath(path), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.Context(), path, store.Options{}); !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), holder) {
		t.Error(err)
	}
	in.Close()
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
	s = open(t, path)
	mustClose(t, s)
}

// However many start at once, one opens the ledger.
func TestStartersAtOnce(t *testing.T) {
	t.Parallel()
	path := newLedger(t)
	for range 20 {
		var wg sync.WaitGroup
		var won atomic.Int32
		start := make(chan struct{})
		tried := make(chan struct{}, 16)
		for range 16 {
			wg.Go(func() {
				<-start
				s, err := store.Open(t.Context(), path, store.Options{})
				tried <- struct{}{}
				if err != nil {
					if !errors.Is(err, store.ErrInUse) {
						t.Error(err)
					}
					return
				}
				won.Add(1)
				for range 16 { // hold it until everybody has tried
					<-tried
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		wg.Wait()
		if got := won.Load(); got != 1 {
			t.Fatalf("%d of 16 opened the ledger", got)
		}
	}
}

// Init makes a ledger whole or not at all, and replaces nothing.
func TestInit(t *testing.T) {
	t.Parallel()
	path := newLedger(t)
	unchanged(t, path, func() {
		if _, err := store.Init(t.Context(), path, store.InitOptions{CreatedBy: "x"}); !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
	})
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	fresh := path + ".2"
	no := errors.New("no")
	_, err := store.Init(t.Context(), fresh, store.InitOptions{CreatedBy: "x", Verify: func(_ context.Context, p string) error {
		if _, err := os.Stat(p); err != nil {
			t.Error(err)
		}
		return no
	}})
	if !errors.Is(err, no) {
		t.Error(err)
	}
	_, err = store.Init(t.Context(), fresh, store.InitOptions{CreatedBy: "x", Verify: func(context.Context, string) error {
		return os.WriteFile(fresh, []byte("came first"), 0o600)
	}})
	if !errors.Is(err, fs.ErrExist) || string(bytesOf(t, fresh)) != "came first" {
		t.Error(err)
	}
	if _, err := store.Init(t.Context(), path+".dir/ledger.db", store.InitOptions{CreatedBy: "x"}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := store.Init(t.Context(), path+".3", store.InitOptions{CreatedBy: "x", Keys: make([]chain.Key, chain.MaxKeys+1)}); !errors.Is(err, chain.ErrForm) {
		t.Error(err)
	}
	if got := names(t, path); len(got) != 2 {
		t.Errorf("left behind: %v", got)
	}
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			_, err := store.Init(t.Context(), path+".4", store.InitOptions{CreatedBy: "x"})
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, fs.ErrExist) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d made the ledger", won.Load())
	}
	checkFile(t, path+".4")
}

// damage opens the database itself and changes it.
func damage(t *testing.T, path string, fn func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: store.PageSize, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(fn), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// filled makes a closed ledger with calls, keys and a run that is open.
func filled(t *testing.T) string {
	t.Helper()
	path := newLedger(t)
	s := open(t, path)
	for i := range 10 {
		if err := recordCall(t.Context(), s, i); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, s, keyed(fmt.Sprint("key-", i), "x"))
	}
	mustAppend(t, s, store.Draft{Header: chain.Header{
		Type: chain.TypeRequest, Run: "run-0", Parts: map[string]chain.Part{"request": {Media: "x/y"}},
	}})
	mustClose(t, s)
	return path
}

// A damaged file is refused, with nothing changed, and its lock is free again.
func TestDamagedFileIsRefused(t *testing.T) {
	t.Parallel()
	whole := bytesOf(t, filled(t))
	events := func(tx *bbolt.Tx) *bbolt.Bucket { return tx.Bucket([]byte(chain.BucketEvents)) }
	flip := func(tx *bbolt.Tx, seq uint64, at int) error {
		v := bytes.Clone(events(tx).Get(chain.SeqKey(seq)))
		v[at%len(v)] ^= 1
		return events(tx).Put(chain.SeqKey(seq), v)
	}
	for name, fn := range map[string]func(*bbolt.Tx) error{
		"no events": func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(chain.BucketEvents)) },
		"no meta":   func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(chain.BucketMeta)) },
		"no schema": func(tx *bbolt.Tx) error { return tx.Bucket([]byte(chain.BucketMeta)).Delete([]byte(chain.KeySchema)) },
		"newer": func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(chain.BucketMeta)).Put([]byte(chain.KeySchema), chain.EncodeSchema(99))
		},
		"no first event":  func(tx *bbolt.Tx) error { return events(tx).Delete(chain.SeqKey(1)) },
		"a hole":          func(tx *bbolt.Tx) error { return events(tx).Delete(chain.SeqKey(7)) },
		"cut":             func(tx *bbolt.Tx) error { return events(tx).Delete(chain.SeqKey(32)) },
		"foreign key":     func(tx *bbolt.Tx) error { return events(tx).Put([]byte("zzz"), []byte("x")) },
		"foreign number":  func(tx *bbolt.Tx) error { return events(tx).Put(chain.SeqKey(99), []byte("x")) },
		"header changed":  func(tx *bbolt.Tx) error { return flip(tx, 9, 60) },
		"hash changed":    func(tx *bbolt.Tx) error { return flip(tx, 9, 3) },
		"content changed": func(tx *bbolt.Tx) error { return flip(tx, 9, -1+1<<20) },
		"last changed":    func(tx *bbolt.Tx) error { return flip(tx, 32, 60) },
		"swapped": func(tx *bbolt.Tx) error {
			a, b := bytes.Clone(events(tx).Get(chain.SeqKey(4))), bytes.Clone(events(tx).Get(chain.SeqKey(5)))
			return errors.Join(events(tx).Put(chain.SeqKey(4), b), events(tx).Put(chain.SeqKey(5), a))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ledger.db")
			if err := writeFile(path, whole); err != nil {
				t.Fatal(err)
			}
			damage(t, path, fn)
			for range 2 { // the second time, the lock must be free
				unchanged(t, path, func() {
					s, err := store.Open(t.Context(), path, store.Options{Verify: noVerify})
					if err == nil || errors.Is(err, store.ErrInUse) {
						t.Fatalf("%v", err)
					}
					if s != nil {
						t.Error("a store")
					}
				})
			}
			if got := names(t, path); len(got) != 1 {
				t.Errorf("left behind: %v", got)
			}
		})
	}
}

// Pages that were lost or cut are noticed before bbolt maps them, or its panic
// is an error; the lock is free again, and no byte has changed.
func TestDamagedPages(t *testing.T) {
	t.Parallel()
	path := filled(t)
	whole := bytesOf(t, path)
	pages := 0
	for i := 2; i*store.PageSize < len(whole); i++ {
		if !bytes.Equal(whole[i*store.PageSize:][:16], make([]byte, 16)) {
			pages = i + 1
		}
	}
	t.Logf("%d pages", pages)
	try := func(what string, b []byte, mustFail bool) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		refused := true
		for range 2 { // where it is refused, the lock must be free after it
			if !refused {
				break
			}
			unchanged(t, path, func() {
				s, err := store.Open(t.Context(), path, store.Options{Verify: noVerify})
				refused = err != nil
				switch {
				case err == nil && mustFail:
					t.Errorf("%s: opened", what)
				case errors.Is(err, store.ErrInUse):
					t.Errorf("%s: %v", what, err)
				}
				if s != nil {
					// It was in unused space, or derived and rebuilt.
					if got := s.Head().Seq; got != 32 {
						t.Errorf("%s: %d events", what, got)
					}
					mustClose(t, s)
					if err := os.WriteFile(path, b, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
	for i := range 2 {
		b := bytes.Clone(whole)
		clear(b[i*store.PageSize:][:store.PageSize])
		try(fmt.Sprintf("meta %d zeroed", i), b, true)
		b = bytes.Clone(whole)
		b[i*store.PageSize+60] ^= 4
		try(fmt.Sprintf("meta %d flipped", i), b, true)
	}
	for i := 2; i < pages; i++ {
		try(fmt.Sprintf("cut at page %d", i), whole[:i*store.PageSize], true)
		b := bytes.Clone(whole)
		clear(b[i*store.PageSize:][:store.PageSize])
		try(fmt.Sprintf("page %d zeroed", i), b, false)
		b = bytes.Clone(whole)
		for j := range 16 {
			b[i*store.PageSize+j] ^= 0xff
		}
		try(fmt.Sprintf("page %d without its header", i), b, false)
	}
	b := bytes.Clone(whole)
	for i := range 2 { // a free list that bbolt would not have synced
		b[i*store.PageSize+48] = 0xff
	}
	try("free list", b, true)
}

// A database of somebody else is no ledger.
func TestForeignDatabase(t *testing.T) {
	t.Parallel()
	for _, size := range []int{4096, store.PageSize} {
		path := filepath.Join(t.TempDir(), "other.db")
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: size})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		unchanged(t, path, func() {
			if _, err := store.Open(t.Context(), path, store.Options{Verify: noVerify}); err == nil {
				t.Error("opened")
			}
		})
	}
}
