package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// freeAddress picks a port of the loopback address. It stays below the range from
// which systems serve listeners on port 0 and outgoing connections: those would
// often take the port between this look and its use. What still collides, the
// supervisor notices and tries again.
func freeAddress() (address, port string, err error) {
	for range 100 {
		port = strconv.Itoa(11000 + rand.IntN(21000))
		address = net.JoinHostPort("127.0.0.1", port)
		var listener net.Listener
		if listener, err = net.Listen("tcp", address); err == nil {
			return address, port, listener.Close()
		}
	}
	return "", "", fmt.Errorf("no free port on 127.0.0.1: %w", err)
}

// randomServiceRange is a part of the loopback network, so that an address of a
// Service never reaches anything but this machine; at random, so that control
// planes that run side by side (test processes do) don't give out the same ones.
func randomServiceRange() string {
	return fmt.Sprintf("127.%d.%d.0/24", 100+rand.IntN(150), rand.IntN(256))
}
