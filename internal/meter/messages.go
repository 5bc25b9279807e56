package meter

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// messages reads answers of Anthropic's messages: docs/design/metering.md,
// section 4. Its input figures are disjoint already, nothing is subtracted.
type messages struct {
	blocks [][]byte // usage objects as they came: message_start, then each message_delta
	stream bool     // blocks are those of a stream
	merged block    // each later block laid over the ones before
	final  bool     // an output figure came that is more than the initial one
	fault  error    // the first block that could not be read
	size   int      // bytes of blocks
	note   string
}

// messagesFields are the members of usage; those of an iteration are a part.
var messagesFields = fields{
	"input_tokens": counter, "output_tokens": counter,
	"cache_read_input_tokens": counter, "cache_creation_input_tokens": counter,
	"cache_creation": group,
	split5m:          counter, split1h: counter,
	"output_tokens_details": group, "output_tokens_details.thinking_tokens": counter,
	"server_tool_use": group, "server_tool_use.web_search_requests": counter,
	"server_tool_use.web_fetch_requests": counter, // has no fee
	"iterations":                         list, fallbackCredit: flag,
	"service_tier": word, "speed": word, "inference_geo": word,
}

var iterationFields = fields{
	"type": word, "model": word,
	"input_tokens": counter, "output_tokens": counter,
	"cache_read_input_tokens": counter, "cache_creation_input_tokens": counter,
	"cache_creation": group,
	split5m:          counter, split1h: counter,
	"output_tokens_details": group, "output_tokens_details.thinking_tokens": counter,
}

const (
	split5m = "cache_creation.ephemeral_5m_input_tokens"
	split1h = "cache_creation.ephemeral_1h_input_tokens"
)

func (m *messages) event(f *facts, data []byte) error {
	m.stream = true
	parts := map[string]jsontext.Value{}
	if err := members(data, func(name string, value jsontext.Value) error {
		parts[name] = value
		return nil
	}); err != nil {
		return err
	}
	switch text(parts["type"]) {
	case "message_start":
		return m.body(f, parts["message"])
	case "message_delta":
		f.known = true
		m.take(f, parts["usage"], true)
	case "content_block_start":
		f.known = true
		f.text += blockText(parts["content_block"], true)
	case "content_block_delta":
		f.known = true
		f.text += deltaText(parts["delta"])
	case "content_block_stop", "message_stop", "ping":
		f.known = true
	case "error":
		f.failed = true
	default:
		// A kind that came after this was written; an error in another
		// provider's shape has no type.
		f.failed = f.failed || parts["error"] != nil && parts["error"].Kind() != 'n'
	}
	return nil
}

// body reads a whole answer; the message of message_start is one as well.
func (m *messages) body(f *facts, data []byte) error {
	return members(data, func(name string, value jsontext.Value) error {
		switch name {
		case "model":
			f.name(value)
		case "content":
			f.known = f.known || value.Kind() == '['
			elements(value, func(block jsontext.Value) { f.text += blockText(block, m.stream) })
		case "error":
			f.failed = f.failed || value.Kind() != 'n'
		case "usage":
			m.take(f, value, !m.stream) // message_start has only an initial output figure
		}
		return nil
	})
}

// take lays a usage object over what came before. Fields that it lacks stay;
// those that it has are overwritten: neither added nor compared.
func (m *messages) take(f *facts, value jsontext.Value, final bool) {
	if value == nil || value.Kind() == 'n' || m.fault != nil {
		return
	}
	m.keep(value)
	b, err := readBlock(value, messagesFields)
	if err != nil {
		m.fault = err
		return
	}
	_, told := b.counts["output_tokens"]
	m.final = m.final || told && final
	if m.merged.counts == nil {
		m.merged = b
	} else {
		m.merged.overlay(b)
	}
	for _, name := range []string{"service_tier", "speed", "inference_geo"} {
		if v, ok := b.words[name]; ok {
			f.serve(name, v)
		}
	}
}

// keep holds on to the bytes of a block as long as they are few.
func (m *messages) keep(value jsontext.Value) {
	m.size += len(value)
	if m.size > maxRawUsage {
		m.blocks = nil
		m.note = fmt.Sprintf("usage blocks of more than %d bytes are not repeated here", maxRawUsage)
		return
	}
	m.blocks = append(m.blocks, bytes.Clone(value))
}

// raw is the one block as it came, or an array of all blocks of a stream.
func (m *messages) raw() []byte {
	switch {
	case len(m.blocks) == 0:
		return nil
	case !m.stream:
		return m.blocks[len(m.blocks)-1]
	}
	return slices.Concat([]byte("["), bytes.Join(m.blocks, []byte(",")), []byte("]"))
}

func (m *messages) settle(hour func() bool) (tally, error) {
	t := tally{raw: m.raw(), note: m.note}
	if m.fault != nil {
		return t, m.fault
	}
	b := m.merged
	if len(b.counts) == 0 {
		return t, nil
	}
	input, ok := b.counts["input_tokens"]
	if !ok {
		return t, errors.New("read usage: no input_tokens, so the input is not known")
	}
	t.seen, t.inputKnown, t.outputKnown = true, true, m.final
	t.input = map[string]uint64{"input": input, "cache_read": b.counts["cache_read_input_tokens"]}
	addWrites(t.input, b, hour)
	t.leastOutput = b.counts["output_tokens"]
	t.output = outputClasses(b)
	t.other = b.extra
	t.other["web_search"] = b.counts["server_tool_use.web_search_requests"]
	if b.flags[fallbackCredit] {
		t.other[fallbackCredit] = 1
	}
	if err := addIterations(&t, b.lists["iterations"], hour); err != nil {
		return t, fmt.Errorf("read usage: %w", err)
	}
	for _, n := range t.input {
		t.prompt += n
	}
	return t, nil
}

// outputClasses: thinking is inside the output, and can't be more than it.
func outputClasses(b block) map[string]uint64 {
	out := b.counts["output_tokens"]
	if b.counts["output_tokens_details.thinking_tokens"] > out {
		return map[string]uint64{unresolvedOutput: out}
	}
	return map[string]uint64{"output": out}
}

// addWrites puts the cache writes of b into the class of their life. The total
// is a check on the split; where a later total does not fit the split, it
// stands only if one life alone can explain it.
func addWrites(to map[string]uint64, b block, hour func() bool) {
	total, told := b.counts["cache_creation_input_tokens"]
	short, long := b.counts[split5m], b.counts[split1h]
	switch {
	case !told || short+long == total:
		to["cache_write_5m"] += short
		to["cache_write_1h"] += long
	case short > 0 && long > 0, short+long == 0 && hour():
		to[unresolvedCacheWrite] += total
	case long > 0:
		to["cache_write_1h"] += total
	default:
		to["cache_write_5m"] += total
	}
}

// addIterations adds what the top level leaves out: compactions are billed on
// top, message iterations are inside it, and one of any other kind may have a
// model and a price of its own, so it stands as a class without a price.
func addIterations(t *tally, iterations jsontext.Value, hour func() bool) error {
	var fault error
	n := 0
	elements(iterations, func(value jsontext.Value) {
		if n++; fault != nil {
			return
		}
		if n > maxIterations {
			fault = fmt.Errorf("more than %d iterations", maxIterations)
			return
		}
		fault = addIteration(t, value, hour)
	})
	return fault
}

func addIteration(t *tally, value jsontext.Value, hour func() bool) error {
	b, err := readBlock(value, iterationFields)
	if err != nil {
		return fmt.Errorf("iteration: %w", err)
	}
	switch kind := text(b.words["type"]); kind {
	case "":
		return errors.New("iteration without a type")
	case "message":
	case "compaction":
		t.input["input"] += b.counts["input_tokens"]
		t.input["cache_read"] += b.counts["cache_read_input_tokens"]
		addWrites(t.input, b, hour)
		for class, n := range outputClasses(b) {
			t.output[class] += n
		}
		for path, n := range b.extra {
			t.other["iterations.compaction."+path] += n
		}
	default:
		t.other["iterations."+kind]++
	}
	return nil
}

// blockText counts what the model wrote in a content block. In a stream the
// arguments of a tool follow in deltas, so those of the opening do not count.
func blockText(block jsontext.Value, opening bool) (n uint64) {
	parts := map[string]jsontext.Value{}
	_ = members(block, func(name string, value jsontext.Value) error {
		parts[name] = value
		return nil
	})
	switch text(parts["type"]) {
	case "text":
		return textLen(parts["text"])
	case "thinking":
		return textLen(parts["thinking"])
	case "compaction":
		return textLen(parts["content"])
	case "tool_use", "server_tool_use", "mcp_tool_use":
		if !opening {
			return uint64(len(parts["input"]))
		}
	}
	return 0
}

// deltaText counts the text of one delta of a content block.
func deltaText(delta jsontext.Value) (n uint64) {
	_ = members(delta, func(name string, value jsontext.Value) error {
		switch name {
		case "text", "thinking", "partial_json", "content":
			n += textLen(value)
		}
		return nil
	})
	return n
}
