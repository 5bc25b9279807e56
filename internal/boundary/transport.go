package boundary

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"

	"github.com/docket-audit/docket/engine"
)

var (
	errAddress  = errors.New("address is not one that docket calls")
	errSilent   = errors.New("upstream was silent for too long")
	errStopped  = errors.New("the run was closed or the service stops")
	errLeft     = errors.New("the client left")
	errSwitched = errors.New("upstream switched protocols unasked")
	errStatus   = errors.New("upstream answered with a status that HTTP does not have")
)

// transports sends to upstreams: one for https, one for http, which reaches
// this machine only. Both follow no redirect, since a key is for the upstream
// that it was sent to; neither takes a proxy from the environment, since where
// keys go is for the configuration to say; and neither asks for a content
// coding of its own, which would hide the provider's bytes.
type transports struct{ https, http *http.Transport }

func newTransports() *transports {
	return &transports{https: newTransport(anyAddress), http: newTransport(loopbackAddress)}
}

func newTransport(allowed func(netip.Addr) bool) *http.Transport {
	dialer := &net.Dialer{
		Timeout: dialTimeout, KeepAlive: keepAlive,
		// The address is looked at when it is dialled: what a name resolves to
		// can change between any earlier look and the call.
		Control: func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || !allowed(to.Addr().Unmap()) {
				return errAddress
			}
			return nil
		},
	}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: tlsTimeout,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:   true,
		DisableCompression:  true,
		MaxIdleConnsPerHost: maxIdleConns,
		IdleConnTimeout:     idleConnTimeout,

		MaxResponseHeaderBytes: maxResponseHeader,
		ReadBufferSize:         copyBuffer,
	}
}

// loopbackAddress admits this machine.
func loopbackAddress(a netip.Addr) bool { return a.IsLoopback() }

// anyAddress admits all but those that no provider has: link-local ones, where
// clouds keep the credentials of a machine, multicast and none at all.
// Private networks are fine: many gateways live there, and TLS says who they are.
func anyAddress(a netip.Addr) bool {
	return !a.IsLinkLocalUnicast() && !a.IsMulticast() && !a.IsUnspecified()
}

// RoundTrip sends r by the transport of its scheme.
func (t *transports) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		return t.https.RoundTrip(r)
	}
	return t.http.RoundTrip(r)
}

func (t *transports) closeIdle() {
	t.https.CloseIdleConnections()
	t.http.CloseIdleConnections()
}

// failReason says why no head arrived: cause is what ended the call's context,
// if anything did, and err what the transport reported.
func failReason(cause, err error) string {
	switch {
	case errors.Is(cause, errStopped):
		return engine.FailedStopped
	case errors.Is(cause, errSilent):
		return engine.FailedTimeout
	case cause != nil:
		return engine.FailedClient
	}
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return engine.FailedTimeout
	}
	return engine.FailedConnect
}

// endReason says how a body that did not end by itself broke off.
func endReason(cause error) string {
	switch {
	case errors.Is(cause, errStopped):
		return engine.EndedStopped
	case cause == nil, errors.Is(cause, errSilent):
		return engine.EndedCut
	}
	return engine.EndedClient
}

// known are errors of this package: their text is docket's own.
var known = []error{errAddress, errSilent, errStopped, errLeft, errSwitched, errStatus}

// kindOf names an error for logs and people. It never gives the text of an
// error from elsewhere: that can repeat what an upstream sent, and an upstream
// can repeat a key.
func kindOf(err error) string {
	for _, k := range known {
		if errors.Is(err, k) {
			return k.Error()
		}
	}
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		return no.Error()
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "its name does not resolve"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "its certificate is not valid for it"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "it does not speak TLS"
	}
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return "it timed out"
	}
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection ended early"
	}
	return fmt.Sprintf("error of type %T", err)
}
