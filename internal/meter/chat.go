package meter

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// chat reads answers of OpenAI's chat completions and of the many providers
// that speak them: docs/design/metering.md, section 3.
type chat struct {
	usage []byte // the last usage object with a token field, as it came
	odd   string // a usage that is no object
}

var chatFields = chatTotals.fields()

// done ends most streams; some providers leave it out.
const done = "[DONE]"

func (c *chat) event(f *facts, data []byte) error {
	if string(bytes.TrimSpace(data)) == done {
		f.known = true
		return nil
	}
	return c.body(f, data)
}

// body reads a whole answer and one chunk of a stream alike: both have the
// same members but for message and delta.
func (c *chat) body(f *facts, data []byte) error {
	return members(data, func(name string, value jsontext.Value) error {
		switch name {
		case "model":
			f.name(value)
		case "service_tier":
			f.serve("service_tier", value)
		case "usage":
			c.take(value)
		case "error":
			f.failed = f.failed || value.Kind() != 'n'
		case "choices":
			f.known = f.known || value.Kind() == '['
			elements(value, func(choice jsontext.Value) { f.text += choiceText(choice) })
		}
		return nil
	})
}

// take keeps a usage object that has a token field. Totals are cumulative: the
// last object wins, whole, and null or {} never replaces one.
func (c *chat) take(value jsontext.Value) {
	switch value.Kind() {
	case 'n':
	case '{':
		tokens := false
		_ = members(value, func(name string, v jsontext.Value) error {
			named := name == chatTotals.input || name == chatTotals.output
			tokens = tokens || named && v.Kind() != 'n'
			return nil
		})
		if tokens {
			c.usage = bytes.Clone(value)
		}
	default:
		c.odd = clip(string(value))
	}
}

func (c *chat) settle(func() bool) (tally, error) {
	if c.usage == nil {
		if c.odd != "" {
			return tally{}, fmt.Errorf("usage is %s, not an object", c.odd)
		}
		return tally{}, nil
	}
	raw := tally{raw: c.usage}
	if len(c.usage) > maxRawUsage {
		raw = tally{note: fmt.Sprintf("usage of %d bytes is not repeated here", len(c.usage))}
	}
	b, err := readBlock(c.usage, chatFields)
	if err != nil {
		return raw, err
	}
	t := chatTotals.tally(b)
	t.raw, t.note = raw.raw, raw.note
	return t, nil
}

// choiceText counts what the model wrote in one choice: content, refusals,
// shown reasoning and tool arguments. Names and roles are not its text.
func choiceText(choice jsontext.Value) (n uint64) {
	_ = members(choice, func(name string, value jsontext.Value) error {
		if name == "message" || name == "delta" {
			n += messageText(value)
		}
		return nil
	})
	return n
}

func messageText(message jsontext.Value) (n uint64) {
	// Some servers send the same reasoning under both names.
	var reasoning uint64
	_ = members(message, func(name string, value jsontext.Value) error {
		switch name {
		case "content", "refusal":
			n += partsText(value)
		case "reasoning", "reasoning_content":
			reasoning = max(reasoning, partsText(value))
		case "audio":
			n += memberText(value, "transcript")
		case "function_call":
			n += memberText(value, "arguments")
		case "tool_calls":
			elements(value, func(call jsontext.Value) {
				_ = members(call, func(name string, v jsontext.Value) error {
					switch name {
					case "function":
						n += memberText(v, "arguments")
					case "custom":
						n += memberText(v, "input")
					}
					return nil
				})
			})
		}
		return nil
	})
	return n + reasoning
}

// partsText counts a text, or the texts of a list of parts.
func partsText(value jsontext.Value) (n uint64) {
	switch value.Kind() {
	case '"':
		return textLen(value)
	case '[':
		elements(value, func(part jsontext.Value) { n += partsText(part) })
	case '{':
		_ = members(value, func(name string, v jsontext.Value) error {
			switch name {
			case "text", "refusal", "thinking", "content":
				n += partsText(v)
			}
			return nil
		})
	}
	return n
}

func memberText(object jsontext.Value, member string) (n uint64) {
	err := members(object, func(name string, value jsontext.Value) error {
		if name == member {
			n += textLen(value)
		}
		return nil
	})
	if errors.Is(err, errNotObject) {
		return 0
	}
	return n
}
