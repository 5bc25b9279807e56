package loopback

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

// carriers are the headers in which a credential can travel.
var carriers = []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Proxy-Authorization", "Cookie"}

// judge says what is wrong with a request, seen from the provider.
func (p *Provider) judge(c *Call, r *http.Request, body []byte) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if r.Method != http.MethodPost || r.URL.Path != c.Case.Endpoint || r.URL.RawQuery != "" {
		fault("came as %s %s, not POST %s", r.Method, r.URL.Path, c.Case.Endpoint)
	}
	if r.Host != p.addr {
		fault("Host is %q, not the provider's own", r.Host)
	}
	if got := credentials(r.Header); !slices.Equal(got, []string{c.Credential}) {
		// The values stay out: a fault is printed.
		fault("%d credentials came, or another than the client's one", len(got))
	}
	p.mu.Lock()
	secrets := slices.Clone(p.secret)
	p.mu.Unlock()
	for name, values := range r.Header {
		for _, v := range values {
			if containsAny(v, secrets) {
				fault("the header %s carries a secret of the proxy", name)
			}
		}
	}
	if containsAny(string(body), secrets) {
		fault("the body carries a secret of the proxy")
	}
	return append(faults, judgeBody(c, body)...)
}

// credentials lists the values of all carriers, a scheme before them cut off.
func credentials(h http.Header) (found []string) {
	for _, name := range carriers {
		for _, v := range h.Values(name) {
			const scheme = "Bearer "
			if len(v) > len(scheme) && v[:len(scheme)] == scheme {
				v = v[len(scheme):]
			}
			found = append(found, v)
		}
	}
	return found
}

// judgeBody compares what was asked with the case.
func judgeBody(c *Call, body []byte) (faults []string) {
	type request struct {
		Model         string
		Stream        bool
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	var got, want request
	if err := json.Unmarshal(body, &got); err != nil {
		return []string{fmt.Sprintf("the body is no JSON: %v", err)}
	}
	if err := json.Unmarshal(c.Case.Request, &want); err != nil {
		return []string{fmt.Sprintf("the case's request is no JSON: %v", err)}
	}
	if got.Model != want.Model || got.Stream != want.Stream {
		faults = append(faults, fmt.Sprintf("asks for model %q, stream %v; the case asks for %q, %v", got.Model, got.Stream, want.Model, want.Stream))
	}
	// Without it the provider would not tell what a chat stream used.
	if c.Case.Endpoint == EndpointChat && got.Stream && !got.StreamOptions.IncludeUsage {
		faults = append(faults, "a stream does not ask for its usage")
	}
	return faults
}
