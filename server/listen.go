package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/shapeserver/shapeserver/config"
)

// listen takes the API's port.
func listen(ctx context.Context, cfg config.Config) (net.Listener, error) {
	network, address := cfg.ListenAddr()
	return listenTCP(ctx, network, address, "SHAPESERVER_PORT")
}

// listenTCP takes a port; the error names the setting that chose it.
func listenTCP(ctx context.Context, network, address, setting string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use by another program; stop it, or choose another port with %s", address, setting)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("not allowed to listen on %s; choose a port above 1023 with %s", address, setting)
	case err != nil:
		return nil, fmt.Errorf("listen on %s (%s): %w", address, setting, err)
	}
	return l, nil
}
