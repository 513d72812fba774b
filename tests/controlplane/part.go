package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// patience is how long a part may take to end when it is asked to. None of its
// data matters afterwards.
const patience = 3 * time.Second

// errPortTaken marks an end that another choice of ports avoids.
var errPortTaken = errors.New("a port was taken")

// part is one child process.
type part struct {
	name  string
	log   string
	cmd   *exec.Cmd
	ended chan struct{}
}

// run starts this same executable as the named part.
func (p *plane) run(name string, args ...string) error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	child := &part{
		name:  name,
		log:   filepath.Join(p.path("log"), name+".log"),
		cmd:   exec.Command(executable, append([]string{name}, args...)...),
		ended: make(chan struct{}),
	}
	log, err := os.Create(child.log)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own handle
	child.cmd.Stdout, child.cmd.Stderr = log, log
	child.cmd.Dir = p.dir
	// Nothing of the caller's environment: ETCD_* are etcd's flags, and with a
	// proxy set the API server would send its webhook calls there.
	child.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + p.path("home"),
		"TMPDIR=" + p.dir,
		"ETCD_UNSUPPORTED_ARCH=" + os.Getenv("ETCD_UNSUPPORTED_ARCH"),
	}
	child.cmd.SysProcAttr = childAttributes()
	if err := child.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	p.parts = append(p.parts, child)
	go func() {
		_ = child.cmd.Wait()
		close(child.ended)
		p.died <- child // has room for all parts
	}()
	return nil
}

// stop asks, then insists. The process is known by its handle, so that a process
// which got the same number later is never hit.
func (c *part) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.ended:
		return
	case <-time.After(patience):
	}
	_ = c.cmd.Process.Kill()
	<-c.ended
}

// obituary is for a part that ended unasked.
func (c *part) obituary() error {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return fmt.Errorf("%s ended (%s), and its log can't be read: %w", c.name, c.cmd.ProcessState, err)
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	last := strings.Join(lines[max(0, len(lines)-40):], "\n")
	err = fmt.Errorf("%s ended (%s). The last lines of its log:\n%s", c.name, c.cmd.ProcessState, last)
	if strings.Contains(string(text), syscall.EADDRINUSE.Error()) {
		return errors.Join(errPortTaken, err)
	}
	return err
}
