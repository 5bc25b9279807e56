package verify

import (
	"errors"
	"fmt"

	"github.com/docket-audit/docket/chain"
	"github.com/docket-audit/docket/receipt"
)

// keyring is what is known of the ledger's id and keys so far.
type keyring struct {
	id        string // "" where nothing says it yet
	founded   bool   // event 1 is sound
	lists     []keyList
	demanded  []*receipt.Verifier // by --vkey
	met       []bool              // which of them was met
	lastSize  uint64              // of the checkpoints so far
	deferred  []deferred          // roots that have to be read again
	rotations uint64
}

// keyList is a list of keys and the first size at which it is in force.
type keyList struct {
	from uint64
	keys []chain.Key
}

// deferred is a checkpoint whose root was passed too long ago.
type deferred struct {
	seq, size uint64
	root      chain.TreeHash
}

type checkpointCounts struct {
	signatures  uint64 // good ones
	withoutKey  uint64 // checkpoints for whose size no key is known
	withoutRoot uint64 // checkpoints whose size is not known any more
}

func (k *keyring) init(demanded []*receipt.Verifier, s setup) {
	k.demanded, k.met = demanded, make([]bool, len(demanded))
}

// created takes over what a sound event 1 says.
func (k *keyring) created(c *chain.Created) {
	k.id, k.founded = c.Ledger, true
	k.lists = append(k.lists, keyList{0, c.Keys})
}

// assume is called where event 1 is not there or not sound: a ledger's key
// that the caller demands is taken as in force, and its name gives the id.
func (k *keyring) assume() {
	if k.founded || k.id != "" {
		return
	}
	var keys []chain.Key
	for _, v := range k.demanded {
		id, err := receipt.ParseOrigin(v.Name())
		if err != nil || k.id != "" && k.id != id {
			continue
		}
		k.id = id
		keys = append(keys, v.Key())
	}
	if len(keys) > 0 {
		k.lists = append([]keyList{{0, keys}}, k.lists...)
	}
}

// inForce lists the keys in force at a size; known is false where nothing
// says which they are.
func (k *keyring) inForce(size uint64) (keys []chain.Key, known bool) {
	for _, l := range k.lists {
		if l.from <= size {
			keys, known = l.keys, true
		}
	}
	return keys, known && len(keys) > 0
}

// signedBy finds which key signed a note, of the lists in force below limit.
// A note by none of them gives found false; good says whether the signature
// of the one found holds.
func (k *keyring) signedBy(n *receipt.Note, limit uint64) (key chain.Key, found, good bool) {
	for _, l := range k.lists {
		if l.from >= limit && l.from != 0 {
			continue
		}
		for _, candidate := range l.keys {
			ok, tried := signedFirst(n, k.id, candidate)
			if !tried {
				continue
			}
			if key, found = candidate, true; ok {
				return key, true, true
			}
		}
	}
	return key, found, false
}

// signedFirst judges the first signature of a note, the ledger's own.
func signedFirst(n *receipt.Note, id string, k chain.Key) (good, tried bool) {
	first := receipt.Note{Text: n.Text, Signatures: n.Signatures[:1]}
	return first.VerifiedBy(receipt.NewVerifier(id, k))
}

func holds(keys []chain.Key, k chain.Key) bool {
	for _, other := range keys {
		if other == k {
			return true
		}
	}
	return false
}

// witness looks for demanded keys of witnesses among a note's signatures.
func (k *keyring) witness(n *receipt.Note) {
	for i, v := range k.demanded {
		if good, _ := n.VerifiedBy(v); good && v.Name() != receipt.Origin(k.id) {
			k.met[i] = true
		}
	}
}

// noteStep judges the signed note of ledger.checkpoint and key.rotated.
func (j *judge) noteStep(it *item) {
	h := it.header
	if h.Type == chain.TypeErased {
		j.erasure(h)
	}
	if h.Note == "" || j.run != "" {
		return
	}
	j.counts.made[stepNote]++
	j.keys.assume()
	if h.Type == chain.TypeCheckpoint {
		j.checkpoint(h)
	} else {
		j.rotation(h)
	}
}

// checkpoint judges a checkpoint of the ledger, in the order of docs/format.md,
// section 5: form, then what makes it another history, then the signature.
func (j *judge) checkpoint(h *chain.Header) {
	k := &j.keys
	c, err := receipt.ParseSignedCheckpoint(h.Note)
	if err != nil {
		j.fault(Malformed, h.Seq, stepNote, h, "checkpoint: %v", err)
		return
	}
	if k.id == "" {
		k.id = c.Ledger
	}
	if c.Ledger != k.id {
		j.fault(Forked, h.Seq, stepNote, h, "a checkpoint of ledger %s in ledger %s", c.Ledger, k.id)
		return
	}
	if c.Size >= h.Seq || c.Size < k.lastSize {
		j.fault(Forked, h.Seq, stepNote, h, "a checkpoint of size %d, where %d to %d are possible", c.Size, max(1, k.lastSize), h.Seq-1)
		return
	}
	k.lastSize = c.Size
	if root, ok := j.tree.root(c.Size); ok {
		if root != c.Root {
			j.fault(Forked, h.Seq, stepNote, h, "the checkpoint's root at size %d is %s, and the events give %s", c.Size, hexRoot(c.Root), hexRoot(root))
			return
		}
	} else if j.tree.passed(c.Size) && c.Size >= j.first {
		k.deferred = append(k.deferred, deferred{h.Seq, c.Size, c.Root})
	} else {
		j.counts.checkpoints.withoutRoot++
	}
	j.signature(h, c)
}

// signature judges the first signature of a checkpoint.
func (j *judge) signature(h *chain.Header, c *receipt.SignedCheckpoint) {
	k := &j.keys
	keys, known := k.inForce(c.Size)
	key, found, good := k.signedBy(c.Note, h.Seq)
	switch {
	case found && !good:
		j.fault(Altered, h.Seq, stepNote, h, "the signature by key %s does not hold", key)
	case !known:
		j.counts.checkpoints.withoutKey++
		k.witness(c.Note)
	case !found:
		j.fault(Altered, h.Seq, stepNote, h, "signed by key id %08x, which this ledger has not had so far", c.Note.Signatures[0].KeyID)
	case !holds(keys, key):
		j.fault(Forked, h.Seq, stepNote, h, "signed by key %s, which was not in force at size %d", key, c.Size)
	default:
		j.counts.checkpoints.signatures++
		k.witness(c.Note)
	}
}

// rotation judges key.rotated and takes over its keys.
func (j *judge) rotation(h *chain.Header) {
	k := &j.keys
	k.rotations++
	defer func() { k.lists = append(k.lists, keyList{h.Seq, h.Keys}) }()
	n, err := receipt.ParseNote(h.Note)
	if err != nil {
		j.fault(Malformed, h.Seq, stepNote, h, "rotation: %v", err)
		return
	}
	if err := k.rotated(h, n); err != nil {
		j.fault(Altered, h.Seq, stepNote, h, "rotation: %v", err)
	}
}

// rotated says what is wrong with a rotation's note.
func (k *keyring) rotated(h *chain.Header, n *receipt.Note) error {
	if k.id == "" {
		id, err := receipt.ParseOrigin(n.Signatures[0].Name)
		if err != nil {
			return fmt.Errorf("signature: %w", err)
		}
		k.id = id
	}
	if want := receipt.RotationText(k.id, h.Seq, h.Prev, h.Keys); n.Text != want {
		return fmt.Errorf("the text is %q, and %q would be signed", n.Text, want)
	}
	for i, key := range h.Keys {
		if good, _ := n.VerifiedBy(receipt.NewVerifier(k.id, key)); !good {
			return fmt.Errorf("new key %d has not signed it", i+1)
		}
	}
	keys, known := k.inForce(h.Seq - 1)
	if !known && !k.founded {
		return nil // which key was in force is not known from what was given
	}
	for _, key := range keys {
		if good, _ := n.VerifiedBy(receipt.NewVerifier(k.id, key)); good {
			return nil
		}
	}
	return errors.New("no key in force has signed it")
}

// erasure notes which contents an erasure names.
func (j *judge) erasure(h *chain.Header) {
	for _, n := range h.Erased.Seqs {
		switch {
		case j.absent.has(n):
			if j.erased.add(n) {
				j.counts.erased++
			}
		case j.given.has(n):
			j.counts.presentErased++
		}
	}
}

func hexRoot(r chain.TreeHash) string { return chain.Hash(r).String() }
