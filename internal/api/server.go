package api

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/docket-audit/docket/engine"
)

// Options say what a Server serves.
type Options struct {
	// Engine is the open ledger.
	Engine *engine.Engine
	// Token is the bearer token that is asked for over TCP. It is never empty.
	Token string
	// BaseURLs gives the boundary's address of each upstream for the run that
	// token belongs to. Nil where no boundary is served: then a run has none.
	BaseURLs func(token string, r engine.Run) map[string]string
	// CheckUpstreams says whether a run may be opened with these addresses of
	// upstreams. Nil where no boundary is served: then none may be given.
	CheckUpstreams func(urls map[string]string) error
	// Log gets what an operator should know, never a token and never content;
	// nil discards it.
	Log *slog.Logger
}

// Server answers the API's routes.
type Server struct {
	opts   Options
	engine *engine.Engine
	log    *slog.Logger
	mux    *http.ServeMux
	inHand chan struct{}

	stopOnce sync.Once
	stopping chan struct{} // closed by Stop: streams that follow the ledger end
}

// New makes the handlers for one ledger.
func New(o Options) *Server {
	s := &Server{
		opts: o, engine: o.Engine, log: o.Log,
		inHand:   make(chan struct{}, MaxInHand),
		stopping: make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.mux = s.routes()
	return s
}

// Stop ends the answers that would otherwise go on for ever: those that follow
// the ledger. It is called before the servers are shut down.
func (s *Server) Stop() { s.stopOnce.Do(func() { close(s.stopping) }) }

// Socket is the handler for the unix socket: whoever may open it may do
// everything, so it asks for no token, and no browser reaches it.
func (s *Server) Socket() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := checkFraming(r); err != nil {
			w.Header().Set("Connection", "close")
			writeFault(w, faultOf(err))
			return
		}
		s.serve(w, r)
	})
}

// Web is the handler for the loopback listener at addr: the guard in front of
// all, then the boundary at /b/, which is called with run tokens, and the API
// with the bearer token. boundary may be nil.
func (s *Server) Web(addr net.Addr, boundary http.Handler) (http.Handler, error) {
	_, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return nil, err
	}
	if s.opts.Token == "" {
		return nil, errors.New("no token for the loopback listener")
	}
	guarded := withToken(s.opts.Token, http.HandlerFunc(s.serve))
	return newGuard(port, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Not a ServeMux: it would answer an unclean path by a redirect,
		// and a run token would stand in it.
		if boundary != nil && strings.HasPrefix(r.URL.Path, "/b/") {
			boundary.ServeHTTP(w, r)
			return
		}
		guarded.ServeHTTP(w, r)
	})), nil
}

// HTTP makes the server for a listener that came through Limit. It has no
// deadline on whole requests: streams go on as long as both sides move, and
// each handler keeps its own rolling deadline.
func HTTP(h http.Handler, log *slog.Logger) *http.Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       60 * time.Second,
		// net/http reads 4 KiB more than it is told before it gives up.
		MaxHeaderBytes: MaxHead - 4<<10,
		ConnContext:    connContext,
		ConnState:      connState,
		ErrorLog:       slog.NewLogLogger(log.With("component", "http").Handler(), slog.LevelWarn),
	}
}

// route is one line of the API.
type route struct {
	method, path string
	handle       func(http.ResponseWriter, *http.Request) error
}

func (s *Server) table() []route {
	return []route{
		{"POST", "/v1/events", s.postEvent},
		{"GET", "/v1/events", s.getEvents},
		{"GET", "/v1/head", s.getHead},
		{"GET", "/v1/status", s.getStatus},
		{"GET", "/v1/costs", s.getCosts},
		{"POST", "/v1/runs", s.postRun},
		{"GET", "/v1/runs", s.getRuns},
		{"GET", "/v1/runs/{id}", s.getRun},
		{"POST", "/v1/runs/{id}/close", s.closeRun},
		{"GET", "/v1/snapshot", s.getSnapshot},
		{"GET", "/v1/checkpoint", s.getCheckpoint},
		{"GET", "/healthz", s.getHealth},
		{"GET", "/readyz", s.getReady},
	}
}

// routes enters the table, and for each path what answers other methods: HEAD
// too, since a GET of an export would leave its event and hand out nothing.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, r := range s.table() {
		methods[r.path] = append(methods[r.path], r.method)
		mux.Handle(r.method+" "+r.path, s.handler(r.handle))
	}
	for path, list := range methods {
		allow := strings.Join(list, ", ")
		wrong := s.handler(func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Allow", allow)
			return refuse(WrongMethod, "use "+allow, "%s takes no %s", r.URL.Path, r.Method)
		})
		mux.Handle(path, wrong)
		mux.Handle("HEAD "+path, wrong)
	}
	mux.Handle("/", s.handler(func(_ http.ResponseWriter, r *http.Request) error {
		return refuse(NotFound, "the API's routes begin with /v1/", "there is no route %s", r.URL.Path)
	}))
	return mux
}

// serve bounds what is in hand.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	select {
	case s.inHand <- struct{}{}:
		defer func() { <-s.inHand }()
	default:
		w.Header().Set("Retry-After", "1")
		writeFault(w, faultOf(refuse(Busy, "try again in a second", "%d requests are in hand", MaxInHand)))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// handler turns an error of h, or a panic, into an answer. Where the answer has
// begun already the connection is broken off, so that the client can't take the
// part for the whole.
func (s *Server) handler(h func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		aw := &answer{ResponseWriter: w}
		defer aw.clearDeadlines()
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				s.log.Error("panic in a handler", "component", "api", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				s.fail(aw, r, errors.New("panic"))
			} else if p != nil {
				panic(p)
			}
		}()
		if r.Header.Get("Upgrade") != "" {
			aw.Header().Set("Upgrade", "HTTP/1.1")
			s.fail(aw, r, refuse(NoUpgrade, "leave out the Upgrade header", "the connection stays HTTP/1.1"))
			return
		}
		aw.Header().Set("Cache-Control", "no-store")
		aw.Header().Set("X-Content-Type-Options", "nosniff")
		if err := h(aw, r); err != nil {
			s.fail(aw, r, err)
		}
	})
}

func (s *Server) fail(w *answer, r *http.Request, err error) {
	f := faultOf(err)
	if f.code.Status >= 500 && r.Context().Err() == nil {
		s.log.Warn("request failed", "component", "api", "method", r.Method, "path", r.URL.Path, "code", f.code.Name, "error", err.Error())
	}
	if w.begun {
		panic(http.ErrAbortHandler)
	}
	writeFault(w, f)
}

// errorBody is what a refused or failed request is answered with.
type errorBody struct {
	Error errorFields `json:"error"`
}

type errorFields struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

func writeFault(w http.ResponseWriter, f *refusal) {
	writeJSON(w, f.code.Status, errorBody{errorFields{f.code.Name, f.message, f.hint}})
}

// writeJSON answers with one object and a newline.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // the types are ours; a client that is gone is told nothing
}
