package api

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/engine"
)

// maxRunBody bounds what opens or closes a run: an id, a name, an actor and
// some addresses.
const maxRunBody = 64 << 10

// maxWait bounds how long a close may wait for calls in flight.
const maxWait = time.Hour

type totalsBody struct {
	Calls     uint64 `json:"calls"`
	Failed    uint64 `json:"failed"`
	Unpriced  uint64 `json:"unpriced"`
	Estimated uint64 `json:"estimated"`
	CostUSD   string `json:"cost_usd"`
}

func totalsOf(t chain.Totals) totalsBody {
	return totalsBody{t.Calls, t.Failed, t.Unpriced, t.Estimated, t.Cost.String()}
}

type actorBody struct {
	Role    string `json:"role"`
	Context string `json:"context"`
	Pass    string `json:"pass"`
	Fence   uint64 `json:"fence,omitempty"`
}

type runBody struct {
	Run       string            `json:"run"`
	Name      string            `json:"name,omitempty"`
	Upstreams map[string]string `json:"upstreams,omitempty"`
	Actor     *actorBody        `json:"actor,omitempty"`
	Opened    uint64            `json:"opened"`
	Closed    uint64            `json:"closed,omitempty"`
	Events    uint64            `json:"events"`
	OpenCalls int               `json:"open_calls"`
	Implicit  bool              `json:"implicit"`
	Totals    totalsBody        `json:"totals"`
}

func runOf(r engine.Run) runBody {
	b := runBody{
		Run: r.ID, Name: r.Name, Upstreams: r.Upstreams, Opened: r.Opened, Closed: r.Closed, Events: r.RunSeq,
		OpenCalls: r.OpenCalls, Implicit: r.Implicit, Totals: totalsOf(r.Totals),
	}
	if a := r.Actor; a != nil {
		b.Actor = &actorBody{a.Role, a.Context, a.Pass, a.Fence}
	}
	return b
}

// object reads a small JSON body and hands out its members.
func object(w http.ResponseWriter, r *http.Request, member func(name, path string, value json.RawMessage) error) error {
	if ct := r.Header.Get("Content-Type"); ct != "application/json" || r.Header.Get("Content-Encoding") != "" {
		return refuse(WrongMedia, "use application/json, not encoded further", "the Content-Type is %q", ct)
	}
	b, err := readBody(w, r, maxRunBody)
	if err != nil {
		return err
	}
	err = eachMember(b, "", member)
	if f, ok := err.(*chain.FormError); ok {
		return &refusal{code: BadRequest, message: f.Error(), hint: "send one JSON object with the members that this route names", cause: err}
	}
	return err
}

// postRun opens a run.
func (s *Server) postRun(w http.ResponseWriter, r *http.Request) error {
	spec := engine.RunSpec{Peer: peer(r)}
	err := object(w, r, func(name, path string, value json.RawMessage) (err error) {
		switch name {
		case "run":
			spec.ID, err = present(path, value)
		case "name":
			spec.Name, err = present(path, value)
		case "actor":
			spec.Actor, err = parseActor(path, value)
		case "upstreams":
			spec.Upstreams = map[string]string{}
			err = eachMember(value, path, func(name, path string, value json.RawMessage) (err error) {
				spec.Upstreams[name], err = present(path, value)
				return err
			})
		default:
			err = formFault(path, "unknown member: a run is opened with run, name, upstreams and actor")
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := s.checkUpstreams(spec.Upstreams); err != nil {
		return err
	}
	run, token, err := s.engine.OpenRun(r.Context(), spec)
	if err != nil {
		return err
	}
	urls := map[string]string{}
	if s.opts.BaseURLs != nil {
		urls = s.opts.BaseURLs(token, run)
	}
	writeJSON(w, http.StatusCreated, struct {
		Run      string            `json:"run"`
		Token    string            `json:"token"`
		BaseURLs map[string]string `json:"base_urls"`
	}{run.ID, token, urls})
	return nil
}

func (s *Server) checkUpstreams(urls map[string]string) error {
	if len(urls) == 0 {
		return nil
	}
	if s.opts.CheckUpstreams == nil {
		return refuse(BadRequest, "leave upstreams out", "/upstreams: the service has no boundary")
	}
	if err := s.opts.CheckUpstreams(urls); err != nil {
		return refuse(BadRequest, "name upstreams of docketd.toml, each with its base URL", "/upstreams: %v", err)
	}
	return nil
}

// getRuns lists the runs in the order of their ids.
func (s *Server) getRuns(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	runs, err := s.engine.Runs(r.Context())
	if err != nil {
		return err
	}
	list := make([]runBody, len(runs))
	for i, run := range runs {
		list[i] = runOf(run)
	}
	writeJSON(w, http.StatusOK, map[string]any{"runs": list})
	return nil
}

func (s *Server) getRun(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	run, err := s.engine.Run(r.PathValue("id"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, runOf(run))
	return nil
}

// closeRun ends a run, after the calls in flight have had their time.
func (s *Server) closeRun(w http.ResponseWriter, r *http.Request) error {
	spec := engine.CloseSpec{Peer: peer(r)}
	err := object(w, r, func(name, path string, value json.RawMessage) (err error) {
		switch name {
		case "reason":
			spec.Reason, err = present(path, value)
		case "exit_code":
			var n uint64
			if n, err = integer(path, value); err == nil && n > 255 {
				err = formFault(path, "an exit code is 0 to 255")
			}
			code := int(n)
			spec.ExitCode = &code
		case "wait_ms":
			var n uint64
			if n, err = integer(path, value); err == nil && (n == 0 || n > uint64(maxWait.Milliseconds())) {
				err = formFault(path, "1 to %d milliseconds; 30000 where it is left out", maxWait.Milliseconds())
			}
			spec.Wait = time.Duration(n) * time.Millisecond
		default:
			err = formFault(path, "unknown member: a run is closed with reason, exit_code and wait_ms")
		}
		return err
	})
	if err != nil {
		return err
	}
	run, err := s.engine.CloseRun(r.Context(), r.PathValue("id"), spec)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, runOf(run))
	return nil
}
