//go:build !linux

package main

import "syscall"

// childAttributes: as on Linux, but there only the supervisor itself can end its
// children: don't kill it with SIGKILL.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
