package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/docket-audit/docket/engine"
	"github.com/docket-audit/docket/internal/api"
	"github.com/docket-audit/docket/internal/boundary"
	"github.com/docket-audit/docket/internal/durable"
)

// How long a stop may take, part by part.
const (
	drainWait  = 30 * time.Second // for calls in flight
	answerWait = 5 * time.Second  // for answers that are being written after that
	fallWait   = 2 * time.Second  // for waiters to be told that the ledger is latched
)

// service is what one life of docketd holds.
type service struct {
	folder    folder
	config    config
	upstreams map[string]boundary.Upstream
	token     string
	log       *slog.Logger

	socket, web net.Listener

	engine   *engine.Engine
	api      *api.Server
	boundary *boundary.Handler
	servers  []*http.Server
	running  sync.WaitGroup
	failed   chan error // what a server ended with unasked
}

// prepare reads what a start needs and binds the addresses.
func prepare(f folder, o runOptions, log *slog.Logger) (*service, error) {
	s := &service{folder: f, log: log, failed: make(chan error, 2)}
	var err error
	if s.config, err = f.readConfig(); err != nil {
		return nil, err
	}
	if s.upstreams, err = s.config.upstreams(); err == nil {
		// Its options are judged here, before the ledger is open; what
		// serves is made in start.
		_, err = boundary.New(boundary.Options{Recorder: boundary.Record(nil), Upstreams: s.upstreams})
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.config(), err)
	}
	if s.token, err = f.readToken(); err != nil {
		return nil, err
	}
	if s.web, err = api.ListenTCP(o.listen); err != nil {
		return nil, err
	}
	if s.socket, err = api.ListenUnix(f.socket()); err != nil {
		s.web.Close()
		return nil, err
	}
	return s, nil
}

func (s *service) closeListeners() {
	s.web.Close()
	s.socket.Close()
}

// start serves, and says so.
func (s *service) start(stdout io.Writer) error {
	var err error
	s.boundary, err = boundary.New(boundary.Options{
		Recorder: boundary.Record(s.engine), Upstreams: s.upstreams, Log: s.log.With("component", "boundary"),
	})
	if err != nil {
		return err
	}
	s.api = api.New(api.Options{
		Engine: s.engine, Token: s.token, Log: s.log,
		BaseURLs:       baseURLs(s.web.Addr().String(), s.upstreams),
		CheckUpstreams: s.boundary.CheckUpstreams,
	})
	web, err := s.api.Web(s.web.Addr(), s.boundary)
	if err != nil {
		return err
	}
	address := s.web.Addr().String()
	if err := writeText(s.folder.address(), address+"\n", durable.Replace); err != nil {
		return err
	}
	s.serve(s.socket, s.api.Socket())
	s.serve(s.web, web)
	if _, err := fmt.Fprintf(stdout, "listening http://%s\n", address); err != nil {
		return fmt.Errorf("print the address: %w", err)
	}
	s.notify(daemon.SdNotifyReady)
	h := s.engine.Head()
	s.log.Info("serving", "ledger", h.Ledger, "events", h.Seq, "address", address, "socket", s.folder.socket())
	return nil
}

func (s *service) serve(ln net.Listener, h http.Handler) {
	server := api.HTTP(h, s.log)
	s.servers = append(s.servers, server)
	s.running.Go(func() {
		if err := server.Serve(api.Limit(ln, api.MaxConns)); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("serve %s: %w", ln.Addr(), err)
		}
	})
}

// notify tells systemd, where it started us; elsewhere nobody listens.
func (s *service) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("systemd was not told", "state", state, "error", err.Error())
	}
}

// drain stops cleanly: nothing more is admitted, calls in flight end or are
// cancelled, each with its outcome on the disk, and the ledger is closed.
func (s *service) drain(ctx context.Context) error {
	s.log.Info("stopping: calls in flight have their time", "wait", drainWait.String())
	s.notify(daemon.SdNotifyStopping)
	s.api.Stop()
	calls, cancel := context.WithTimeout(ctx, drainWait)
	defer cancel()
	answers, cancelAnswers := context.WithTimeout(ctx, drainWait+answerWait)
	defer cancelAnswers()
	var ended sync.WaitGroup
	for _, server := range s.servers {
		ended.Go(func() { s.shutDown(answers, server) })
	}
	s.engine.Drain(calls)
	ended.Wait()
	s.running.Wait()
	s.boundary.Close()
	err := s.engine.Close(ctx)
	if err == nil {
		err = durable.Remove(s.folder.address())
	}
	if err == nil {
		s.log.Info("stopped")
	}
	return err
}

// fall ends the service of a ledger that is latched: what waits is told, and
// nothing more is written.
func (s *service) fall(ctx context.Context) error {
	cause := s.engine.Err()
	s.log.Error("storage failed and the ledger is latched; the next start examines it", "error", cause.Error())
	s.api.Stop()
	answers, cancel := context.WithTimeout(ctx, fallWait)
	defer cancel()
	var ended sync.WaitGroup
	for _, server := range s.servers {
		ended.Go(func() { s.shutDown(answers, server) })
	}
	ended.Wait()
	s.running.Wait()
	s.boundary.Close()
	return errors.Join(cause, s.engine.Close(ctx))
}

// shutDown waits for the answers in hand until ctx ends, and then breaks off
// what is left.
func (s *service) shutDown(ctx context.Context, server *http.Server) {
	if err := server.Shutdown(ctx); err != nil {
		s.log.Warn("broke off answers that took too long", "error", err.Error())
		if err := server.Close(); err != nil {
			s.log.Warn("closing connections", "error", err.Error())
		}
	}
}

// baseURLs says where a run's clients find each upstream. What speaks OpenAI's
// dialect is called with /v1 behind its base, as its own clients expect.
func baseURLs(address string, upstreams map[string]boundary.Upstream) func(token string, r engine.Run) map[string]string {
	all := boundary.DefaultUpstreams()
	for name, u := range upstreams {
		all[name] = u
	}
	return func(token string, _ engine.Run) map[string]string {
		urls := map[string]string{}
		for name, u := range all {
			urls[name] = "http://" + address + boundary.Prefix + token + "/" + name
			if u.Dialect == "openai" {
				urls[name] += "/v1"
			}
		}
		return urls
	}
}
