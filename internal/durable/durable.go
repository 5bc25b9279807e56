// Package durable writes files and directories so that they survive a power
// loss. It owns the order of system calls that this takes, and nothing else:
// what stands in a file is its caller's.
//
// A file gets its name only when its bytes are on the disk, and the name is on
// the disk when the call returns: after a crash at any point there is the old
// file or the new one, never a part of one. Above each function stands the
// trace of system calls that it must make on Linux; TestTraces compares them.
//
// BUG(durable): a temporary file of a process that was killed stays behind. Its
// name begins with a point and ends in ".tmp"; RemoveTemps takes such files
// away where the caller knows that nobody else writes there.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Mode says what WriteFile does where the name exists already.
type Mode int

const (
	// Create refuses, with an error that is fs.ErrExist.
	Create Mode = iota
	// Replace puts the new file in place of the old one.
	Replace
)

// WriteFile makes the file path with permissions perm from what write puts
// into it. On an error nothing has changed but the error itself: no part of
// the file is left behind.
//
//	openat(DIR/.NAME.*.tmp, O_RDWR|O_CREAT|O_EXCL|O_CLOEXEC, 0600)
//	fchmod
//	write …
//	fsync(file)
//	renameat2(…, RENAME_NOREPLACE) or renameat
//	openat(DIR), fsync(dir)
func WriteFile(path string, perm fs.FileMode, mode Mode, write func(*os.File) error) (err error) {
	f, err := Temp(path, perm)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	if err := Publish(f.Name(), path, mode); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("close %s: %w", path, err)
	}
	return nil
}

// Temp makes an empty temporary file beside path, so that it can be renamed to
// it. The caller syncs and publishes it, or closes and removes it.
func Temp(path string, perm fs.FileMode) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return nil, fmt.Errorf("make temporary file for %s: %w", path, err)
	}
	if err := f.Chmod(perm); err != nil {
		f.Close()
		os.Remove(f.Name())
		return nil, fmt.Errorf("make temporary file for %s: %w", path, err)
	}
	return f, nil
}

// Publish gives the synced file temp, which Temp made, its name path.
//
//	renameat2(…, RENAME_NOREPLACE) or renameat
//	openat(DIR), fsync(dir)
func Publish(temp, path string, mode Mode) error {
	rename := os.Rename
	if mode == Create {
		rename = renameNew
	}
	if err := rename(temp, path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s exists already and is left as it is: %w", path, fs.ErrExist)
		}
		return fmt.Errorf("name %s: %w", path, err)
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes the names in dir durable.
//
//	openat(DIR), fsync(dir)
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

// MkdirAll makes dir and the parents that it lacks, each with permissions
// perm, and makes their names durable.
//
//	mkdirat, openat(PARENT), fsync(parent), for each that was made
func MkdirAll(dir string, perm fs.FileMode) error {
	switch info, err := os.Stat(dir); {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("make directory %s: a file stands there", dir)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("make directory: %w", err)
	}
	parent := filepath.Dir(dir)
	if err := MkdirAll(parent, perm); err != nil {
		return err
	}
	if err := os.Mkdir(dir, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make directory: %w", err)
	}
	return SyncDir(parent)
}

// Remove removes the file path and makes that durable. A file that is not
// there is no error.
//
//	unlinkat, openat(DIR), fsync(dir)
func Remove(path string) error {
	// os.Remove would try a directory as well.
	if err := unix.Unlink(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove: %w", &fs.PathError{Op: "unlink", Path: path, Err: err})
	}
	return SyncDir(filepath.Dir(path))
}

// RemoveTemps removes the temporary files that a killed process left beside
// path. The caller holds the lock that keeps other writers of path away.
func RemoveTemps(path string) error {
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("remove temporary files: %w", err)
	}
	for _, e := range entries {
		if n := e.Name(); strings.HasPrefix(n, "."+base+".") && strings.HasSuffix(n, ".tmp") {
			if err := os.Remove(filepath.Join(dir, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove temporary file: %w", err)
			}
		}
	}
	return nil
}
