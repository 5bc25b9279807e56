package meter

// totals names the members of a usage block of OpenAI's kind, in which the
// totals are inclusive: every detail is a part of its total.
type totals struct {
	input, output string // the two totals; their details are called the same and "_details"
}

var chatTotals = totals{input: "prompt_tokens", output: "completion_tokens"}

// fields are the members that such a block can have, those of compatible
// providers included: docs/design/metering.md, section 3.
func (t totals) fields() fields {
	in, out := t.input+"_details.", t.output+"_details."
	f := fields{
		t.input: counter, t.output: counter, "total_tokens": counter,
		t.input + "_details": group, t.output + "_details": group,
		in + "cached_tokens": counter, in + "cache_write_tokens": counter,
		in + "cache_write_tokens_details":                group,
		in + "cache_write_tokens_details.ttl_30m_tokens": counter,
		in + "cache_write_tokens_details.ttl_12h_tokens": counter,
		in + "audio_tokens":                              counter, in + "image_tokens": counter, in + "text_tokens": counter,
		out + "audio_tokens": counter, out + "image_tokens": counter, out + "text_tokens": counter,
		out + "reasoning_tokens":           counter,
		out + "accepted_prediction_tokens": counter, out + "rejected_prediction_tokens": counter,
		// DeepSeek, Moonshot
		"prompt_cache_hit_tokens": counter, "prompt_cache_miss_tokens": counter, "cached_tokens": counter,
		// xAI
		"server_side_tool_usage_details":                  group,
		"server_side_tool_usage_details.web_search_calls": counter,
		"server_side_tool_usage_details.x_search_calls":   counter,
		"cost_in_usd_ticks":                               skipped, "num_sources_used": skipped,
		// OpenRouter
		"cost": skipped, "cost_details": skipped, "is_byok": skipped,
	}
	return f
}

// tally puts the figures of b into classes.
func (t totals) tally(b block) tally {
	out := tally{seen: true, other: b.extra}
	t.tallyInput(b, &out)
	t.tallyOutput(b, &out)
	if out.other == nil {
		out.other = map[string]uint64{}
	}
	out.other["web_search"] = b.counts["server_side_tool_usage_details.web_search_calls"]
	out.other["x_search"] = b.counts["server_side_tool_usage_details.x_search_calls"]
	return out
}

func (t totals) tallyInput(b block, out *tally) {
	details := t.input + "_details."
	cached, told := cachedTokens(b, details)
	long := b.counts[details+"cache_write_tokens_details.ttl_12h_tokens"]
	short := b.counts[details+"cache_write_tokens_details.ttl_30m_tokens"]
	written, ok := b.counts[details+"cache_write_tokens"]
	if !ok {
		written = short + long
	}
	audio, image := b.counts[details+"audio_tokens"], b.counts[details+"image_tokens"]
	parts := cached + written + audio + image
	total, ok := b.counts[t.input]
	if !ok && parts == 0 {
		return // nothing was said about the input
	}
	out.inputKnown, out.prompt = true, total
	miss, missTold := b.counts["prompt_cache_miss_tokens"]
	switch {
	case !ok:
		// Parts of a total that is missing: their sum is what is known.
		out.input = map[string]uint64{unresolvedInput: parts}
		out.prompt = parts
	case !told, parts > total, b.counts[details+"text_tokens"] > total, missTold && cached+miss != total:
		out.input = map[string]uint64{unresolvedInput: total}
	default:
		out.input = map[string]uint64{
			"input": total - parts, "cache_read": cached,
			"audio_input": audio, "image_input": image,
		}
		if short+long > written {
			out.input[unresolvedCacheWrite] = written
		} else {
			out.input["cache_write"], out.input["cache_write_12h"] = written-long, long
		}
	}
}

// cachedTokens is how many tokens came from a cache. Compatible providers tell
// it in one or more of three places; agrees is false where they differ.
func cachedTokens(b block, details string) (n uint64, agrees bool) {
	first := true
	for _, at := range []string{details + "cached_tokens", "cached_tokens", "prompt_cache_hit_tokens"} {
		told, ok := b.counts[at]
		switch {
		case !ok:
		case first:
			n, first = told, false
		case told != n:
			return max(n, told), false
		}
	}
	return n, true
}

func (t totals) tallyOutput(b block, out *tally) {
	details := t.output + "_details."
	total, ok := b.counts[t.output]
	if !ok {
		return // nothing was said about the output
	}
	out.outputKnown = true
	reasoning := b.counts[details+"reasoning_tokens"]
	audio, image := b.counts[details+"audio_tokens"], b.counts[details+"image_tokens"]
	input, inputTold := b.counts[t.input]
	sum, sumTold := b.counts["total_tokens"]
	if reasoning > 0 && inputTold && sumTold && sum == input+total+reasoning {
		// The identity shows that reasoning stands beside the total.
		total += reasoning
	}
	// The other parts are inside the total and cost nothing of their own, but
	// a part above its total shows that the figures do not add up.
	inside := max(reasoning, b.counts[details+"text_tokens"],
		b.counts[details+"accepted_prediction_tokens"], b.counts[details+"rejected_prediction_tokens"])
	if audio+image > total || inside > total {
		out.output = map[string]uint64{unresolvedOutput: total}
		return
	}
	out.output = map[string]uint64{
		"output": total - audio - image, "audio_output": audio, "image_output": image,
	}
}
