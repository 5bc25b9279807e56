package chain

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Created is the content of ledger.created: docs/format.md, section 3.
type Created struct {
	CreatedBy string
	Keys      []Key // 0 to MaxKeys, none twice
	Ledger    string
	Nonce     Salt
	Continues *Continues
}

// Continues names the ledger that this one goes on from.
type Continues struct {
	Checkpoint string // a signed note; "" where there is none
	Gaps       [][2]uint64
	Head       Hash
	Ledger     string
	Root       Hash // of the RFC 6962 tree
	Size       uint64
	Why        string // segment, salvage, version, key_lost or algorithm
}

// ErrFormatVersion tells that a ledger is of a version of the format that this
// program doesn't know, so that it can judge nothing else of it.
var ErrFormatVersion = errors.New("unknown format version")

// Append appends the canonical content.
func (c *Created) Append(dst []byte) []byte {
	dst = append(dst, '{')
	if c.Continues != nil {
		dst = append(c.Continues.append(append(dst, `"continues":`...)), ',')
	}
	dst = appendString(append(dst, `"created_by":`...), c.CreatedBy)
	dst = appendString(append(dst, `,"format":`...), FormatName)
	dst = appendKeys(append(dst, `,"keys":`...), c.Keys)
	dst = appendString(append(dst, `,"ledger":`...), c.Ledger)
	dst = appendString(append(dst, `,"nonce":`...), c.Nonce.String())
	return append(dst, '}')
}

func (c *Continues) append(dst []byte) []byte {
	dst = append(dst, `{"checkpoint":`...)
	if c.Checkpoint == "" {
		dst = append(dst, "null"...)
	} else {
		dst = appendString(dst, c.Checkpoint)
	}
	dst = append(dst, `,"gaps":[`...)
	for i, g := range c.Gaps {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, "[%d,%d]", g[0], g[1])
	}
	dst = appendHash(append(dst, `],"head":`...), c.Head)
	dst = appendString(append(dst, `,"ledger":`...), c.Ledger)
	dst = appendHash(append(dst, `,"root":`...), c.Root)
	dst = strconv.AppendUint(append(dst, `,"size":`...), c.Size, 10)
	dst = appendString(append(dst, `,"why":`...), c.Why)
	return append(dst, '}')
}

// ParseCreated reads the content of ledger.created. Members beyond those of
// the format pass. Another version of the format is ErrFormatVersion, whatever
// else stands there; the name of another format is a FormError.
func ParseCreated(content []byte) (*Created, error) {
	if err := CheckContent(content); err != nil {
		return nil, err
	}
	if err := checkFormat(content); err != nil {
		return nil, err
	}
	s := scanner{b: content}
	var c Created
	err := s.closed(func(name []byte) (_ bool, err error) {
		switch string(name) {
		case "continues":
			c.Continues, err = s.continues()
		case "created_by":
			var v []byte
			v, err = s.str()
			c.CreatedBy = string(v)
		case "keys":
			c.Keys, err = s.keys(0)
		case "ledger":
			c.Ledger, err = s.checked(validID)
		case "nonce":
			c.Nonce, err = s.salt()
		default:
			err = s.value(2)
		}
		return true, err
	}, "created_by", "format", "keys", "ledger", "nonce")
	if err != nil {
		return nil, err
	}
	return &c, nil
}

// checkFormat judges the format member of canonical content.
func checkFormat(content []byte) error {
	s := scanner{b: content}
	format := ""
	err := s.closed(func(name []byte) (_ bool, err error) {
		if string(name) == "format" {
			format, err = s.text()
			return true, err
		}
		return true, s.value(2)
	}, "format")
	if err != nil || format == FormatName {
		return err
	}
	version, ours := strings.CutPrefix(format, strings.TrimSuffix(FormatName, "1"))
	if ours && version != "" && version[0] != '0' && allDigits([]byte(version)) {
		return fmt.Errorf("format %q: %w", clip(format), ErrFormatVersion)
	}
	return faultAt("format", "not "+FormatName)
}

func (s *scanner) continues() (*Continues, error) {
	var c Continues
	return &c, s.closed(func(name []byte) (_ bool, err error) {
		switch string(name) {
		case "checkpoint":
			if !s.lit("null") {
				c.Checkpoint, err = s.text()
			}
		case "gaps":
			err = s.list(func() error { return s.gap(&c) })
		case "head":
			c.Head, err = s.hash()
		case "ledger":
			c.Ledger, err = s.checked(validID)
		case "root":
			c.Root, err = s.hash()
		case "size":
			c.Size, err = s.integer()
		case "why":
			if c.Why, err = s.text(); err == nil && !continueReasons[c.Why] {
				err = fault("not segment, salvage, version, key_lost or algorithm")
			}
		default:
			return false, nil
		}
		return true, err
	}, "checkpoint", "gaps", "head", "ledger", "root", "size", "why")
}

var continueReasons = map[string]bool{"segment": true, "salvage": true, "version": true, "key_lost": true, "algorithm": true}

func (s *scanner) gap(c *Continues) error {
	var ends []uint64
	err := s.list(func() error {
		n, err := s.integer()
		ends = append(ends, n)
		return err
	})
	if err == nil && len(ends) != 2 {
		err = fault("not two numbers")
	}
	if err != nil {
		return err
	}
	c.Gaps = append(c.Gaps, [2]uint64{ends[0], ends[1]})
	return nil
}

// validID is the form of a ledger's id: 32 lower-case hex digits.
func validID(v []byte) error { var id Salt; return parseHex(id[:], v) }

// CheckLedgerID says whether s is spelled like a ledger's id.
func CheckLedgerID(s string) error { return validID([]byte(s)) }
