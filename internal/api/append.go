package api

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"

	"github.com/docket-audit/docket/engine"
)

// Limits of one append.
const (
	// MaxDraft bounds a draft with the bodies in it. Content has 1 MiB in
	// canonical form; the rest is for other spellings and for small bodies.
	MaxDraft = 16 << 20
	// MaxUpload bounds a multipart request. Its bodies stream by and are
	// never held, so this bounds time, not memory.
	MaxUpload = 4 << 30
	// MaxKeyed bounds the bodies of a multipart request whose draft has an
	// idempotency key. They are held, since a repeat of the draft is compared
	// with the first one body by body.
	MaxKeyed = 64 << 20
	// MaxParts bounds the bodies of one event: a header of 64 KiB has room
	// for fewer.
	MaxParts = 512
)

type receiptBody struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
	TS   string `json:"ts"`
}

// postEvent appends one draft, and answers when it is durable: 201, or 200
// where the key has brought the first answer again.
func (s *Server) postEvent(w http.ResponseWriter, r *http.Request) error {
	if e := r.Header.Get("Content-Encoding"); e != "" {
		return refuse(WrongMedia, "send the body as it is", "a body in Content-Encoding %q is not taken", e)
	}
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		media = ""
	}
	var d engine.Draft
	switch media {
	case "application/json":
		d, err = s.jsonDraft(w, r)
	case "multipart/form-data":
		d, err = s.multipartDraft(w, r, params["boundary"])
	default:
		return refuse(WrongMedia, "use application/json, or multipart/form-data with the draft and one file for each body",
			"the Content-Type is %q", r.Header.Get("Content-Type"))
	}
	if err != nil {
		return err
	}
	d.Peer = peer(r)
	got, err := s.engine.Append(r.Context(), d)
	if err != nil {
		return err
	}
	status := http.StatusCreated
	if got.Replayed {
		status = http.StatusOK
	}
	writeJSON(w, status, receiptBody{got.Seq, got.Hash.String(), got.TS})
	return nil
}

func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	b, err := io.ReadAll(slowReader{w, http.MaxBytesReader(w, r.Body, limit)})
	return b, broken(err)
}

// broken makes a body that could not be read whole the client's fault, unless
// it was too large.
func broken(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return err
	}
	return &refusal{code: BadRequest, message: "the body ends early: " + err.Error(), hint: "send it again, whole", cause: err}
}

func (s *Server) jsonDraft(w http.ResponseWriter, r *http.Request) (engine.Draft, error) {
	b, err := readBody(w, r, MaxDraft)
	if err != nil {
		return engine.Draft{}, err
	}
	d, bodies, err := parseDraft(b)
	if err != nil {
		return engine.Draft{}, err
	}
	for _, p := range bodies {
		d.Parts = append(d.Parts, engine.NewPartOf(p.name, p.media, p.data))
	}
	return d, nil
}

// multipartDraft reads the part "draft", which comes first, and then one file
// for each body, under the name of the event's part.
func (s *Server) multipartDraft(w http.ResponseWriter, r *http.Request, boundary string) (engine.Draft, error) {
	if boundary == "" {
		return engine.Draft{}, refuse(BadRequest, "a client's multipart writer gives one", "the Content-Type names no boundary")
	}
	mr := multipart.NewReader(slowReader{w, http.MaxBytesReader(w, r.Body, MaxUpload)}, boundary)
	d, err := firstPart(mr)
	if err != nil {
		return engine.Draft{}, err
	}
	files := bodyReader{keyed: d.Key != "", left: MaxKeyed, seen: map[string]bool{}}
	for {
		// Raw, since NextPart would decode some transfer encodings in
		// silence, and the commitment is to the bytes that were sent.
		p, err := mr.NextRawPart()
		if err == io.EOF {
			return d, nil
		}
		if err != nil {
			return engine.Draft{}, broken(err)
		}
		part, err := files.read(p)
		if err != nil {
			return engine.Draft{}, err
		}
		d.Parts = append(d.Parts, part)
	}
}

func firstPart(mr *multipart.Reader) (engine.Draft, error) {
	p, err := mr.NextRawPart()
	if err == io.EOF || err == nil && p.FormName() != "draft" {
		return engine.Draft{}, refuse(BadRequest, "send the part \"draft\" before the files", "the first part is not \"draft\"")
	}
	if err != nil {
		return engine.Draft{}, broken(err)
	}
	if err := plainPart(p); err != nil {
		return engine.Draft{}, err
	}
	b, err := io.ReadAll(io.LimitReader(p, MaxDraft+1))
	if err != nil {
		return engine.Draft{}, broken(err)
	}
	if len(b) > MaxDraft {
		return engine.Draft{}, refuse(TooLarge, "send large bodies as files", "the draft is larger than %d bytes", MaxDraft)
	}
	d, bodies, err := parseDraft(b)
	if err == nil && bodies != nil {
		err = formFault("/parts", "has no place in a multipart draft: its bodies are the files")
	}
	return d, err
}

// bodyReader commits to the files of one request.
type bodyReader struct {
	keyed bool  // bodies are held
	left  int64 // how much more of them may be
	seen  map[string]bool
}

func (b *bodyReader) read(p *multipart.Part) (engine.Part, error) {
	name, media := p.FormName(), p.Header.Get("Content-Type")
	if err := plainPart(p); err != nil {
		return engine.Part{}, err
	}
	switch {
	case name == "":
		return engine.Part{}, refuse(BadRequest, "give each file the name of the event's part", "a file has no name in its form-data")
	case media == "":
		return engine.Part{}, formFault("/parts/"+pointerEscaper.Replace(name)+"/media", "missing: the file has no Content-Type")
	case b.seen[name]:
		return engine.Part{}, formFault("/parts/"+pointerEscaper.Replace(name), "member twice")
	case len(b.seen) == MaxParts:
		return engine.Part{}, refuse(TooLarge, "send fewer", "more than %d files", MaxParts)
	}
	b.seen[name] = true
	if !b.keyed {
		pw := engine.NewPart(name, media)
		_, err := io.Copy(pw, p)
		return pw.Part(), broken(err)
	}
	data, err := io.ReadAll(io.LimitReader(p, b.left+1))
	if err != nil {
		return engine.Part{}, broken(err)
	}
	if b.left -= int64(len(data)); b.left < 0 {
		return engine.Part{}, refuse(TooLarge, "leave the key out, or send smaller bodies", "the bodies of a draft with a key are larger than %d bytes", MaxKeyed)
	}
	return engine.NewPartOf(name, media, data), nil
}

func plainPart(p *multipart.Part) error {
	for _, h := range []string{"Content-Transfer-Encoding", "Content-Encoding"} {
		if v := p.Header.Get(h); v != "" {
			return refuse(WrongMedia, "send each part as it is", "a part in %s %q is not taken", h, v)
		}
	}
	return nil
}
