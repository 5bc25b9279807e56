package main

import (
	"context"
	"net/http"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	anthropicstream "github.com/anthropics/anthropic-sdk-go/v2/packages/ssestream"
	"github.com/docket-audit/docket/demo/loopback"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	openaistream "github.com/openai/openai-go/v3/packages/ssestream"
)

// clients holds a client for each upstream, of the SDK that speaks its dialect.
// Only what differs
// between the vendors stands in this file.
type clients struct {
	transport *http.Transport
	anthropic map[string]anthropic.Client
	openai    map[string]openai.Client
}

// newClients makes the clients as an agent would, but that they don't retry:
// then one call of the demo is one row of the ledger.
func newClients(at map[string]endpoint) clients {
	c := clients{&http.Transport{}, map[string]anthropic.Client{}, map[string]openai.Client{}}
	client := &http.Client{Transport: c.transport}
	for name, e := range at {
		if e.dialect == "anthropic" {
			c.anthropic[name] = anthropic.NewClient(anthropicoption.WithoutEnvironmentDefaults(),
				anthropicoption.WithHTTPClient(client), anthropicoption.WithBaseURL(e.base),
				anthropicoption.WithAPIKey(e.key), anthropicoption.WithMaxRetries(0))
			continue
		}
		c.openai[name] = openai.NewClient(openaioption.WithHTTPClient(client), openaioption.WithBaseURL(e.base),
			openaioption.WithAPIKey(e.key), openaioption.WithMaxRetries(0))
	}
	return c
}

// close ends the clients' connections, as the end of an agent's process would.
func (c clients) close() { c.transport.CloseIdleConnections() }

func (p prompt) anthropic(r *result) (anthropic.MessageNewParams, []anthropicoption.RequestOption) {
	opts := []anthropicoption.RequestOption{
		anthropicoption.WithHeader(loopback.CallHeader, r.callID()), anthropicoption.WithMiddleware(r.watch),
	}
	for name, value := range p.extra {
		opts = append(opts, anthropicoption.WithJSONSet(name, value))
	}
	return anthropic.MessageNewParams{
		Model: anthropic.Model(p.model), MaxTokens: p.maxTokens,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(p.text))},
	}, opts
}

func (c clients) message(ctx context.Context, p prompt, r *result) error {
	params, opts := p.anthropic(r)
	client := c.anthropic[r.call.Upstream]
	m, err := client.Messages.New(ctx, params, opts...)
	if err != nil {
		return err
	}
	for _, block := range m.Content {
		r.text += block.Text
	}
	return nil
}

func (c clients) streamMessage(ctx context.Context, leave context.CancelFunc, p prompt, r *result) error {
	params, opts := p.anthropic(r)
	client := c.anthropic[r.call.Upstream]
	stream := client.Messages.NewStreaming(ctx, params, opts...)
	defer stream.Close()
	all, _ := readMessage(recordedMessage(r.call.Case), 0)
	var n int
	if r.call.End == loopback.EndClient {
		n = all
	}
	n, r.text = readMessage(stream, n)
	if r.call.End == loopback.EndClient && n == all {
		r.left = true
		leave()
		return nil
	}
	return stream.Err()
}

func recordedMessage(c *loopback.Case) *anthropicstream.Stream[anthropic.MessageStreamEventUnion] {
	return anthropicstream.NewStream[anthropic.MessageStreamEventUnion](anthropicstream.NewDecoder(recorded(c)), nil)
}

// readMessage reads most events of a stream, or all where most is 0.
func readMessage(s *anthropicstream.Stream[anthropic.MessageStreamEventUnion], most int) (n int, text string) {
	var b strings.Builder
	for (most == 0 || n < most) && s.Next() {
		n++
		b.WriteString(s.Current().Delta.Text)
	}
	return n, b.String()
}

func (p prompt) openai(r *result) (openai.ChatCompletionNewParams, []openaioption.RequestOption) {
	opts := []openaioption.RequestOption{
		openaioption.WithHeader(loopback.CallHeader, r.callID()), openaioption.WithMiddleware(r.watch),
	}
	for name, value := range p.extra {
		opts = append(opts, openaioption.WithJSONSet(name, value))
	}
	params := openai.ChatCompletionNewParams{
		Model:    p.model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(p.text)},
	}
	if r.call.AsksUsage {
		params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	}
	return params, opts
}

func (c clients) completion(ctx context.Context, p prompt, r *result) error {
	params, opts := p.openai(r)
	client := c.openai[r.call.Upstream]
	m, err := client.Chat.Completions.New(ctx, params, opts...)
	if err != nil {
		return err
	}
	for _, choice := range m.Choices {
		r.text += choice.Message.Content
	}
	return nil
}

func (c clients) streamCompletion(ctx context.Context, leave context.CancelFunc, p prompt, r *result) error {
	params, opts := p.openai(r)
	client := c.openai[r.call.Upstream]
	stream := client.Chat.Completions.NewStreaming(ctx, params, opts...)
	defer stream.Close()
	all := readCompletion(recordedCompletion(r.call.Case), 0)
	var most int
	if r.call.End == loopback.EndClient {
		most = all.chunks
	}
	got := readCompletion(stream, most)
	r.text, r.usage = got.text, got.usageOnly > 0
	if r.call.End == loopback.EndClient && got.chunks == all.chunks {
		r.left = true
		leave()
		return nil
	}
	return stream.Err()
}

func recordedCompletion(c *loopback.Case) *openaistream.Stream[openai.ChatCompletionChunk] {
	return openaistream.NewStream[openai.ChatCompletionChunk](openaistream.NewDecoder(recorded(c)), nil)
}

// completionRead is what a chat stream brought.
type completionRead struct {
	chunks    int
	usageOnly int // chunks with usage and no choice
	text      string
}

// readCompletion reads most chunks of a stream, or all where most is 0.
func readCompletion(s *openaistream.Stream[openai.ChatCompletionChunk], most int) (got completionRead) {
	var b strings.Builder
	for (most == 0 || got.chunks < most) && s.Next() {
		got.chunks++
		chunk := s.Current()
		if len(chunk.Choices) == 0 && chunk.JSON.Usage.Valid() {
			got.usageOnly++
		}
		for _, choice := range chunk.Choices {
			b.WriteString(choice.Delta.Content)
		}
	}
	got.text = b.String()
	return got
}
