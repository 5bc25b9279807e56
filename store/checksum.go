package store

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/docket-audit/docket/chain"
)

// checksum tells at a start whether what is derived is what the last commit
// left, without reading the events again: the sum of the hashes of all derived
// values, so that a change of one value changes it by two hashes, whatever the
// number of values. It finds accidents, not attacks: somebody who changes the
// file can change it too, and a verifier looks at neither.
type checksum [4]uint64

// entry hashes one value together with where it stands.
func entry(bucket string, key, value []byte) (e checksum) {
	b := make([]byte, 0, 256)
	b = append(append(b, bucket...), 0)
	b = binary.AppendUvarint(b, uint64(len(key)))
	b = append(append(b, key...), value...)
	h := sha256.Sum256(b)
	for i := range e {
		e[i] = binary.BigEndian.Uint64(h[8*i:])
	}
	return e
}

func (s *checksum) add(bucket string, key, value []byte) {
	for i, n := range entry(bucket, key, value) {
		s[i] += n
	}
}

func (s *checksum) remove(bucket string, key, value []byte) {
	for i, n := range entry(bucket, key, value) {
		s[i] -= n
	}
}

// append appends the value of chain.KeyDerived.
func (s *checksum) append(dst []byte) []byte {
	for _, n := range s {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	return dst
}

// parse reads what append wrote; nil is the sum over nothing.
func (s *checksum) parse(b []byte) error {
	if b == nil {
		*s = checksum{}
		return nil
	}
	if len(b) != 8*len(s) {
		return fmt.Errorf("checksum of %d bytes, not %d: %w", len(b), 8*len(s), chain.ErrLayout)
	}
	for i := range s {
		s[i] = binary.BigEndian.Uint64(b[8*i:])
	}
	return nil
}

// sumOf computes the checksum over what r holds.
func sumOf(r reader) (s checksum, err error) {
	for _, bucket := range derivedBuckets {
		err := r.scan(bucket, nil, func(k, v []byte) (bool, error) {
			s.add(bucket, k, v)
			return true, nil
		})
		if err != nil {
			return s, err
		}
	}
	if head := r.get(chain.BucketMeta, []byte(chain.KeyHead)); head != nil {
		s.add(chain.BucketMeta, []byte(chain.KeyHead), head)
	}
	return s, nil
}
