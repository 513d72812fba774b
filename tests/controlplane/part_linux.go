package main

import "syscall"

// childAttributes: a group of its own, so that Ctrl-C reaches only the
// supervisor, which ends its children in order; and if the supervisor is killed,
// the kernel ends them.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
