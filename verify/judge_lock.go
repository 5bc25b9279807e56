package verify

import "github.com/docket-audit/docket/chain"

// locks follows who holds what: docs/format.md, section 6.
type locks struct {
	live   map[uint64]chain.Actor // by fence
	holder map[lockKey]uint64     // fence by key
	// seen are the keys of which something is known in a range: a lock that
	// was taken before it is taken as given once for each.
	seen map[lockKey]bool
}

type lockKey struct{ role, context string }

func (l *locks) init() {
	l.live, l.holder, l.seen = map[uint64]chain.Actor{}, map[lockKey]uint64{}, map[lockKey]bool{}
}

func keyOf(a *chain.Actor) lockKey { return lockKey{a.Role, a.Context} }

func (l *locks) hold(a *chain.Actor) {
	l.live[a.Fence] = *a
	l.holder[keyOf(a)] = a.Fence
	l.seen[keyOf(a)] = true
}

func (l *locks) free(fence uint64) {
	a, ok := l.live[fence]
	if !ok {
		return
	}
	delete(l.live, fence)
	if k := keyOf(&a); l.holder[k] == fence {
		delete(l.holder, k)
	}
}

// lockStep judges an event that stands under a fence.
func (j *judge) lockStep(h *chain.Header) {
	if h.Actor == nil || h.Actor.Fence == 0 || j.partial() || j.run != "" {
		return
	}
	j.counts.made[stepLock]++
	a, l := h.Actor, &j.locks
	if h.Type == chain.TypeLockAcquired {
		j.acquired(h)
		return
	}
	if _, live := l.live[a.Fence]; !live && j.isRange() && a.Fence < j.first && !l.seen[keyOf(a)] {
		l.hold(a)
	}
	switch held, live := l.live[a.Fence]; {
	case !live:
		j.fault(Overlap, h.Seq, stepLock, h, "fence %d is not live; %s", a.Fence, j.holderText(a))
	case keyOf(&held) != keyOf(a):
		j.fault(Overlap, h.Seq, stepLock, h, "fence %d is of role %q, context %q, and the event names role %q, context %q",
			a.Fence, held.Role, held.Context, a.Role, a.Context)
	case held.Pass != a.Pass:
		j.fault(Overlap, h.Seq, stepLock, h, "fence %d is of pass %q, and the event names pass %q", a.Fence, held.Pass, a.Pass)
	}
	switch h.Type {
	case chain.TypeLockReleased, chain.TypeLockExpired, chain.TypeLockLost:
		l.free(a.Fence)
	}
}

func (j *judge) acquired(h *chain.Header) {
	a, l := h.Actor, &j.locks
	if a.Fence != h.Seq {
		j.fault(Overlap, h.Seq, stepLock, h, "lock.acquired with fence %d, and its own number is %d", a.Fence, h.Seq)
		return
	}
	if other, held := l.holder[keyOf(a)]; held {
		j.fault(Overlap, h.Seq, stepLock, h, "role %q, context %q is held with fence %d by pass %q; this is fence %d",
			a.Role, a.Context, other, l.live[other].Pass, a.Fence)
		l.free(other)
	}
	l.hold(a)
}

// holderText says who holds the key that the actor names.
func (j *judge) holderText(a *chain.Actor) string {
	if f, ok := j.locks.holder[keyOf(a)]; ok {
		return "the lock is held with fence " + itoa(f)
	}
	return "nobody holds the lock"
}
