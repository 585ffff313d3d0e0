package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"

	"github.com/taktworks/takt/internal/embedded"
)

// infra is the store and the broker that demo and dev work on: those named by flags, or ones that they start.
type infra struct {
	Store, Broker string // kind, for people: redis-server, miniredis, mosquitto, mochi, or the URL's host
	InProcess     bool   // the store is miniredis
	servers       []*embedded.Server
}

// external says that the store was named by a flag: what is left there stays.
func (in *infra) external() bool { return in.Store == "external" }

// infraOptions say how a store and a broker of ours run.
type infraOptions struct {
	Listen    string // of the broker: host:port, "" = a free port of 127.0.0.1
	Persist   bool   // redis-server and mosquitto keep their data in the data folder
	InProcess bool   // do not look for redis-server and mosquitto
	Private   bool   // only this user reaches the store: by a socket, or by a port with a password
}

// startInfra fills in cfg.Redis and cfg.MQTT.
func startInfra(ctx context.Context, cfg *Config, o infraOptions, log *slog.Logger) (*infra, error) {
	in := &infra{Store: "external", Broker: "external"}
	if cfg.Redis == "" {
		if err := in.startStore(ctx, cfg, o); err != nil {
			return nil, err
		}
	}
	if cfg.MQTT == "" {
		if err := in.startBroker(ctx, cfg, o, log); err != nil {
			in.stop()
			return nil, err
		}
	}
	return in, nil
}

func (in *infra) startStore(ctx context.Context, cfg *Config, o infraOptions) error {
	dir := ""
	if o.Persist {
		dir = filepath.Join(cfg.Data, "redis")
	}
	var server *embedded.Server
	var err error
	if !o.InProcess {
		server, err = startRedis(ctx, embedded.RedisOptions{Dir: dir, Persist: o.Persist, Socket: o.Private})
	}
	if o.InProcess || is[*embedded.NotFoundError](err) {
		in.InProcess = true
		mini := embedded.MiniredisOptions{}
		if o.Private {
			mini.Password = randomHex(16)
		}
		server, err = embedded.StartMiniredis(ctx, mini)
	}
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	in.servers = append(in.servers, server)
	in.Store, cfg.Redis = server.Kind, server.URL()
	return nil
}

// startRedis starts the server on the socket that o asks for or, where its path does not do for one, on a port with a password.
func startRedis(ctx context.Context, o embedded.RedisOptions) (*embedded.Server, error) {
	server, err := embedded.StartRedis(ctx, o)
	if is[*embedded.SocketPathError](err) {
		o.Socket, o.Password = false, randomHex(16)
		server, err = embedded.StartRedis(ctx, o)
	}
	return server, err
}

func (in *infra) startBroker(ctx context.Context, cfg *Config, o infraOptions, log *slog.Logger) error {
	dir := ""
	if o.Persist {
		dir = filepath.Join(cfg.Data, "broker")
	}
	listen := o.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	host, portText, err := net.SplitHostPort(listen)
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("--mqtt-listen is %q: must be host:port: %w", listen, err)}
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port < 0 || port > 65535 {
		return &exitError{exitUsage, fmt.Errorf("--mqtt-listen is %q: the port must be 0 (a free one) to 65535", listen)}
	}
	if host != "127.0.0.1" && host != "localhost" && host != "::1" {
		log.Warn("the broker listens beyond this machine and lets everybody in", "address", listen)
	}
	if port != 0 {
		free, err := net.Listen("tcp", listen)
		if err != nil {
			return &exitError{exitUsage, fmt.Errorf("the broker cannot listen on %s: %w; choose another address with --mqtt-listen, or name a broker that runs with --mqtt", listen, err)}
		}
		free.Close()
	}
	var server *embedded.Server
	if !o.InProcess {
		server, err = embedded.StartMosquitto(ctx, embedded.MosquittoOptions{Dir: dir, Host: host, Port: port})
	}
	if o.InProcess || is[*embedded.NotFoundError](err) {
		server, err = embedded.StartMochi(ctx, embedded.MochiOptions{Host: host, Port: port})
		cfg.inProcessBroker = true
	}
	if err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	in.servers = append(in.servers, server)
	in.Broker, cfg.MQTT, cfg.ownBroker = server.Kind, server.URL(), true
	return nil
}

// stop ends what startInfra started, the broker first.
func (in *infra) stop() {
	for i := len(in.servers) - 1; i >= 0; i-- {
		_ = in.servers[i].Stop() // it ends with this process at the latest
	}
}
