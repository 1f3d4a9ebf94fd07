package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

// errNoEngine means that no Docker engine answered; a container is then out of the question.
var errNoEngine = errors.New("no Docker engine answers")

// DefaultImage is the container image used when none is named.
const DefaultImage = "postgres:17-alpine"

// postgresPort is the server's port inside its container.
var postgresPort = network.MustParsePort("5432/tcp")

// container is a cluster in a container.
type container struct {
	image  string
	docker *testcontainers.DockerClient
	ctr    testcontainers.Container
	url    string
}

// startContainer starts the image. The host port is chosen here and not by the engine, because the engine would choose
// another one at every restart of the container.
func startContainer(ctx context.Context, o Options) (_ *container, err error) {
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoEngine, err)
	}
	c := &container{image: cmp.Or(o.Image, DefaultImage), docker: docker}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close(context.WithoutCancel(ctx)))
		}
	}()
	ping, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if _, err := docker.Ping(ping, client.PingOptions{}); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoEngine, err)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd := []string{"postgres"}
	for _, s := range o.settings() {
		cmd = append(cmd, "-c", s)
	}
	c.ctr, err = testcontainers.Run(ctx, c.image,
		testcontainers.WithLogger(tclog.NewNoopLogger()), // what matters is in the errors
		testcontainers.WithExposedPorts(postgresPort.String()),
		testcontainers.WithHostConfigModifier(func(h *dockercontainer.HostConfig) {
			h.PortBindings = network.PortMap{postgresPort: {{HostPort: strconv.Itoa(port)}}}
		}),
		testcontainers.WithEnv(map[string]string{
			"POSTGRES_HOST_AUTH_METHOD": "trust",
			"POSTGRES_INITDB_ARGS":      "--encoding=UTF8 --locale=C.UTF-8 --no-sync",
		}),
		testcontainers.WithCmd(cmd...),
		// "Fast shutdown"; the official image says so too, one made by docker import cannot.
		testcontainers.WithConfigModifier(func(c *dockercontainer.Config) { c.StopSignal = "SIGINT" }),
	)
	if err != nil {
		return nil, fmt.Errorf("start image %s: %w", c.image, err)
	}
	host, err := c.ctr.Host(ctx)
	if err != nil {
		return nil, fmt.Errorf("address of the container: %w", err)
	}
	c.url = fmt.Sprintf("postgresql://postgres@%s:%d/postgres?sslmode=disable", host, port)
	if err := awaitReady(ctx, c.url, c.alive(ctx)); err != nil {
		return nil, err
	}
	return c, nil
}

// alive returns a check that the container still runs; its error carries the end of the log.
func (c *container) alive(ctx context.Context) func() error {
	return func() error {
		state, err := c.ctr.State(ctx)
		if err != nil || state.Running {
			return nil //nolint:nilerr // an unanswered question is no proof that the container is gone
		}
		log, _ := c.Log(ctx)
		return fmt.Errorf("container exited with code %d; its log ends: %s", state.ExitCode, tail(log))
	}
}

func (c *container) Describe() string { return "testcontainers image " + c.image }

func (c *container) URL() string { return c.url }

func (c *container) Start(ctx context.Context) error {
	if err := c.ctr.Start(ctx); err != nil {
		return fmt.Errorf("start container: %w", err)
	}
	return awaitReady(ctx, c.url, c.alive(ctx))
}

func (c *container) Stop(ctx context.Context) error {
	grace := 30 * time.Second
	if err := c.ctr.Stop(ctx, &grace); err != nil {
		return fmt.Errorf("stop container: %w", err)
	}
	return nil
}

func (c *container) Kill(ctx context.Context) error {
	_, err := c.docker.ContainerKill(ctx, c.ctr.GetContainerID(), client.ContainerKillOptions{Signal: "KILL"})
	if err != nil {
		return fmt.Errorf("kill container: %w", err)
	}
	// Start refuses a container that the engine has not yet seen end.
	wait := c.docker.ContainerWait(ctx, c.ctr.GetContainerID(), client.ContainerWaitOptions{Condition: "not-running"})
	select {
	case <-wait.Result:
		return nil
	case err := <-wait.Error:
		return fmt.Errorf("wait for the killed container: %w", err)
	}
}

func (c *container) Log(ctx context.Context) ([]byte, error) {
	r, err := c.ctr.Logs(ctx)
	if err != nil {
		return nil, fmt.Errorf("read container log: %w", err)
	}
	defer r.Close()
	return io.ReadAll(r)
}

func (c *container) Close(ctx context.Context) error {
	var err error
	if c.ctr != nil {
		err = testcontainers.TerminateContainer(c.ctr, testcontainers.StopTimeout(0), testcontainers.StopContext(ctx))
	}
	return errors.Join(err, c.docker.Close())
}
