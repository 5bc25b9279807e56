package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docket-audit/docket/internal/boundary"
	"github.com/pelletier/go-toml/v2"
)

// config is docketd.toml. Every key is documented here; any other is an error,
// so that a misspelt one can't be taken for a setting.
type config struct {
	// Upstream holds one table for each upstream, [upstream.NAME]: NAME is
	// what stands in the boundary's paths. One named "anthropic" or "openai"
	// takes the place of the built-in one.
	Upstream map[string]struct {
		// Dialect is "anthropic" or "openai": whose API it speaks.
		Dialect string `toml:"dialect"`
		// URL is https, or http on this machine.
		URL string `toml:"url"`
		// Provider is the name in meters and price rows; NAME where it is
		// left out.
		Provider string `toml:"provider"`
	} `toml:"upstream"`
	Prices struct {
		// Files hold price rows that stand before the built-in table. Paths
		// are relative to the data folder.
		Files []string `toml:"files"`
	} `toml:"prices"`
}

// maxConfig bounds the file: it is read whole.
const maxConfig = 1 << 20

// readConfig reads docketd.toml. No file is the same as an empty one.
func (f folder) readConfig() (config, error) {
	var c config
	b, err := os.ReadFile(f.config())
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read the configuration: %w", err)
	}
	if len(b) > maxConfig {
		return c, fmt.Errorf("%s has %d bytes, more than the %d of any configuration", f.config(), len(b), maxConfig)
	}
	if err := parseConfig(b, &c); err != nil {
		return c, fmt.Errorf("%s: %w", f.config(), err)
	}
	for i, path := range c.Prices.Files {
		if !filepath.IsAbs(path) {
			c.Prices.Files[i] = filepath.Join(string(f), path)
		}
	}
	return c, nil
}

func parseConfig(b []byte, c *config) error {
	err := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields().Decode(c)
	if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		e := strict.Errors[0]
		line, _ := e.Position()
		return fmt.Errorf("line %d: unknown key %q; known are %s", line, strings.Join(e.Key(), "."), knownKeys)
	}
	if bad, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, column := bad.Position()
		return fmt.Errorf("line %d, column %d: %w", line, column, err)
	}
	if err != nil {
		return err
	}
	return exactKeys(b)
}

const knownKeys = "upstream.NAME.dialect, upstream.NAME.url, upstream.NAME.provider and prices.files"

// exactKeys refuses keys in other letters, which the decoder takes for ours.
func exactKeys(b []byte) error {
	var tree map[string]any
	if err := toml.Unmarshal(b, &tree); err != nil {
		return err
	}
	var keys []string
	for top, v := range tree {
		keys = append(keys, top)
		table, _ := v.(map[string]any)
		for name, v := range table {
			if top != "upstream" {
				keys = append(keys, top+"."+name)
				continue
			}
			fields, _ := v.(map[string]any)
			for field := range maps.Keys(fields) {
				keys = append(keys, "upstream.NAME."+field)
			}
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if k != "upstream" && k != "prices" && !slices.Contains(strings.FieldsFunc(knownKeys, func(r rune) bool { return r == ' ' || r == ',' }), k) {
			return fmt.Errorf("unknown key %q: keys are in lower case; known are %s", k, knownKeys)
		}
	}
	return nil
}

// upstreams are those of the configuration, for the boundary to judge.
func (c config) upstreams() (map[string]boundary.Upstream, error) {
	all := map[string]boundary.Upstream{}
	for name, u := range c.Upstream {
		for _, m := range []struct{ key, value string }{{"dialect", u.Dialect}, {"url", u.URL}} {
			if m.value == "" {
				return nil, fmt.Errorf("upstream %q has no %s", name, m.key)
			}
		}
		all[name] = boundary.Upstream{Dialect: u.Dialect, URL: u.URL, Provider: u.Provider}
	}
	return all, nil
}
