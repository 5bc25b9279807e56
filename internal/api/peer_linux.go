package api

import (
	"net"
	"syscall"

	"github.com/docket-audit/docket/chain"
)

// peerOf asks the kernel who connected: SO_PEERCRED, as it was at connect. It
// is nil where the kernel doesn't say, and then no event carries a peer.
func peerOf(u *net.UnixConn) *chain.Peer {
	raw, err := u.SyscallConn()
	if err != nil {
		return nil
	}
	var p *chain.Peer
	_ = raw.Control(func(fd uintptr) { // an error leaves p nil
		cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		if err == nil && cred.Pid >= 0 {
			p = &chain.Peer{GID: uint64(cred.Gid), PID: uint64(cred.Pid), UID: uint64(cred.Uid)}
		}
	})
	return p
}
