package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/taktworks/takt/internal/filelock"
	"github.com/taktworks/takt/internal/nearest"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/telemetry"
	"github.com/taktworks/takt/internal/utf8text"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/publisher"
	"github.com/taktworks/takt/workflow"
)

// Config is what every command takes. Each flag --some-name is also the environment variable TAKT_SOME_NAME and the
// member some-name of the configuration file; flags beat environment beats file.
type Config struct {
	Config string `name:"config" type:"path" help:"YAML file with the names of these flags." placeholder:"FILE" group:"config"`

	Redis         string `help:"Redis or Valkey: redis://[user:password@]host:port/db, rediss://, redis+sentinel://host:port/master, unix:///path." placeholder:"URL" group:"store"`
	RedisUsername string `help:"User name for Redis, beats that of the URL." group:"store"`
	RedisPassword string `help:"Password for Redis, beats that of the URL." group:"store" secret:""`
	RedisCA       string `name:"redis-ca" type:"path" help:"PEM file of the authority of Redis' certificate." placeholder:"FILE" group:"store"`
	RedisCert     string `type:"path" help:"PEM file of the client certificate for Redis." placeholder:"FILE" group:"store"`
	RedisKey      string `type:"path" help:"PEM file of its key." placeholder:"FILE" group:"store"`

	RedisServerName       string `help:"Name that the certificate of each Redis server must have, where all have the same; if not given the one by which each is reached, which for nodes is what sentinels or the cluster announce." placeholder:"NAME" group:"store"`
	RedisSentinelUsername string `help:"User name for the sentinels themselves." group:"store"`
	RedisSentinelPassword string `help:"Password for the sentinels themselves." group:"store" secret:""`

	Prefix string `help:"First part of every Redis key; {takt} on a cluster." default:"takt" group:"store"`
	Shards int    `help:"How many parts workflow instances are spread over, for a cluster: the same in all processes. With more than 1, part i has the prefix {PREFIX-i}, also if PREFIX has braces around it for tasks." default:"1" group:"store"`

	WorkflowRetention time.Duration `help:"How long executions of workflows are kept that takt workflow terminate ends; 0 = for ever. Programs say it for those that they end." default:"168h" group:"store"`

	MQTT         string `name:"mqtt" help:"MQTT 5 broker: mqtt://[user:password@]host:port, mqtts://host:port, or over WebSocket ws://host:port/path or wss://host:port/path." placeholder:"URL" group:"broker"`
	MQTTUsername string `name:"mqtt-username" help:"User name for the broker." group:"broker"`
	MQTTPassword string `name:"mqtt-password" help:"Password for the broker." group:"broker" secret:""`
	MQTTCA       string `name:"mqtt-ca" type:"path" help:"PEM file of the authority of the broker's certificate." placeholder:"FILE" group:"broker"`
	MQTTCert     string `name:"mqtt-cert" type:"path" help:"PEM file of the client certificate for the broker." placeholder:"FILE" group:"broker"`
	MQTTKey      string `name:"mqtt-key" type:"path" help:"PEM file of its key." placeholder:"FILE" group:"broker"`
	TopicPrefix  string `help:"First part of every topic." default:"takt" group:"broker"`

	ConnectTimeout time.Duration `help:"How long a command of the command line tries to reach the broker; at most its --timeout, if it has one." default:"3s" group:"broker"`

	UnknownMembers string `help:"Members of recipes, orders and configuration that Takt does not know: refuse them, keep them, or ignore them as before." default:"refuse" enum:"refuse,keep,ignore" group:"process"`

	Data      string `type:"path" help:"Folder for what this instance keeps: its id, and the data of a store or broker that takt starts itself." default:"takt-data" placeholder:"DIR" group:"process"`
	Instance  string `help:"Name of this process among all of them; made once and kept in the data folder if not given." group:"process"`
	LogLevel  string `help:"debug, info, warn or error." default:"info" enum:"debug,info,warn,error" group:"process"`
	LogFormat string `help:"text or json." default:"text" enum:"text,json" group:"process"`

	TraceEndpoint   string  `help:"OpenTelemetry collector that gets the traces of serve, dev, task run, task submit and schedule serve, by OTLP over HTTP: http://host:4318; none are made if empty. Headers and certificates are those of OTEL_EXPORTER_OTLP_HEADERS, _CERTIFICATE and so on." placeholder:"URL" group:"process"`
	MetricsEndpoint string  `help:"OpenTelemetry collector that gets the metrics of serve, dev, task run, schedule serve and processor run once a minute, by OTLP over HTTP: http://host:4318; none are sent if empty. Headers and so on as for traces." placeholder:"URL" group:"process"`
	TraceRatio      float64 `help:"Part of the traces that begin here that is kept: 0 to 1." default:"1" group:"process"`
	inProcessBroker bool    // MQTT is the broker inside this process
	ownBroker       bool    // started by this process
	looks           bool    // the command only reads

	TraceService string `help:"Name of this program in traces and metrics that are sent." default:"takt" group:"process"`
}

// ServeConfig is what the processes that do the work take beside Config.
type ServeConfig struct {
	RetainedConfig `embed:""`
	ReadCount      int           `name:"publisher-read-count" help:"Changes that the publisher reads at once, 1 to 10000." must:"be 1 to 10000" default:"500" placeholder:"N" group:"serve"`
	ReadBlock      time.Duration `name:"publisher-read-block" help:"How long a read of the publisher waits for changes, 10ms to 1m." must:"be 10ms to 1m" default:"500ms" group:"serve"`

	silence time.Duration // how long a server may be silent at the start before the log says so; 0 = any time

	Roles                []string      `help:"What this process does: receiver, engine, publisher." default:"receiver,engine,publisher" group:"serve"`
	Drain                time.Duration `help:"How long a stop waits for work in hand." must:"be at least 0s" default:"10s" group:"serve"`
	WorkerTTL            time.Duration `name:"worker-ttl" help:"Another process takes over the work of a dead one after this time." must:"be at least 100ms" default:"10s" group:"serve"`
	Slots                int           `help:"How many work items, commands or events this process handles at once." must:"be 1 to 4096" default:"64" group:"serve"`
	ShareGroup           string        `help:"Name of the shared subscription of all instances." default:"takt" group:"serve"`
	HoldWhenAway         time.Duration `help:"How long a command waits for Redis before it is answered SERVICE_UNAVAILABLE." must:"be at least 0s" default:"10s" group:"serve"`
	ReplyTopics          []string      `name:"reply-topics" help:"Topics outside the topic prefix that a command may name for its reply, as filters with + and #; * = any, which lets senders of commands write wherever Takt may. Below the prefix only {topic-prefix}/{scope}/replies/{requester} is allowed. A command with another response topic is not carried out." default:"mes/#" placeholder:"FILTER" group:"serve"`
	RequireConfiguration bool          `help:"Refuse orders for scopes that were never configured; one configuration event of any kind configures a scope." default:"true" negatable:"" group:"serve"`
	RedisWait            int           `name:"redis-wait" help:"A command is answered, and an equipment command sent, only when so many replicas of Redis have the change; until then the answer is SERVICE_UNAVAILABLE. 0 = the master is enough, and a failover may lose what it alone has." must:"be 0 (the master is enough) or more" default:"0" placeholder:"N" group:"serve"`
	RedisWaitDisk        bool          `name:"redis-wait-disk" help:"They, and the master, must have it in their append-only files, not in memory alone: Valkey, or Redis 7.2 or later." group:"serve"`
	RedisWaitWithin      time.Duration `name:"redis-wait-within" help:"How long they may take." must:"be at least 1ms" default:"1s" group:"serve"`
	MessageExpiry        time.Duration `help:"MessageExpiryInterval of replies and status events; 0 = none." must:"be at least 0s" default:"0s" group:"serve"`
	EndStateRetention    time.Duration `help:"How long documents of cleared and cancelled orders are kept." must:"be at least 1s" default:"168h" group:"serve"`
	AbandonedAfter       time.Duration `help:"Clear job orders that ended longer ago and that no MES has cleared, with their retained results; 0 = never." default:"0s" group:"serve"`
	ReplyRetention       time.Duration `help:"How long a repeated command still gets its first reply." must:"be at least 1s" default:"2h" group:"serve"`
	MailboxRetention     time.Duration `help:"How long an equipment event that came before any action waits for it is kept for orders that start later; an order that was running when it came may take it for a day more." must:"be at least 1s" default:"60s" group:"serve"`
	SessionExpiry        time.Duration `help:"How long the broker keeps what comes for an instance that is away and that no other instance replaces; 0 = nothing is kept." must:"be at least 0s" default:"1h" group:"serve"`
	IntakeBytes          int           `help:"Bytes of messages from the broker that this process holds at once; beyond it the broker keeps them." must:"be at least 1048576, for one message may be that large" default:"67108864" group:"serve"`
	Console              string        `help:"Address for the web console, for example 127.0.0.1:8420, port 0 is a free one; not served if empty, but by takt dev and takt demo --keep. One that other machines reach takes --console-users, and --console-tls-cert or --console-trusted-proxy." placeholder:"ADDR" group:"serve"`
	ConsoleFlags         consoleFlags  `embed:"" prefix:"console-" group:"serve"`
	HTTP                 string        `name:"http" help:"Address for /metrics, /livez and /readyz, for example 127.0.0.1:9464; not served if empty." placeholder:"ADDR" group:"serve"`
}

// minAbandoned is the least --abandoned-after: a clock that is set forward ages all results.
const minAbandoned = 24 * time.Hour

// RetainedConfig is how the retained topics look; who compares them must know it, too.
type RetainedConfig struct {
	RetainedTTL    time.Duration `name:"publisher-retained-ttl" help:"MessageExpiryInterval of retained topics, which are renewed before." must:"be at least 1m0s" default:"48h" group:"serve"`
	StateIndexKeys string        `help:"Spelling of the state in state-index: page (state_text) or wire (StateText)." default:"page" enum:"page,wire" group:"serve"`
	OrderPayload   string        `help:"Payload of order/{id}: order, or with_state." default:"order" enum:"order,with_state" group:"serve"`
}

func (c *RetainedConfig) publisherOptions(topicPrefix string, log *slog.Logger) publisher.Options {
	return publisher.Options{
		TopicPrefix: topicPrefix, RetainedTTL: c.RetainedTTL, StateIndexKeys: isa95.Spelling(c.StateIndexKeys),
		OrderPayload: publisher.OrderPayload(c.OrderPayload), Log: log,
	}
}

// validate names the field, its value and the rule.
func (c *Config) validate() error {
	var errs []error
	bad := func(field, value, rule string) {
		errs = append(errs, fmt.Errorf("--%s is %q: %s", field, value, rule))
	}
	if c.Prefix == "" || len(c.Prefix) > 64 || strings.ContainsAny(c.Prefix, " \t\r\n*?[]") {
		bad("prefix", c.Prefix, "must be 1 to 64 bytes without white space, *, ?, [ and ]")
	}
	if err := redis.CheckURL(c.Redis); c.Redis != "" && err != nil {
		errs = append(errs, fmt.Errorf("--redis: %w", err))
	}
	if err := mqtt.CheckURL(c.MQTT); c.MQTT != "" && err != nil {
		errs = append(errs, fmt.Errorf("--mqtt: %w", err))
	}
	if c.Shards < 1 || c.Shards > workflow.MaxShards {
		bad("shards", strconv.Itoa(c.Shards), fmt.Sprintf("must be 1 to %d", workflow.MaxShards))
	}
	if c.ConnectTimeout <= 0 {
		bad("connect-timeout", c.ConnectTimeout.String(), "must be more than 0, for example 3s")
	}
	if c.WorkflowRetention != 0 && c.WorkflowRetention < time.Second {
		bad("workflow-retention", c.WorkflowRetention.String(), "must be 0 (for ever) or at least 1s")
	}
	if err := checkTopicPrefix(c.TopicPrefix); err != "" {
		bad("topic-prefix", c.TopicPrefix, err)
	}
	if c.Instance != "" {
		if _, err := isa95.ParseScope(c.Instance); err != nil {
			bad("instance", c.Instance, "must be 1 to 128 bytes without / + # and control characters, for it stands in topics and keys")
		}
	}
	if !(c.TraceRatio >= 0 && c.TraceRatio <= 1) { // NaN is neither
		bad("trace-ratio", fmt.Sprint(c.TraceRatio), "must be 0 to 1")
	}
	return errors.Join(errs...)
}

func checkTopicPrefix(p string) string {
	switch {
	case p == "" || len(p) > 200:
		return "must be 1 to 200 bytes"
	case strings.ContainsAny(p, "+#\x00") || strings.HasPrefix(p, "$"):
		return "must not hold + # or NUL, nor begin with $"
	case strings.HasPrefix(p, "/") || strings.HasSuffix(p, "/") || strings.Contains(p, "//"):
		return "must not begin or end with /, nor have an empty level"
	}
	return ""
}

// check refuses what is of no use to a process that does the work.
func (c *ServeConfig) check(a *app) error {
	var errs []error
	if len(c.Roles) == 0 {
		errs = append(errs, fmt.Errorf("--roles is empty: must be of %s", strings.Join(allRoles, ", ")))
	}
	for _, role := range c.Roles {
		if !slices.Contains(allRoles, role) {
			errs = append(errs, fmt.Errorf("--roles has %q: must be of %s", role, strings.Join(allRoles, ", ")))
		}
	}
	if c.AbandonedAfter != 0 && c.AbandonedAfter < minAbandoned {
		errs = append(errs, fmt.Errorf("--abandoned-after is %v: must be 0 (never) or at least %v, for nobody has taken what it clears, and dates may be wrong by hours", c.AbandonedAfter, minAbandoned))
	}
	if err := jobcontrol.CheckReplyTopics(a.TopicPrefix, c.ReplyTopics); err != nil {
		errs = append(errs, fmt.Errorf("--reply-topics: %w; name filters of topics such as mes/#, or * for any", err))
	}
	if strings.ContainsAny(c.ShareGroup, "/+#") || c.ShareGroup == "" {
		errs = append(errs, fmt.Errorf("--share-group is %q: must not be empty nor hold / + #", c.ShareGroup))
	}
	if c.HTTP != "" {
		if _, _, err := net.SplitHostPort(c.HTTP); err != nil {
			errs = append(errs, fmt.Errorf("--http is %q: must be host:port: %w", c.HTTP, err))
		}
	}
	return errors.Join(errs...)
}

// settings is where values come from beside the command line: the file and the environment.
type settings struct {
	file   map[string]any // of the YAML file, by flag name; see parseConfig
	lines  map[string]int // of its names
	path   string
	getenv func(string) (string, bool)
	flags  map[string]bool // of all commands, after Validate
}

// loadSettings reads the file named by --config or TAKT_CONFIG, or takt.yaml in the working directory if there is one.
func loadSettings(args []string, getenv func(string) (string, bool)) (*settings, error) {
	s := &settings{getenv: getenv}
	explicit := true
	s.path = flagValue(args, "config")
	if s.path == "" {
		s.path, _ = getenv("TAKT_CONFIG")
	}
	if s.path == "" {
		s.path, explicit = "takt.yaml", false
	}
	text, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) && !explicit {
		s.path = ""
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	if text, err = utf8text.Of(text); err == nil {
		s.file, s.lines, err = parseConfig(text)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", s.path, err)
	}
	return s, nil
}

func flagValue(args []string, name string) string {
	for i, arg := range args {
		if v, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return v
		}
		if arg == "--"+name && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// flagsOf are the names of the flags of all commands; true: a secret.
func flagsOf(app *kong.Application) map[string]bool {
	flags := make(map[string]bool)
	_ = kong.Visit(app, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			flags[flag.Name] = flag.Tag.Has("secret")
		}
		return next(nil)
	})
	return flags
}

// hideSecrets leaves the secrets of a command line out of an error about it, which quotes what it cannot read.
func hideSecrets(app *kong.Application, problem string, args []string) string {
	for name, secret := range flagsOf(app) {
		if value := flagValue(args, name); secret && value != "" {
			problem = strings.ReplaceAll(problem, strconv.Quote(value), `"(hidden)"`)
		}
	}
	return problem
}

func envName(flag string) string {
	return "TAKT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Validate is part of kong.Resolver. It refuses names in the file that are no flags of any command.
func (s *settings) Validate(app *kong.Application) error {
	s.flags = flagsOf(app)
	for name := range s.file {
		if _, ok := s.flags[name]; !ok || name == "config" {
			return fmt.Errorf("%s: %s is no setting; see takt config", s.place(name), settingName(name))
		}
	}
	return nil
}

// handed are variables that takt sets for the programs it runs: `takt task run --exec`, `takt board work --exec`, `takt processor run --exec`, `takt dev --exec`.
var handed = regexp.MustCompile(`^TAKT_(TASK_(ID|NAME|ATTEMPT|FENCE)|BOARD_(UUID|NAME|OWNER|ATTEMPT|FENCE)|EVENT_(ID|TYPE|SOURCE|SUBJECT|TIME)|REDIS_EMBEDDED)$`)

// foreign are variables of other programs: those that Kubernetes sets for services whose names begin with takt, and those of Takt's own tests.
var foreign = regexp.MustCompile(`^TAKT_(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_[0-9]+_.*)?)$|^TAKT_(TEST_.*|MUTANT)$`)

// strays are the variables of environ with the names of settings that do not exist, with the setting that is meant, "" = none is near.
func (s *settings) strays(environ []string) map[string]string {
	known := make(map[string]bool)
	var names []string
	for flag := range s.flags {
		known[envName(flag)] = true
		names = append(names, strings.TrimPrefix(envName(flag), "TAKT_"))
	}
	slices.Sort(names)
	found := make(map[string]string)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		word, ours := strings.CutPrefix(name, "TAKT_")
		if !ours || value == "" || known[name] || handed.MatchString(name) || foreign.MatchString(name) {
			continue
		}
		found[name] = ""
		if meant := nearest.Name(word, names); meant != "" {
			found[name] = "TAKT_" + meant
		}
	}
	return found
}

// Resolve is part of kong.Resolver: the value of a flag that is not on the command line.
func (s *settings) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	value, _ := s.lookup(flag.Name)
	switch value := value.(type) {
	case map[string]any:
		if !flag.IsMap() {
			return nil, fmt.Errorf("%s: %s has members: must be a text or a number; a text in braces needs quotes, such as \"{takt}\"", s.place(flag.Name), flag.Name)
		}
	case []string:
		if !flag.IsSlice() {
			return nil, fmt.Errorf("%s: %s is a list: must be a text or a number", s.place(flag.Name), flag.Name)
		}
		if flag.Tag.Sep == -1 { // the flag is repeated
			elements := make([]any, len(value))
			for i, text := range value {
				elements[i] = text
			}
			return elements, nil
		}
		return kong.JoinEscaped(value, flag.Tag.Sep), nil
	}
	return value, nil
}

// place is where a setting stands in the file: FILE:LINE.
func (s *settings) place(name string) string { return fmt.Sprintf("%s:%d", s.path, s.lines[name]) }

// flagAtStart is the flag with which an error about a setting begins.
var flagAtStart = regexp.MustCompile(`(?m)^--([a-z0-9-]+)\b`)

// placed names file and line in an error about settings, in the place of the flags that have their values from there.
func (s *settings) placed(problem string, args []string) string {
	return flagAtStart.ReplaceAllStringFunc(problem, func(flag string) string {
		name := flag[2:]
		_, origin := s.lookup(name)
		given := slices.ContainsFunc(args, func(arg string) bool { return arg == flag || strings.HasPrefix(arg, flag+"=") || arg == "--no-"+name })
		if given || !strings.HasPrefix(origin, "file ") {
			return flag
		}
		return s.place(name) + ": " + name
	})
}

func (s *settings) lookup(flag string) (value any, origin string) {
	if flag == "help" {
		return nil, ""
	}
	if text, _ := s.getenv(envName(flag)); text != "" { // empty: a deployment has no value for it
		return text, "environment " + envName(flag)
	}
	if value, ok := s.file[flag]; ok {
		return value, "file " + s.path
	}
	return nil, ""
}

// traces makes what sends spans to the collector, nil if none is named. instance is the name of this process, "" = one by host and process id.
func (c *Config) traces(ctx context.Context, instance string, log *slog.Logger) (*telemetry.Traces, error) {
	if c.TraceEndpoint == "" {
		return nil, nil
	}
	t, err := telemetry.NewTraces(ctx, telemetry.TraceOptions{Collector: c.collector(c.TraceEndpoint, instance, log), Ratio: c.TraceRatio})
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return t, nil
}

// push makes what sends metrics to the collector, nil if none is named.
func (c *Config) push(ctx context.Context, m *telemetry.Metrics, instance string, log *slog.Logger) (*telemetry.Push, error) {
	if c.MetricsEndpoint == "" {
		return nil, nil
	}
	p, err := telemetry.NewPush(ctx, m, c.collector(c.MetricsEndpoint, instance, log))
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return p, nil
}

func (c *Config) collector(endpoint, instance string, log *slog.Logger) telemetry.Collector {
	if instance == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "takt"
		}
		instance = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	return telemetry.Collector{Endpoint: endpoint, Service: c.TraceService, Version: readBuild().Version, Instance: instance, Log: log}
}

// endpoints is what `takt dev` leaves in its data folder, so that other commands find its store and broker.
type endpoints struct {
	Redis, MQTT, Prefix, TopicPrefix string
	Embedded                         bool
	PID                              int
}

const endpointsFile = "dev.json"

func (c *Config) writeEndpoints(e endpoints) error {
	text, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.Data, endpointsFile), append(text, '\n'), 0o600)
}

// useEndpoints fills in the store and broker of a running `takt dev`, and its prefixes, as far as none are given.
func (a *app) useEndpoints() (embedded bool) {
	c := a.Config
	if c.Redis != "" && c.MQTT != "" {
		return false
	}
	text, err := os.ReadFile(c.dataFile(endpointsFile))
	if err != nil {
		return false
	}
	var e endpoints
	if json.Unmarshal(text, &e) != nil || !alive(e.PID) {
		return false
	}
	if c.Redis == "" {
		c.Redis, embedded = e.Redis, e.Embedded
		if !a.given("prefix") {
			c.Prefix = e.Prefix
		}
	}
	if c.MQTT == "" {
		c.MQTT = e.MQTT
		if !a.given("topic-prefix") {
			c.TopicPrefix = e.TopicPrefix
		}
	}
	return embedded
}

func (c *Config) dataFile(name string) string { return filepath.Join(c.Data, name) }

func alive(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return pid > 0 && err == nil
}

func (c *Config) needRedis() error {
	if c.Redis == "" {
		return errors.New("no Redis is named: give --redis URL or TAKT_REDIS, or start `takt dev` in this folder")
	}
	return nil
}

// findBroker names the broker of the settings, or of a takt dev that runs.
func (a *app) findBroker() error {
	a.useEndpoints()
	if err := a.needMQTT(); err != nil {
		return &exitError{exitUsage, err}
	}
	return nil
}

func (c *Config) needMQTT() error {
	if c.MQTT == "" {
		return errors.New("no MQTT broker is named: give --mqtt URL or TAKT_MQTT, or start `takt dev` in this folder")
	}
	return nil
}

// claimInstance returns the name of this process: --instance, or one that is made once and kept in the data folder. Every
// process that uses the same folder at the same time gets a name of its own, and the same one again after a restart;
// release gives it back.
func (c *Config) claimInstance() (name string, release func(), err error) {
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return "", nil, c.dataError(err)
	}
	if c.Instance != "" {
		file, err := filelock.Open(c.dataFile("instance-" + sanitize(c.Instance) + ".lock"))
		if errors.Is(err, filelock.ErrHeld) {
			return "", nil, fmt.Errorf("--instance %s: another process of %s has this name: %w", c.Instance, c.Data, err)
		}
		if err != nil {
			return "", nil, c.dataError(err)
		}
		return c.Instance, func() { file.Close() }, nil
	}
	for n := 1; ; n++ {
		file, err := filelock.Open(c.dataFile(fmt.Sprintf("instance-%d", n)))
		if errors.Is(err, filelock.ErrHeld) {
			continue // another process has this name
		}
		if err != nil {
			return "", nil, c.dataError(err)
		}
		name, err := readOrMakeName(file)
		if err != nil {
			file.Close()
			return "", nil, c.dataError(fmt.Errorf("the name of this process cannot be kept in %s: %w", file.Name(), err))
		}
		return name, func() { file.Close() }, nil
	}
}

// dataError says that the data folder cannot be written, and what to do.
func (c *Config) dataError(err error) error {
	return fmt.Errorf("--data is %q: this process cannot write there: %w; name a folder that it may write to with --data or TAKT_DATA", c.Data, err)
}

// nameFile is a file with the name of a process.
type nameFile interface {
	io.Reader
	io.WriterAt
	Truncate(size int64) error
	Sync() error
}

// readOrMakeName returns the name in a file, which ends with a line feed, or makes one. A name is used once it is on the disk, for the broker keeps a session under
// it: what a full disk or a power failure left of one was never used, and the file is empty or written anew.
func readOrMakeName(file nameFile) (string, error) {
	text, err := io.ReadAll(io.LimitReader(file, 256))
	if err != nil {
		return "", err
	}
	if line, whole := strings.CutSuffix(string(text), "\n"); whole {
		if name := strings.TrimSpace(line); name != "" {
			return name, nil
		}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "takt"
	}
	name := sanitize(host) + "-" + randomHex(4)
	if err = file.Truncate(0); err == nil {
		_, err = file.WriteAt([]byte(name+"\n"), 0)
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		return "", errors.Join(err, file.Truncate(0))
	}
	return name, nil
}
