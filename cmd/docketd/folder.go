package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/docket-audit/docket/internal/durable"
	"github.com/docket-audit/docket/receipt"
	"github.com/gofrs/flock"
)

// folder is a data folder. Each method names one of its files.
type folder string

func (f folder) ledger() string  { return filepath.Join(string(f), "ledger.db") }
func (f folder) key() string     { return filepath.Join(string(f), "docketd.key") }
func (f folder) vkey() string    { return filepath.Join(string(f), "docketd.vkey") }
func (f folder) token() string   { return filepath.Join(string(f), "token") }
func (f folder) socket() string  { return filepath.Join(string(f), "docketd.sock") }
func (f folder) address() string { return filepath.Join(string(f), "address") }
func (f folder) config() string  { return filepath.Join(string(f), "docketd.toml") }
func (f folder) lock() string    { return filepath.Join(string(f), "docketd.lock") }

// dataFolder finds the data folder: the flag, $DOCKET_DATA,
// $XDG_STATE_HOME/docket, ~/.local/state/docket.
func dataFolder(flag string) (folder, error) {
	dir := flag
	if dir == "" {
		dir = os.Getenv("DOCKET_DATA")
	}
	if xdg := os.Getenv("XDG_STATE_HOME"); dir == "" && filepath.IsAbs(xdg) {
		dir = filepath.Join(xdg, "docket")
	}
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the data folder: %w; name one with --data", err)
		}
		dir = filepath.Join(home, ".local", "state", "docket")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the data folder: %w", err)
	}
	return folder(abs), nil
}

// check refuses a folder that is missing or that others can reach into.
func (f folder) check() error {
	info, err := os.Stat(string(f))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no data folder %s; make one with docketd init", f)
	case err != nil:
		return fmt.Errorf("look at the data folder: %w", err)
	case !info.IsDir():
		return fmt.Errorf("the data folder %s is no folder", f)
	}
	return private(string(f), info, "chmod 700")
}

// checkLedger refuses a ledger that others can read. What else may be wrong
// with it, the store says.
func (f folder) checkLedger() error {
	info, err := os.Lstat(f.ledger())
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return private(f.ledger(), info, "chmod 600")
}

// private refuses a file or folder that is another user's or open to others.
func private(path string, info fs.FileInfo, remedy string) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to uid %d, this is uid %d", path, st.Uid, os.Geteuid())
	}
	if m := info.Mode().Perm(); m&0o077 != 0 {
		return fmt.Errorf("%s is open to other users (mode %04o); close it: %s %s", path, m, remedy, path)
	}
	return nil
}

// hold takes the folder's lock, which guards everything in it but the ledger,
// whose own lock the store holds. The file stays: only the lock on it counts,
// and what stands in it is for the message of who comes second.
func (f folder) hold() (release func(), err error) {
	l := flock.New(f.lock(), flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	if !ok {
		holder, err := os.ReadFile(f.lock())
		if err != nil || len(holder) == 0 {
			holder = []byte("another process")
		}
		return nil, fmt.Errorf("the data folder %s is in use by %s; stop that first, or use another folder", f, strings.TrimSpace(string(holder)))
	}
	note := fmt.Sprintf("process %d since %s\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	if err := os.WriteFile(f.lock(), []byte(note), 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	return func() { l.Close() }, nil
}

// secret reads a file that only its owner may read.
func secret(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no regular file", path)
	}
	if err := private(path, info, "chmod 600"); err != nil {
		return "", err
	}
	b, err := os.ReadFile(path)
	return string(b), err
}

// tokenDigits is the length of a token: 256 bits in hex.
const tokenDigits = 64

// readToken reads the bearer token of the loopback listener, and makes one
// where there is none: it guards nothing that outlives it.
func (f folder) readToken() (string, error) {
	text, err := secret(f.token())
	if errors.Is(err, fs.ErrNotExist) {
		return f.makeToken()
	}
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSuffix(text, "\n")
	if b, err := hex.DecodeString(token); err != nil || len(token) != tokenDigits || len(strings.Trim(token, "0")) == 0 || hex.EncodeToString(b) != token {
		return "", fmt.Errorf("%s is damaged: it has to hold %d lower-case hex digits; remove it, and the next start makes a new one", f.token(), tokenDigits)
	}
	return token, nil
}

func (f folder) makeToken() (string, error) {
	var b [tokenDigits / 2]byte
	rand.Read(b[:])
	token := hex.EncodeToString(b[:])
	if err := writeText(f.token(), token+"\n", durable.Create); err != nil {
		return "", fmt.Errorf("make the token: %w", err)
	}
	return token, nil
}

// readKey reads the key that signs for the ledger.
func (f folder) readKey() (*receipt.Signer, error) {
	text, err := secret(f.key())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the signing key %s is missing; put it back from where you keep its copy: without it nothing can be signed for this ledger", f.key())
	}
	if err != nil {
		return nil, fmt.Errorf("read the signing key: %w", err)
	}
	s, _, err := receipt.ParseSigner(text)
	if err != nil {
		// The file's content stays out of the message.
		return nil, fmt.Errorf("%s is damaged: %w; put it back from where you keep its copy", f.key(), receipt.ErrKeyFile)
	}
	return s, nil
}

func writeText(path, text string, mode durable.Mode) error {
	return durable.WriteFile(path, 0o600, mode, func(w *os.File) error {
		_, err := w.WriteString(text)
		return err
	})
}
