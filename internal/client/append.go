package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
)

// Actor is who is said to act.
type Actor struct {
	Role    string `json:"role"`
	Context string `json:"context"`
	Pass    string `json:"pass"`
	Fence   uint64 `json:"fence,omitempty"` // 0: none
}

// Draft is an event to be appended.
type Draft struct {
	Type    string
	Content json.RawMessage // one JSON object in any spelling; nil is {}
	Run     string          // "" for none
	Key     string          // idempotency key; "" for none
	Actor   *Actor
}

// encode spells d. Content is put in as it stands: json.Marshal would compact
// it, and what the client wrote is for the service to judge.
func (d Draft) encode() ([]byte, error) {
	rest, err := json.Marshal(struct {
		Type  string `json:"type"`
		Run   string `json:"run,omitempty"`
		Key   string `json:"key,omitempty"`
		Actor *Actor `json:"actor,omitempty"`
	}{d.Type, d.Run, d.Key, d.Actor})
	if err != nil {
		return nil, fmt.Errorf("encode draft: %w", err)
	}
	content := d.Content
	if content == nil {
		content = json.RawMessage("{}")
	}
	var b bytes.Buffer
	b.Write(rest[:len(rest)-1])
	b.WriteString(`,"content":`)
	b.Write(content)
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Body is the body of one part. Data is read once.
type Body struct {
	Name, Media string
	Data        io.Reader
}

// Receipt says where a durable event stands.
type Receipt struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"` // 64 hex digits
	TS   string `json:"ts"`   // the service's clock, as read
	// Replayed: the key was there already, and this is the first answer.
	Replayed bool `json:"-"`
}

// Append appends d and returns when it is durable. With bodies they are
// streamed, and only their commitments are kept.
func (c *Client) Append(ctx context.Context, d Draft, bodies ...Body) (Receipt, error) {
	b, err := d.encode()
	if err != nil {
		return Receipt{}, err
	}
	var r io.Reader = bytes.NewReader(b)
	media := "application/json"
	if len(bodies) > 0 {
		pr, pw := io.Pipe()
		mw := multipart.NewWriter(pw)
		media = mw.FormDataContentType()
		done := make(chan struct{})
		go func() {
			defer close(done)
			pw.CloseWithError(writeMultipart(mw, b, bodies))
		}()
		defer func() {
			pr.CloseWithError(io.ErrClosedPipe)
			<-done
		}()
		r = pr
	}
	resp, err := c.do(ctx, http.MethodPost, "/v1/events", media, r, http.StatusCreated, http.StatusOK)
	if err != nil {
		return Receipt{}, err
	}
	defer resp.Body.Close()
	got := Receipt{Replayed: resp.StatusCode == http.StatusOK}
	return got, decode(resp, &got)
}

// bodyError is an error of a Body's own reader: it breaks the request off, and
// nothing was appended.
type bodyError struct{ error }

func (e *bodyError) Unwrap() error { return e.error }

var quoter = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func writeMultipart(mw *multipart.Writer, draft []byte, bodies []Body) error {
	w, err := mw.CreatePart(partHeader("draft", "", "application/json"))
	if err != nil {
		return err
	}
	if _, err := w.Write(draft); err != nil {
		return err
	}
	for _, b := range bodies {
		w, err := mw.CreatePart(partHeader(b.Name, `; filename="body"`, b.Media))
		if err != nil {
			return err
		}
		if _, err := io.Copy(w, ownReader{b}); err != nil {
			return err
		}
	}
	return mw.Close()
}

func partHeader(name, more, media string) textproto.MIMEHeader {
	return textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="` + quoter.Replace(name) + `"` + more},
		"Content-Type":        {media},
	}
}

// ownReader marks the errors of a body's reader as such.
type ownReader struct{ b Body }

func (o ownReader) Read(p []byte) (int, error) {
	n, err := o.b.Data.Read(p)
	if err != nil && err != io.EOF {
		err = &bodyError{fmt.Errorf("read part %s: %w", o.b.Name, err)}
	}
	return n, err
}
