package api_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"testing"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/engine"
	"github.com/docket-audit/docket/internal/api"
)

// TestCodes walks the list: each code of the source stands in it once, with a
// status that is an error's, an exit code of the documentation and a meaning.
func TestCodes(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.CompositeLit); ok {
			if id, ok := lit.Type.(*ast.Ident); ok && id.Name == "Code" {
				declared++
			}
		}
		return true
	})
	codes := api.Codes()
	if declared != len(codes) || declared == 0 {
		t.Errorf("%d codes in the source, %d in the list", declared, len(codes))
	}
	name := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := map[string]bool{}
	for _, c := range codes {
		if !name.MatchString(c.Name) || seen[c.Name] || c.Status < 400 || c.Status > 599 || c.Meaning == "" {
			t.Errorf("%+v", c)
		}
		if c.Exit != 1 && c.Exit != 2 || c.Exit == 2 && c.Status != 400 {
			t.Errorf("%s: exit code %d", c.Name, c.Exit)
		}
		seen[c.Name] = true
	}
}

// TestCodeOf gives every error of the engine its code, also when it is wrapped.
func TestCodeOf(t *testing.T) {
	for _, x := range []struct {
		err  error
		code api.Code
	}{
		{engine.ErrOutcomeUnknown, api.OutcomeUnknown}, {engine.ErrLatched, api.Latched}, {engine.ErrStopping, api.Stopping},
		{engine.ErrRunClosed, api.RunClosed}, {engine.ErrRunUnknown, api.RunUnknown}, {engine.ErrRunExists, api.RunExists},
		{engine.ErrReserved, api.ReservedType}, {engine.ErrKeyConflict, api.KeyConflict}, {engine.ErrStaleFence, api.FenceStale},
		{engine.ErrNoKey, api.NoKey}, {engine.ErrRange, api.BadRequest}, {engine.ErrScope, api.BadRequest},
		{chain.ErrForm, api.BadDraft}, {errors.New("anything else"), api.Internal},
		// Where the outcome is unknown because storage failed, unknown counts.
		{errors.Join(engine.ErrLatched, engine.ErrOutcomeUnknown), api.OutcomeUnknown},
	} {
		for _, err := range []error{x.err, fmt.Errorf("append: %w", x.err)} {
			if got := api.CodeOf(err); got != x.code {
				t.Errorf("%v: %s, want %s", err, got.Name, x.code.Name)
			}
		}
	}
}

// TestRoutes walks the table: each path refuses the methods that it lacks, HEAD
// among them, and what is in no table is not found.
func TestRoutes(t *testing.T) {
	s := start(t)
	methods := map[string][]string{}
	for _, r := range s.api.Routes() {
		methods[r[1]] = append(methods[r[1]], r[0])
	}
	if len(methods) < 10 {
		t.Fatalf("%d routes", len(methods))
	}
	before := s.seq()
	for path, have := range methods {
		for _, m := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "NONSENSE"} {
			if slices.Contains(have, m) {
				continue
			}
			a := s.do(m, path, "", "")
			if a.status != 405 || a.header.Get("Allow") == "" || m != "HEAD" && a.code() != "method-not-allowed" {
				t.Errorf("%s %s: %d %s", m, path, a.status, a.body)
			}
		}
	}
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/heads", "/v1/runs/a/b", "/V1/head", "/metrics", "/b/x/anthropic/v1/messages"} {
		if a := s.get(path); a.status != 404 || a.code() != "not-found" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	for _, path := range []string{"/v1/head?x=1", "/v1/costs?by=run&by=day", "/v1/costs?by=week", "/v1/events?from=0", "/v1/events?from=x",
		"/v1/events?from=-1", "/v1/events?from=9&to=3", "/v1/events?type=X", "/v1/events?run=a%20b", "/v1/events?follow=perhaps",
		"/v1/events?trailer=true&run=r", "/v1/events?trailer=true&to=99999", "/v1/runs?x", "/v1/snapshot?x", "/v1/checkpoint?x", "/v1/head?%zz"} {
		if a := s.get(path); a.status != 400 || a.code() != "bad-request" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if s.seq() != before {
		t.Error("something was written")
	}
}
