package boundary

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/docket-audit/docket/engine"
	"github.com/docket-audit/docket/internal/meter"
)

// The codes of refusals: the value of the header x-docket, the code in the
// error's body and the one in the record.
const (
	CodePolicy      = "x-docket.policy"
	CodeTooLarge    = "x-docket.too-large"
	CodeRunClosed   = "x-docket.run-closed"
	CodeUnavailable = "x-docket.ledger-unavailable"
)

// codes is the closed list of them, with the status of each.
var codes = []struct {
	code   string
	status int
}{
	{CodePolicy, http.StatusForbidden},
	{CodeTooLarge, http.StatusRequestEntityTooLarge},
	{CodeRunClosed, http.StatusForbidden},
	{CodeUnavailable, http.StatusServiceUnavailable},
}

// Codes lists the codes of refusals.
func Codes() []string {
	all := make([]string, len(codes))
	for i, c := range codes {
		all[i] = c.code
	}
	return all
}

func statusOf(code string) int {
	for _, c := range codes {
		if c.code == code {
			return c.status
		}
	}
	panic("boundary: refusal code " + code + " is not in the list")
}

// refusal is an answer that docket gives instead of the provider.
type refusal struct {
	code    string
	status  int
	message string // for people; holds nothing that the client sent but names
}

func refused(code, message string) refusal {
	return refusal{code: code, status: statusOf(code), message: message}
}

var (
	runClosed   = refused(CodeRunClosed, "no open run has this token: its run is closed, or it never was one; open a run and use its base URLs")
	unavailable = refused(CodeUnavailable, "the ledger can't record this request, so it was not forwarded; see docket status")
	noAddress   = refused(CodePolicy, "the path has to be /b/<run token>/<upstream>/<path>; use a run's base URLs")
)

// refuse records a refusal and answers with it once the record is durable. The
// engine lets a bounded number of a run's refusals in at a time, so that a
// flood moves at the ledger's pace and holds up nobody else.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, s engine.CallSpec, dialect string, why refusal) {
	if _, err := h.recorder.Refuse(r.Context(), s, why.code, why.status); err != nil {
		why = h.notTaken(r, err)
	}
	h.answer(w, r, dialect, why)
}

// notTaken is the answer to a request that the recorder did not take.
func (h *Handler) notTaken(r *http.Request, err error) refusal {
	switch {
	case errors.Is(err, engine.ErrRunClosed), errors.Is(err, engine.ErrRunUnknown):
		return runClosed
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the client left: there is nobody to answer
	}
	h.recorder.CountUnavailable()
	h.log.ErrorContext(r.Context(), "not recorded", "error", err)
	return unavailable
}

// answer refuses without a record: there is no run that could have one, or the
// ledger takes none.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, dialect string, why refusal) {
	h.counts.add(why.code)
	h.log.InfoContext(r.Context(), "refused", "code", why.code, "http_status", why.status)
	header := w.Header()
	header.Set("X-Docket", why.code)
	header.Set("X-Should-Retry", "false")
	if why.status == http.StatusUpgradeRequired {
		// RFC 9110, section 15.5.22: what would be spoken instead. The
		// connection ends, for what follows on it may be no HTTP/1.1.
		header.Set("Upgrade", "HTTP/1.1")
		header["Connection"] = []string{"close", "upgrade"}
	}
	h.writeError(w, r, dialect, why)
}

// writeError sends an error in the shape of the provider's own.
func (h *Handler) writeError(w http.ResponseWriter, r *http.Request, dialect string, why refusal) {
	body := errorBody(dialect, why)
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	h.extend(w)
	w.WriteHeader(why.status)
	if r.Method == http.MethodHead {
		return
	}
	// A client that is gone has no use for the error either.
	_, _ = w.Write(body)
}

// The shapes of errors, member by member as the providers send them.
type (
	anthropicError struct {
		Type  string              `json:"type"`
		Error anthropicErrorInner `json:"error"`
	}
	anthropicErrorInner struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	openAIError struct {
		Error openAIErrorInner `json:"error"`
	}
	openAIErrorInner struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
)

// errorBody spells an error as the SDKs of a dialect read it.
func errorBody(dialect string, why refusal) []byte {
	message := "docket: " + why.message
	var code *string
	if why.code != "" {
		message = why.code + ": " + why.message
		code = &why.code
	}
	var body any = openAIError{openAIErrorInner{Message: message, Type: openAIType(why.status), Code: code}}
	if dialect == meter.DialectAnthropic {
		body = anthropicError{"error", anthropicErrorInner{anthropicType(why.status), message}}
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic("boundary: an error of strings can't be spelled as JSON: " + err.Error())
	}
	return append(text, '\n')
}

// anthropicType is the error type that Anthropic's API uses with a status.
func anthropicType(status int) string {
	switch {
	case status == http.StatusForbidden:
		return "permission_error"
	case status == http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case status >= 500:
		return "api_error"
	}
	return "invalid_request_error"
}

// openAIType is the error type that OpenAI's API uses with a status.
func openAIType(status int) string {
	if status >= 500 {
		return "server_error"
	}
	return "invalid_request_error"
}

// counts holds how often each code was answered.
type counts struct{ of []atomic.Uint64 }

func newCounts() counts { return counts{make([]atomic.Uint64, len(codes))} }

func (c counts) add(code string) {
	for i := range codes {
		if codes[i].code == code {
			c.of[i].Add(1)
		}
	}
}

// Refusals tells how many requests were refused since New, by code.
func (h *Handler) Refusals() map[string]uint64 {
	out := make(map[string]uint64, len(codes))
	for i := range codes {
		out[codes[i].code] = h.counts.of[i].Load()
	}
	return out
}
