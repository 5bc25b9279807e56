package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/receipt"
)

// Options say what the caller demands and how to work. The zero value demands
// nothing.
type Options struct {
	// Expect are anchors from outside that have to fit.
	Expect []Anchor
	// VKeys are public keys, as the text of docketd.vkey, that have to be
	// the ledger's or have to have witnessed it.
	VKeys []string
	// Workers is how many cores are used; 0 is GOMAXPROCS. With 1 all is done
	// by the caller's goroutine. The report does not depend on it.
	Workers int
	// Progress is called from time to time, at least every half second
	// while reading, with the bytes read and their total; total is 0 where
	// it isn't known. An input that has to be read again begins at 0 again.
	// It is called by one goroutine at a time.
	Progress func(done, total uint64)
	// TempDir is where an input that can't be read at an offset is kept
	// while that is needed; "" is the system's.
	TempDir string

	verifiers []*receipt.Verifier
}

// ErrOptions tells that Options hold something that can't be used.
var ErrOptions = errors.New("options can't be used")

// prepared checks o and fills in what is left out.
func (o Options) prepared() (*Options, error) {
	if o.Workers < 0 {
		return nil, fmt.Errorf("%d workers: %w", o.Workers, ErrOptions)
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	for i, text := range o.VKeys {
		v, err := receipt.ParseVerifier(text)
		if err != nil {
			return nil, fmt.Errorf("read demanded key %d: %w: %w", i+1, ErrOptions, err)
		}
		o.verifiers = append(o.verifiers, v)
	}
	return &o, nil
}

// File verifies a copy of a database, an export (plain or .zst) or a receipt,
// told apart by content. It writes nothing but a temporary file where a
// compressed export has to be read out of order. An error says that path can't
// be read or that ctx ended; everything else is in the report.
func File(ctx context.Context, path string, o Options) (*Report, error) {
	opts, err := o.prepared()
	if err != nil {
		return nil, err
	}
	f, info, err := openRegular(path)
	if errors.Is(err, errIrregular) {
		return nil, fmt.Errorf("open input %s: %w; give - to read a stream", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open input: %w", err)
	}
	defer f.Close()
	in := &input{ra: f, file: f, size: info.Size(), opts: opts}
	r, err := in.verify(ctx)
	if err != nil {
		return nil, err
	}
	if changed, err := in.changed(info); err != nil {
		return nil, err
	} else if changed {
		return unsettled(r.Kind), nil
	}
	return r, nil
}

var errIrregular = errors.New("not a regular file")

// openRegular opens a file and refuses anything else without waiting: a pipe
// that nobody writes to would hold an open for ever.
func openRegular(path string) (*os.File, os.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errIrregular
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// Reader verifies a stream of the same kinds. A long one is kept in a
// temporary file first, which has no name any more while it is read.
func Reader(ctx context.Context, r io.Reader, o Options) (*Report, error) {
	opts, err := o.prepared()
	if err != nil {
		return nil, err
	}
	in, done, err := keep(ctx, r, opts)
	if err != nil {
		return nil, fmt.Errorf("keep input: %w", err)
	}
	defer done()
	return in.verify(ctx)
}

// verify tells by content what the input is and judges it.
func (in *input) verify(ctx context.Context) (*Report, error) {
	kind, err := sniff(in)
	if err != nil {
		return nil, fmt.Errorf("read input: %w", err)
	}
	switch kind {
	case KindDatabase:
		return verifyDatabase(ctx, in)
	case KindReceipt:
		return verifyReceipt(ctx, in)
	case KindExport:
		return verifyExport(ctx, in)
	}
	return foreign(), nil
}

// unsettled is the report on a file that changed while it was read: nothing
// that was found of it means anything.
func unsettled(k Kind) *Report {
	r := newReport(k)
	var l faultList
	l.add(Fault{Verdict: Torn, Seq: 1, Detail: "the file changed while it was read; take a copy first, of a running ledger by docket snapshot", step: stepTorn})
	r.check("form", Skip, "the file changed while it was read")
	r.conclude(&l)
	return r
}

// foreign is the report on what is nothing of docket's.
func foreign() *Report {
	r := newReport(KindUnknown)
	var l faultList
	l.add(Fault{Verdict: Malformed, Seq: 1, Detail: "not a docket file: neither a ledger's database, nor an export, nor a receipt"})
	r.check("form", Fail, "")
	r.conclude(&l)
	return r
}

// progress calls o.Progress, but not more often than needed.
type progress struct {
	call  func(done, total uint64)
	total uint64
	last  time.Time
}

// progressEvery keeps calls apart; half a second is promised.
const progressEvery = 200 * time.Millisecond

func (p *progress) at(done int64) {
	if p.call == nil {
		return
	}
	if now := time.Now(); now.Sub(p.last) >= progressEvery {
		p.last = now
		p.call(uint64(done), p.total)
	}
}

// end reports that all was read.
func (p *progress) end() {
	if p.call != nil {
		p.call(p.total, p.total)
	}
}

// unknownVersion is the report on an input of a version that is not known.
func unknownVersion(k Kind, format string) *Report {
	r := newReport(k)
	var l faultList
	l.add(Fault{Verdict: Unverifiable, Seq: 1, Detail: fmt.Sprintf("format %q is not known to this program, which reads %s; nothing was judged", format, chain.FormatName)})
	r.check("form", Skip, "a format version that is not known")
	r.conclude(&l)
	return r
}
