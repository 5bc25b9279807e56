package receipt

import (
	"errors"
	"fmt"
)

// A receipt is taken apart before its pieces are judged, so that what is wrong
// with one row is found at that row. The splitter knows strings and brackets
// and nothing else of JSON; each piece is judged by its own reader afterwards,
// and the whole by writing it again.

var errSplit = errors.New("not a JSON object of members")

// member is one member of an object as it stands.
type member struct {
	name  string // without quotes; one with escapes is never a name of ours
	value []byte
}

// splitObject takes an object apart.
func splitObject(b []byte) ([]member, error) {
	if len(b) < 2 || b[0] != '{' || b[len(b)-1] != '}' {
		return nil, errSplit
	}
	var list []member
	for i := 1; i < len(b)-1; {
		end := stringEnd(b, i)
		if b[i] != '"' || end >= len(b)-1 || b[end] != ':' {
			return nil, fmt.Errorf("no member at byte %d: %w", i, errSplit)
		}
		next := valueEnd(b, end+1, len(b)-1)
		list = append(list, member{string(b[i+1 : end-1]), b[end+1 : next]})
		if i = next + 1; next < len(b)-1 && i == len(b)-1 {
			return nil, fmt.Errorf("a comma at the end: %w", errSplit)
		}
	}
	return list, nil
}

// splitArray takes an array apart.
func splitArray(b []byte) ([][]byte, error) {
	if len(b) < 2 || b[0] != '[' || b[len(b)-1] != ']' {
		return nil, errSplit
	}
	var list [][]byte
	for i := 1; i < len(b)-1; {
		next := valueEnd(b, i, len(b)-1)
		list = append(list, b[i:next])
		if i = next + 1; next < len(b)-1 && i == len(b)-1 {
			return nil, fmt.Errorf("a comma at the end: %w", errSplit)
		}
	}
	return list, nil
}

// stringEnd is the index behind the string at i.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// valueEnd is the index of the comma behind the value at i, or end.
func valueEnd(b []byte, i, end int) int {
	for depth := 0; i < end; {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
			if depth <= 0 {
				return i
			}
		}
		i++
	}
	return end
}
