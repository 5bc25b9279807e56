package api

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/engine"
)

type headBody struct {
	Ledger string `json:"ledger"`
	Seq    uint64 `json:"seq"`
	Hash   string `json:"hash"`
	Root   string `json:"root"`
}

func headOf(h engine.Head) headBody {
	// The root is hex here as in a trailer; base64 belongs to signed notes.
	return headBody{h.Ledger, h.Seq, h.Hash.String(), chain.Hash(h.Root).String()}
}

func (s *Server) getHead(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, headOf(s.engine.Head()))
	return nil
}

type statusBody struct {
	Path        string   `json:"path"`
	Head        headBody `json:"head"`
	Bytes       int64    `json:"bytes"`
	Started     string   `json:"started"`
	OpenRuns    int      `json:"open_runs"`
	OpenCalls   int      `json:"open_calls"`
	Unavailable uint64   `json:"unavailable"`
	Latched     string   `json:"latched,omitempty"`
}

func (s *Server) getStatus(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	st, err := s.engine.Status()
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, statusBody{
		Path: st.Path, Head: headOf(st.Head), Bytes: st.Bytes, Started: st.Started.UTC().Format(time.RFC3339Nano),
		OpenRuns: st.OpenRuns, OpenCalls: st.OpenCalls, Unavailable: st.Unavailable, Latched: st.Latched,
	})
	return nil
}

// costScopes are what costs can be asked by.
var costScopes = []string{chain.ScopeLedger, chain.ScopeRun, chain.ScopeModel, chain.ScopeRole, chain.ScopeDay}

type costRow struct {
	Key []string `json:"key"`
	totalsBody
}

// getCosts answers the totals by one scope. The key of a row is the run, the
// day, the role, or provider and model; by ledger there is one row with no
// key. By model and by role the rows need not sum to the ledger's: a call that
// failed has no model, and not every call has a role.
func (s *Server) getCosts(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "by")
	if err != nil {
		return err
	}
	by := chain.ScopeLedger
	if q.Has("by") {
		by = q.Get("by")
	}
	if !slices.Contains(costScopes, by) {
		return refuse(BadRequest, "use ledger, run, model, role or day", "costs can't be had by %q", by)
	}
	costs, err := s.engine.Costs(by)
	if err != nil {
		return err
	}
	rows := make([]costRow, len(costs))
	for i, c := range costs {
		rows[i] = costRow{append([]string{}, c.Key...), totalsOf(c.Totals)}
	}
	writeJSON(w, http.StatusOK, struct {
		By   string    `json:"by"`
		Rows []costRow `json:"rows"`
	}{by, rows})
	return nil
}

// getSnapshot streams a consistent copy of the ledger file. Its length is
// known, so a client can tell when it was cut short.
func (s *Server) getSnapshot(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	snap, err := s.engine.Snapshot(r.Context(), peer(r))
	if err != nil {
		return err
	}
	defer snap.Close()
	h := w.Header()
	h.Set("Content-Length", strconv.FormatInt(snap.Size, 10))
	h.Set("Docket-Ledger", snap.Head.Ledger)
	h.Set("Docket-Seq", strconv.FormatUint(snap.Head.Seq, 10))
	h.Set("Docket-Hash", snap.Head.Hash.String())
	out := &stream{w: w.(*answer), media: "application/octet-stream"}
	// The named writer keeps io.Copy from handing all to one ReadFrom, which
	// would leave the rolling deadline behind.
	if _, err := io.CopyBuffer(struct{ io.Writer }{out}, snap, make([]byte, 256<<10)); err != nil {
		return err
	}
	return out.end()
}

// getCheckpoint signs the head and answers the note.
func (s *Server) getCheckpoint(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	note, err := s.engine.Checkpoint(r.Context())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err = io.WriteString(w, note)
	return err
}

// getHealth says whether the ledger can be written.
func (s *Server) getHealth(w http.ResponseWriter, r *http.Request) error {
	if err := s.engine.Err(); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// getReady says whether requests are taken: the ledger can be written and the
// service isn't stopping.
func (s *Server) getReady(w http.ResponseWriter, r *http.Request) error {
	select {
	case <-s.stopping:
		return engine.ErrStopping
	default:
		return s.getHealth(w, r)
	}
}
