package api

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// guard stands in front of everything on TCP, before any routing: a browser
// can be made to send requests to loopback, by a page of another site or by a
// name that an attacker points at 127.0.0.1, and net/http answers any Host.
type guard struct {
	port  string // of our own listener
	cross *http.CrossOriginProtection
	next  http.Handler
}

func newGuard(port string, next http.Handler) *guard {
	return &guard{port: port, cross: http.NewCrossOriginProtection(), next: next}
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := g.check(r); err != nil {
		w.Header().Set("Connection", "close")
		writeFault(w, faultOf(err))
		return
	}
	g.next.ServeHTTP(w, r)
}

func (g *guard) check(r *http.Request) error {
	if !g.ownHost(r.Host) {
		return refuse(ForeignHost, "use http://127.0.0.1:"+g.port, "the request is for another host than this service")
	}
	if err := g.checkSite(r); err != nil {
		return err
	}
	return checkFraming(r)
}

// ownHost takes the three spellings of our own address, with our own port.
func (g *guard) ownHost(hostport string) bool {
	host, port, err := net.SplitHostPort(hostport)
	return err == nil && port == g.port && ownName(host)
}

// ownName takes the names under which the service can be listened at and
// called: others of 127.0.0.0/8 have no use, and each would have to be guarded.
func ownName(host string) bool {
	return host == "127.0.0.1" || host == "::1" || strings.EqualFold(host, "localhost")
}

// checkSite refuses what a page of another site sent. CrossOriginProtection
// judges methods that change something; ours judges reads as well, since an
// answer is worth stealing and an export leaves an event.
func (g *guard) checkSite(r *http.Request) error {
	const hint = "call the service from a program or from its own page"
	if err := g.cross.Check(r); err != nil {
		return refuse(ForeignOrigin, hint, "the request comes from another origin")
	}
	if s := r.Header.Get("Sec-Fetch-Site"); s != "" && s != "same-origin" && s != "none" {
		return refuse(ForeignOrigin, hint, "a browser says that another site's page sent the request")
	}
	for _, name := range []string{"Origin", "Referer"} {
		for _, v := range r.Header.Values(name) {
			u, err := url.Parse(v)
			if err != nil || u.Scheme != "http" || !g.ownHost(u.Host) {
				return refuse(ForeignOrigin, hint, "the %s names another site", name)
			}
		}
	}
	return nil
}

// checkFraming refuses a request that states its length twice over.
func checkFraming(r *http.Request) error {
	if len(r.TransferEncoding) == 0 {
		return nil
	}
	if c, ok := r.Context().Value(connKey{}).(*conn); ok && c.ambiguous(r) {
		return refuse(AmbiguousLength, "send either Content-Length or Transfer-Encoding, and wait for each answer before the next request",
			"a chunked request has a Content-Length as well, or was sent before the last one was answered")
	}
	return nil
}

// withToken asks for the bearer token. Hashing is not needed to compare in
// constant time: the length of the token is no secret.
func withToken(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="docket"`)
			writeFault(w, faultOf(refuse(Unauthorized, "send the header \"Authorization: Bearer …\" with the content of the file token in the data folder",
				"the bearer token is missing or wrong")))
			return
		}
		next.ServeHTTP(w, r)
	})
}
