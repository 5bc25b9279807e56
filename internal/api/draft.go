package api

import (
	"encoding/json"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/engine"
)

// serviceMembers are header members that no client may set.
var serviceMembers = map[string]bool{
	"call": true, "meter": true, "totals": true, "cap": true, "note": true, "keys": true, "erased": true,
	"seq": true, "ts": true, "prev": true, "run_seq": true, "peer": true,
}

// A body is what a client hands over beside its draft.
type body struct {
	name, media string
	data        []byte
}

// parseDraft reads the draft in b. What the members hold is judged by engine,
// except that they are of the type named. The bodies come apart, since they
// are committed to where the idempotency key is known.
func parseDraft(b []byte) (engine.Draft, []body, error) {
	var d engine.Draft
	var bodies []body
	err := eachMember(b, "", func(name, path string, value json.RawMessage) (err error) {
		switch name {
		case "type":
			d.Type, err = text(path, value)
		case "content":
			d.Content = value
		case "run":
			d.Run, err = present(path, value)
		case "key":
			d.Key, err = present(path, value)
		case "actor":
			d.Actor, err = parseActor(path, value)
		case "parts":
			bodies, err = parseBodies(path, value)
		default:
			if serviceMembers[name] {
				return formFault(path, "is written by the service alone")
			}
			return formFault(path, "unknown member: a draft has type, content, run, actor, key and parts")
		}
		return err
	})
	if err == nil && d.Type == "" {
		err = formFault("/type", "missing")
	}
	if err == nil && d.Content == nil {
		err = formFault("/content", "missing; {} where there is nothing to say")
	}
	return d, bodies, err
}

// present reads a string that may be left out, but not be empty: "" would
// otherwise stand for absent.
func present(path string, value json.RawMessage) (string, error) {
	s, err := text(path, value)
	if err == nil && s == "" {
		err = formFault(path, "empty; leave the member out")
	}
	return s, err
}

func parseActor(path string, value json.RawMessage) (*chain.Actor, error) {
	var a chain.Actor
	err := eachMember(value, path, func(name, path string, value json.RawMessage) (err error) {
		switch name {
		case "role":
			a.Role, err = text(path, value)
		case "context":
			a.Context, err = text(path, value)
		case "pass":
			a.Pass, err = text(path, value)
		case "fence":
			if a.Fence, err = integer(path, value); err == nil && a.Fence == 0 {
				err = formFault(path, "an integer from 1")
			}
		default:
			return formFault(path, "unknown member: an actor has role, context, pass and fence")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, m := range []struct{ name, value string }{{"role", a.Role}, {"context", a.Context}, {"pass", a.Pass}} {
		if m.value == "" {
			return nil, formFault(path+"/"+m.name, "missing or empty")
		}
	}
	return &a, nil
}

func parseBodies(path string, value json.RawMessage) ([]body, error) {
	var list []body
	err := eachMember(value, path, func(name, path string, value json.RawMessage) error {
		b := body{name: name}
		err := eachMember(value, path, func(name, path string, value json.RawMessage) (err error) {
			switch name {
			case "media":
				b.media, err = text(path, value)
			case "data":
				b.data, err = bytesOf(path, value)
			default:
				err = formFault(path, "unknown member: a part has media and data")
			}
			return err
		})
		switch {
		case err != nil:
			return err
		case b.media == "":
			return formFault(path+"/media", "missing or empty")
		case b.data == nil:
			return formFault(path+"/data", "missing")
		}
		list = append(list, b)
		return nil
	})
	if err == nil && len(list) == 0 {
		err = formFault(path, "empty; leave the member out")
	}
	return list, err
}
