package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// patience is how long a command works before it shows that it does.
const patience = time.Second

// progress is a bar on standard error, for people alone: it appears after a
// second, on a terminal, and goes when the work is done. Not safe for
// concurrent use.
type progress struct {
	wanted bool
	what   string
	began  time.Time
	bar    *progressbar.ProgressBar
	env    *env
}

func (e *env) progress(what string) *progress {
	return &progress{wanted: !e.quiet && !e.json && terminal(e.stderr), what: what, began: time.Now(), env: e}
}

// show tells how far the work is; total 0 where the end is not known.
func (p *progress) show(done, total uint64) {
	if !p.wanted || p.bar == nil && time.Since(p.began) < patience {
		return
	}
	most := int64(total)
	if total == 0 {
		most = -1
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(most,
			progressbar.OptionSetDescription(p.what), progressbar.OptionSetWriter(p.env.stderr),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
			progressbar.OptionShowCount(), progressbar.OptionFullWidth(),
		)
	}
	// A bar that can't be drawn must not end the work.
	_ = p.bar.Set64(int64(done))
}

// end takes the bar away.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear() // as above
	}
}
