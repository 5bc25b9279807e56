package boundary

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/docket-audit/docket/engine"
	"github.com/docket-audit/docket/internal/meter"
)

// Upstream is a model provider's API, by the name in the path.
type Upstream struct {
	// Dialect is whose paths and error bodies it speaks: "openai" or
	// "anthropic".
	Dialect string
	// URL is the base that a call's path is put behind: https, or http where
	// the host is loopback. User info, query and fragment are refused: they
	// would be a credential, or go nowhere.
	URL string
	// Provider is the name in meters and price rows; "" is the upstream's name.
	Provider string
}

// DefaultUpstreams are the upstreams that are there unless Options replaces
// them, by name.
func DefaultUpstreams() map[string]Upstream {
	return map[string]Upstream{
		"anthropic": {Dialect: meter.DialectAnthropic, URL: "https://api.anthropic.com"},
		"openai":    {Dialect: meter.DialectOpenAI, URL: "https://api.openai.com"},
	}
}

// upstream is an Upstream that was checked.
type upstream struct {
	name, dialect, provider string
	base                    *url.URL
}

// upstreamName is what may stand in a path without any encoding.
var upstreamName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func checkUpstreams(given map[string]Upstream) (map[string]upstream, error) {
	all := DefaultUpstreams()
	maps.Copy(all, given)
	checked := make(map[string]upstream, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		u := all[name]
		if len(name) > maxUpstreamName || !upstreamName.MatchString(name) {
			return nil, fmt.Errorf("upstream %q: the name has to be 1 to %d letters, digits, points, dashes or underscores", name, maxUpstreamName)
		}
		if u.Dialect != meter.DialectOpenAI && u.Dialect != meter.DialectAnthropic {
			return nil, fmt.Errorf("upstream %q: dialect %q is none of %q and %q", name, u.Dialect, meter.DialectOpenAI, meter.DialectAnthropic)
		}
		base, err := parseBase(u.URL)
		if err != nil {
			return nil, fmt.Errorf("upstream %q: %w", name, err)
		}
		checked[name] = upstream{name: name, dialect: u.Dialect, provider: cmp.Or(u.Provider, name), base: base}
	}
	return checked, nil
}

// parseBase reads an upstream's URL. No error repeats the URL: it may hold a
// credential that was put there by mistake.
func parseBase(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("the url can't be read; write it as https://host/path")
	case u.User != nil:
		return nil, errors.New("the url holds user info; the client sends its own credential")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("the url has a query or a fragment; give the base only")
	case u.Opaque != "" || u.Hostname() == "":
		return nil, errors.New("the url has no host; write it as https://host/path")
	case u.Scheme == "https":
		return u, nil
	case u.Scheme == "http" && loopbackHost(u.Hostname()):
		return u, nil
	case u.Scheme == "http":
		return nil, errors.New("the url is http to another machine, where keys could be read on the way; use https")
	}
	return nil, errors.New("the url's scheme is neither https nor http")
}

// loopbackHost says whether host names this machine whatever a resolver says,
// or is "localhost"; what that resolves to is checked when it is dialled.
func loopbackHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// CheckUpstreams says whether a run may be opened with these upstreams: names
// that this boundary has, and URLs as in Upstream. An address takes the place
// of the configured one for that run; dialect and provider stay those of the
// name. The error repeats no URL.
func (h *Handler) CheckUpstreams(urls map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(urls)) {
		if _, ok := h.upstreams[name]; !ok {
			return fmt.Errorf("upstream %q is not configured; there are %s", name, strings.Join(h.names(), ", "))
		}
		if _, err := parseBase(urls[name]); err != nil {
			return fmt.Errorf("upstream %q: %w", name, err)
		}
	}
	return nil
}

// upstreamOf finds the upstream that a call of run goes to.
func (h *Handler) upstreamOf(run engine.Run, name string) (upstream, error) {
	u, ok := h.upstreams[name]
	if !ok {
		return upstream{}, fmt.Errorf("there is no upstream of this name; there are %s", strings.Join(h.names(), ", "))
	}
	if own, ok := run.Upstreams[name]; ok {
		base, err := parseBase(own)
		if err != nil {
			return upstream{}, fmt.Errorf("the run's own address for it is not usable: %w", err)
		}
		u.base = base
	}
	return u, nil
}

func (h *Handler) names() []string { return slices.Sorted(maps.Keys(h.upstreams)) }

// target is where a call with this path, as sent, and query goes.
func (u upstream) target(path, query string) *url.URL {
	to := *u.base
	escaped := strings.TrimSuffix(u.base.EscapedPath(), "/") + path
	// path was checked to be a plain one, so it can be decoded.
	decoded, err := url.PathUnescape(escaped)
	if err != nil {
		panic("boundary: a path that was checked can't be decoded")
	}
	to.Path, to.RawPath, to.RawQuery = decoded, escaped, query
	return &to
}
