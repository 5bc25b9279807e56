package boundary

import (
	"net/http"
	"strings"

	"github.com/docket-audit/docket/internal/meter"
)

// outbound makes the headers of a call out of the client's. Connection headers
// and X-Forwarded ones are gone already. docket writes those that frame the
// message, since it sends the body anew; every other header is the client's
// own and goes as it came, its credential too.
func outbound(h http.Header, filtered bool) {
	// The body has been read, so nobody waits for leave to send it.
	h.Del("Expect")
	h.Del("Content-Length")
	h.Set("Accept-Encoding", acceptEncoding(h.Values("Accept-Encoding"), filtered))
	noReplay(h)
}

// acceptEncoding narrows what the client accepts to what the meter decodes. A
// stream that docket has to take something out of is asked for in plain.
func acceptEncoding(asked []string, filtered bool) string {
	const plain = "identity"
	if filtered {
		return plain
	}
	var keep []string
	for _, one := range strings.Split(strings.Join(asked, ","), ",") {
		one = strings.TrimSpace(one)
		name, _, _ := strings.Cut(one, ";")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip", "x-gzip", "br", "zstd", "identity":
			keep = append(keep, one)
		}
	}
	if len(keep) == 0 {
		return plain
	}
	return strings.Join(keep, ", ")
}

// noReplay keeps the transport from sending a paid call twice. It takes a
// header of these names as leave to send a request again after a connection
// broke with the request on it, when the provider may have served and billed
// it; the client can repeat the call itself, and that is a second call on
// record. Under a spelling that is not Go's canonical one the transport does
// not see the header, and HTTP does not know the difference. What it still
// sends again are requests that the provider never got.
func noReplay(h http.Header) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
}

// mediaOf is a Content-Type in the form that a part's media takes
// (docs/format.md, section 1): without the spaces between parameters, and what
// is then not visible ASCII as %XX.
func mediaOf(h http.Header) string {
	var fields []string
	for _, f := range strings.Split(h.Get("Content-Type"), ";") {
		if f = strings.TrimSpace(f); f != "" {
			fields = append(fields, f)
		}
	}
	if len(fields) == 0 {
		return "application/octet-stream"
	}
	return meter.HeaderName(strings.Join(fields, ";"))
}
