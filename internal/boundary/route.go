package boundary

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/docket-audit/docket/internal/meter"
)

// Prefix is the path that a Handler serves.
const Prefix = "/b/"

// address is what a request's path says.
type address struct {
	token, upstream string
	path            string // as sent, with its escapes, from its first slash on
}

// parseAddress takes /b/<run token>/<upstream name>/<path> apart. ok is false
// where there is no token or no name.
func parseAddress(u *url.URL) (a address, ok bool) {
	rest, ok := strings.CutPrefix(u.EscapedPath(), Prefix)
	if !ok {
		return a, false
	}
	a.token, rest, _ = strings.Cut(rest, "/")
	a.upstream, rest, _ = strings.Cut(rest, "/")
	a.path = "/" + rest
	return a, a.token != "" && a.upstream != ""
}

// recordable is what a record may hold of where a request was to go. Junk of
// any length can stand there, and no record is to grow with it.
func recordable(a address, method string) (name, verb, path string) {
	name, verb, path = a.upstream, method, a.path
	if holdsToken(a, name) {
		name = "(holds a run token)"
	}
	if holdsToken(a, path) {
		path = "(holds a run token)"
	}
	if len(name) > maxUpstreamName || !upstreamName.MatchString(name) {
		name = fmt.Sprintf("(not a name, %d bytes)", len(name))
	}
	if len(verb) > maxMethod {
		verb = fmt.Sprintf("(too long, %d bytes)", len(verb))
	}
	if len(path) > maxPath {
		path = fmt.Sprintf("(too long, %d bytes)", len(path))
	}
	return name, verb, path
}

// innerAddress is a run's address within a path.
var innerAddress = regexp.MustCompile(`(?i)/b/[0-9a-f]{32}(/|$)`)

// holdsToken says whether text shows this run's token, or an address with one,
// whether or not it is escaped: a base URL that was joined to itself does. A
// token is secret as long as its run is open, so such text is neither recorded
// nor sent to a provider.
func holdsToken(a address, text string) bool {
	plain, err := url.PathUnescape(text)
	if err != nil {
		plain = text
	}
	return strings.Contains(strings.ToLower(plain), strings.ToLower(a.token)) || innerAddress.MatchString(plain)
}

// overrides are headers by which some servers take one method for another.
var overrides = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// admit says why a request is not forwarded, or nil. What is forwarded is
// metered, or of a kind that no provider bills (docs/design/metering.md,
// section 5): a route that docket does not know is never free.
func admit(dialect string, r *http.Request, a address) error {
	path := a.path
	if holdsToken(a, path) {
		return errors.New("the path holds a run's token once more: the base URL was joined to itself; give the client the base URL alone")
	}
	if err := plainPath(path); err != nil {
		return err
	}
	if r.URL.Host != "" {
		return errors.New("docket is no forward proxy: send the path alone as the request's target")
	}
	for _, name := range overrides {
		if r.Header.Get(name) != "" {
			return fmt.Errorf("the header %s would let one method pass for another", name)
		}
	}
	if meter.EndpointOf(meter.Call{Dialect: dialect, Method: r.Method, Path: path}) == meter.Unknown {
		return fmt.Errorf("docket can't meter this endpoint, so it does not forward to it. It forwards %s, and all GET, HEAD and OPTIONS", metered(dialect))
	}
	return nil
}

// metered names the endpoints of a dialect for people.
func metered(dialect string) string {
	if dialect == meter.DialectAnthropic {
		return "POST /v1/messages, POST /v1/messages/count_tokens"
	}
	return "POST /v1/chat/completions"
}

// plainPath refuses a path that docket and a provider could read differently:
// then what is metered would not be what is called.
func plainPath(path string) error {
	if len(path) > maxPath {
		return fmt.Errorf("the path is longer than %d bytes", maxPath)
	}
	lower := strings.ToLower(path)
	for _, odd := range []string{"%2f", "%5c", "%2e", "%00", "\\", ";"} {
		if strings.Contains(lower, odd) {
			return errors.New("the path has an encoded slash or point, a backslash or a semicolon, which servers read in different ways")
		}
	}
	for i, step := range strings.Split(path, "/") {
		if step == "." || step == ".." {
			return errors.New(`the path has a step "." or ".."`)
		}
		if step == "" && i > 0 && i < strings.Count(path, "/") {
			return errors.New("the path has an empty step")
		}
	}
	return nil
}
