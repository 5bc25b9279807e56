package meter

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/docket-audit/docket/chain"
)

// unnamed stands in a header for a model that neither request nor answer
// names. No provider can have a model of that name.
const unnamed = "(unnamed)"

// HeaderName spells a provider's or model's name so that an event's header
// takes it: docs/format.md, section 1. Bytes outside ! to ~ become %XX; a name
// that is then over 128 bytes becomes "sha256:" and the hash of the name, since
// cutting it could make two models one; an empty one becomes "(unnamed)".
func HeaderName(name string) string {
	if name == "" {
		return unnamed
	}
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c >= '!' && c <= '~' {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteString(strings.ToUpper(hex.EncodeToString([]byte{c})))
		}
	}
	if b.Len() > chain.MaxToken {
		sum := sha256.Sum256([]byte(name))
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	return b.String()
}
