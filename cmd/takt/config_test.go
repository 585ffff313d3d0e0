package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// takt runs a command in this process.
func takt(args ...string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	code = run(args, strings.NewReader(""), &out, &errOut)
	return code, out.String(), errOut.String()
}

// settingsOf runs `takt config --json` and returns what is in force, by name.
func settingsOf(t *testing.T, args ...string) map[string]setting {
	t.Helper()
	code, out, errOut := takt(append([]string{"config", "--json"}, args...)...)
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, errOut)
	}
	var all []setting
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	byName := map[string]setting{}
	for _, s := range all {
		byName[s.Name] = s
	}
	return byName
}

// Flags beat environment beats file beats default, and each setting says where it is from.
func TestConfigOrigins(t *testing.T) {
	t.Chdir(t.TempDir())
	file := write(t, ".", "plant.yaml", "prefix: from-file\nslots: 7\ndrain: 3s\nroles: [receiver, engine]\nredis: redis://file:6379\n")
	for _, test := range []struct {
		name, env string
		args      []string
		want      setting
	}{
		{"default", "", nil, setting{"prefix", "takt", "default"}},
		{"default of serve", "", nil, setting{"slots", "64", "default"}},
		{"file by flag", "", []string{"--config", file}, setting{"prefix", "from-file", "file PLANT"}},
		{"file by flag, joined", "", []string{"--config=" + file}, setting{"slots", "7", "file PLANT"}},
		{"list in file", "", []string{"--config", file}, setting{"roles", "receiver,engine", "file PLANT"}},
		{"environment", "TAKT_PREFIX=from-env", []string{"--config", file}, setting{"prefix", "from-env", "environment TAKT_PREFIX"}},
		{"environment with a dash", "TAKT_WORKER_TTL=3s", nil, setting{"worker-ttl", "3s", "environment TAKT_WORKER_TTL"}},
		{"empty environment", "TAKT_PREFIX=", []string{"--config", file}, setting{"prefix", "from-file", "file PLANT"}},
		{"empty environment of a duration", "TAKT_WORKER_TTL=", nil, setting{"worker-ttl", "10s", "default"}},
		{"flag", "TAKT_PREFIX=from-env", []string{"--config", file, "--prefix", "from-flag"}, setting{"prefix", "from-flag", "flag"}},
		{"flag that says the default", "TAKT_PREFIX=from-env", []string{"--prefix", "takt"}, setting{"prefix", "takt", "flag"}},
		{"list by flag", "", []string{"--roles", "engine,publisher"}, setting{"roles", "engine,publisher", "flag"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if name, value, ok := strings.Cut(test.env, "="); ok {
				t.Setenv(name, value)
			}
			got := settingsOf(t, test.args...)[test.want.Name]
			if got.Origin == "file "+file {
				got.Origin = "file PLANT"
			}
			if got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
	t.Run("file by environment", func(t *testing.T) {
		t.Setenv("TAKT_CONFIG", file)
		if got := settingsOf(t)["slots"]; got.Value != "7" || got.Origin != "file "+file {
			t.Errorf("%+v", got)
		}
	})
	t.Run("takt.yaml", func(t *testing.T) {
		t.Chdir(t.TempDir())
		write(t, ".", "takt.yaml", "topic-prefix: hall-3\n")
		if got := settingsOf(t)["topic-prefix"]; got != (setting{"topic-prefix", "hall-3", "file takt.yaml"}) {
			t.Errorf("%+v", got)
		}
	})
}

// Secrets are never shown, wherever they come from.
func TestConfigHidesSecrets(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("TAKT_MQTT_PASSWORD", "swordfish")
	t.Setenv("TAKT_REDIS_SENTINEL_PASSWORD", "swordfish")
	args := []string{"config", "--redis-password", "swordfish", "--redis", "redis+sentinel://takt:swordfish@127.0.0.1:6379,other/plant", "--mqtt", "mqtts://mes:swordfish@127.0.0.1"}
	for _, format := range [][]string{nil, {"--json"}} {
		code, out, errOut := takt(append(args, format...)...)
		if code != 0 || strings.Contains(out+errOut, "swordfish") || strings.Count(out, "(hidden)") != 3 || strings.Count(out, "***@127.0.0.1") != 2 {
			t.Errorf("exit status %d:\n%s%s", code, out, errOut)
		}
	}
}

// A value that cannot work ends with 2 and names field, value and rule, before anything is started.
func TestConfigBadValues(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, test := range []struct {
		name, args, env, file string
		want                  []string
	}{
		{"prefix", "--prefix=a*", "", "", []string{"--prefix", `"a*"`, "without white space"}},
		{"redis without scheme", "--redis=localhost:6379", "", "", []string{"--redis", "has no scheme", "redis://localhost:6379"}},
		{"redis by environment", "", "TAKT_REDIS=redis://localhost:port", "", []string{"--redis", "1 to 65535", "redis://localhost:6379"}},
		{"redis by file", "", "", "prefix: a\nredis: http://localhost\n", []string{"takt.yaml:2: redis: ", `"http" is unknown`, "redis://localhost:6379"}},
		{"broker without scheme", "--mqtt=localhost", "", "", []string{"--mqtt", "cannot be read", "mqtt://localhost:1883"}},
		{"broker with another scheme", "--mqtt=http://localhost", "", "", []string{"--mqtt", `unknown scheme "http"`, "mqtts://", "wss://"}},
		{"topic prefix", "--topic-prefix=a/+/b", "", "", []string{"--topic-prefix", `"a/+/b"`, "must not hold + # or NUL"}},
		{"topic prefix of the system", "--topic-prefix=$SYS", "", "", []string{"--topic-prefix", `"$SYS"`, "nor begin with $"}},
		{"empty level", "--topic-prefix=a//b", "", "", []string{"--topic-prefix", `"a//b"`, "empty level"}},
		{"instance", "--instance=a/b", "", "", []string{"--instance", `"a/b"`, "/ + #"}},
		{"worker ttl", "--worker-ttl=1ms", "", "", []string{"--worker-ttl", "1ms", "at least 100ms"}},
		{"retained ttl", "--publisher-retained-ttl=1s", "", "", []string{"--publisher-retained-ttl", "1s", "at least 1m0s"}},
		{"read count", "--publisher-read-count=0", "", "", []string{"--publisher-read-count", "0", "1 to 10000"}},
		{"large read count", "--publisher-read-count=10001", "", "", []string{"--publisher-read-count", "10001", "1 to 10000"}},
		{"read block", "--publisher-read-block=9ms", "", "", []string{"--publisher-read-block", "9ms", "10ms to 1m"}},
		{"long read block", "", "", "publisher-read-block: 61s\n", []string{"takt.yaml:1: publisher-read-block is 1m1s: must be"}},
		{"abandoned after an hour", "--abandoned-after=1h", "", "", []string{"--abandoned-after", "1h", "at least 24h"}},
		{"abandoned by environment", "", "TAKT_ABANDONED_AFTER=-1s", "", []string{"--abandoned-after", "-1s"}},
		{"abandoned by file", "", "", "abandoned-after: 1m\n", []string{"takt.yaml:1: abandoned-after is 1m0s: must be"}},
		{"negative drain", "--drain=-1s", "", "", []string{"--drain", "-1s", "at least 0s"}},
		{"slots", "--slots=5000", "", "", []string{"--slots", "5000", "1 to 4096"}},
		{"reply topics", "--reply-topics=mes/#,$SYS/#", "", "", []string{"--reply-topics", `"$SYS/#"`, "$", "mes/#"}},
		{"reply topics below the prefix", "--reply-topics=mes/#,takt/#", "", "", []string{"--reply-topics", `"takt/#" allows nothing`, "takt/{scope}/replies/{requester}"}},
		{"share group", "--share-group=a/b", "", "", []string{"--share-group", `"a/b"`, "/ + #"}},
		{"http", "--http=9464", "", "", []string{"--http", `"9464"`, "host:port"}},
		{"enum", "--state-index-keys=both", "", "", []string{"--state-index-keys", `"both"`, `"page","wire"`}},
		{"number", "--slots=many", "", "", []string{"--slots", "many"}},
		{"duration", "--drain=10", "", "", []string{"--drain", `"10"`, "duration"}},
		{"by environment", "", "TAKT_SLOTS=0", "", []string{"--slots", "0", "1 to 4096"}},
		{"by file", "", "", "\n# two\nworker-ttl: 1ms\nslots: 0\n", []string{"takt.yaml:3: worker-ttl is 1ms: ", "takt.yaml:4: slots is 0: ", "at least 100ms"}},
		{"flag before file", "--slots=5000", "", "slots: 0\n", []string{"--slots is 5000"}},
		{"environment before file", "", "TAKT_SLOTS=5000", "slots: 0\n", []string{"--slots is 5000"}},
		{"no setting", "", "", "gizmos: 5\n", []string{"takt.yaml:1: ", `"gizmos" is no setting`}},
		{"the file itself", "", "", "config: other.yaml\n", []string{"takt.yaml", `"config" is no setting`}},
		{"duration without unit by file", "", "", "session-expiry: 3600\n", []string{"takt.yaml:1: session-expiry: ", `"3600"`, "duration"}},
		{"fraction by file", "", "", "shards: 1.9\n", []string{"takt.yaml:1: shards: ", `"1.9"`, "int"}},
		{"list", "", "", "redis: [a, b]\n", []string{"takt.yaml:1: redis is a list", "a text or a number"}},
		{"tag", "", "", "prefix: !!str 5\n", []string{"takt.yaml: line 1", "prefix", "without tags"}},
		{"alias", "", "", "prefix: &a b\ntopic-prefix: *a\n", []string{"takt.yaml: line 1", "prefix", "anchors"}},
		{"two documents", "", "", "prefix: a\n---\nprefix: b\n", []string{"takt.yaml: line 3", "one YAML document"}},
		{"no settings", "", "", "- a\n", []string{"takt.yaml: line 1", "NAME: VALUE"}},
		{"twice", "", "", "prefix: a\nprefix: b\n", []string{"takt.yaml: line 2", `"prefix" already defined`}},
		{"braces without quotes", "", "", "prefix: {takt}\n", []string{"takt.yaml", `"prefix" has members`, `quotes, such as "{takt}"`}},
		{"no YAML", "", "", "slots: [\n", []string{"takt.yaml", "1"}},
		{"missing file", "--config=nowhere.yaml", "", "", []string{"nowhere.yaml", "no such file"}},
		{"unknown flag", "--gizmos=2", "", "", []string{"--gizmos"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if name, value, ok := strings.Cut(test.env, "="); ok {
				t.Setenv(name, value)
			}
			if test.file != "" {
				write(t, ".", "takt.yaml", test.file)
			}
			args := []string{"config"}
			if test.args != "" {
				args = append(args, test.args)
			}
			code, _, errOut := takt(args...)
			if code != exitUsage {
				t.Errorf("exit status %d, want %d", code, exitUsage)
			}
			for _, want := range test.want {
				if !strings.Contains(errOut, want) {
					t.Errorf("%q does not say %s", errOut, want)
				}
			}
		})
	}
}

// A value is read alike from a flag, the environment and the file: it is accepted with the same outcome, or refused with the same words, behind the flag or the line of the file.
func TestConfigReadsAlike(t *testing.T) {
	for setting, values := range map[string][]string{
		"session-expiry":  {"3600", "3600s", "1h", "1e3", "0", "0s", "-1s", "014", "true", "~h", "1_0s", ".5h"},
		"shards":          {"1.9", "2", "2.0", "0x10", "010", "008", "1e1", "1_6", "+3", "true", ".inf"},
		"trace-ratio":     {"0.5", "1", "1e-1", "2", ".5", "NaN", ".nan", "0x1p-1"},
		"redis-wait-disk": {"true", "false", "yes", "no", "1", "0", "on", "True", "5"},
		"redis-password":  {"123456", "007", "1e3", "0x1F", "true", "1.50", "swordfish", "2026-01-02", "1_000", "-5"},
		"prefix":          {"123", "007", "1.0", "0o7", "true", "2026-01-02"},
		"roles":           {"receiver", "receiver,engine", "5"},
		"reply-topics":    {"mes/#", "a/1,b/2"},
	} {
		for _, value := range values {
			t.Run(setting+"="+value, func(t *testing.T) {
				t.Chdir(t.TempDir())
				outcome := func(args ...string) string {
					code, out, errOut := takt(append([]string{"config", "--json", "--redis-wait=1", "--worker-ttl=20s", "--redis-wait-within=1s"}, args...)...)
					var all []struct{ Name, Value string }
					_ = json.Unmarshal([]byte(out), &all)
					for _, s := range all {
						if s.Name == setting {
							out = s.Value
						}
					}
					return strings.ReplaceAll(fmt.Sprint(code, out, errOut), "takt.yaml:1: "+setting, "--"+setting)
				}
				flag := outcome("--" + setting + "=" + value)
				t.Setenv(envName(setting), value)
				environment := outcome()
				t.Setenv(envName(setting), "")
				write(t, ".", "takt.yaml", setting+": "+value+"\n")
				if file := outcome(); file != flag || environment != flag {
					t.Errorf("flag %s, environment %s, file %s", flag, environment, file)
				}
				write(t, ".", "takt.yaml", setting+": \""+value+"\"\n")
				if file := outcome(); file != flag {
					t.Errorf("flag %s, file with quotes %s", flag, file)
				}
			})
		}
	}
}

// No error shows a password, however wrong the file, the environment or the command line is.
func TestConfigErrorsHideSecrets(t *testing.T) {
	const secret = "-swordfish"
	for _, file := range []string{
		"redis-password: %s\nslots: [\n", "slots: [\nredis-password: %s\n", "redis-password: \"%s\nslots: 5\n", "redis-password: [%s]\n", "redis-password: {%s: 1}\n",
		"redis-password: {a: %s}\n", "redis-password:%s\n", "redis-password:%s\nslots: 5\n", "slots: 5\nredis-password:%s\n", "{redis-password:%s}\n", "redis-password: !!str %s\n",
		"redis-password: &a %s\n", "redis-password: *%s\n", "redis-password: a: %s\n", "redis-password %s: x\n", "redis-password: |\n%s\n", "- redis-password: %s\n",
		"redis-password: !%s\n", "redis-password: \"\\%s\"\n", "redis-password: %s\nredis-password: %s\n", "redis: redis://:%s@h:x\n", "mqtt: mqtt://u:%s/x@h\n",
		"trace-endpoint: http://u:%s@h:x\n", "redis-password: @%s\n", "\tredis-password: %s\n", "%%TAG %s\nslots: 5\n",
	} {
		t.Run(file, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, ".", "takt.yaml", strings.ReplaceAll(file, "%s", secret))
			if _, out, errOut := takt("config"); strings.Contains(out+errOut, secret[1:]) {
				t.Errorf("%s%s", out, errOut)
			}
		})
	}
	t.Chdir(t.TempDir())
	t.Run("environment", func(t *testing.T) {
		for _, name := range []string{"TAKT_REDIS_PASSWORD", "TAKT_MQTT_PASSWORD"} {
			t.Setenv(name, secret)
		}
		if _, out, errOut := takt("config", "--slots=x"); strings.Contains(out+errOut, secret[1:]) {
			t.Errorf("%s%s", out, errOut)
		}
	})
	for _, args := range [][]string{{"--redis-password", secret}, {"--mqtt-password", secret, "--slots=x"}, {"--redis-password=" + secret, "--slots=x"}} {
		if _, out, errOut := takt(append([]string{"config"}, args...)...); strings.Contains(out+errOut, secret[1:]) {
			t.Errorf("%q: %s%s", args, out, errOut)
		}
	}
}

func TestConfigTable(t *testing.T) {
	t.Chdir(t.TempDir())
	code, out, _ := takt("config", "--prefix", "plant")
	lines := strings.Split(out, "\n")
	if code != 0 || strings.Join(strings.Fields(lines[0]), " ") != "NAME VALUE FROM" {
		t.Fatalf("exit status %d:\n%s", code, out)
	}
	for _, line := range lines {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == "prefix" {
			if strings.Join(fields, " ") != "prefix plant flag" {
				t.Errorf("%q", line)
			}
			return
		}
	}
	t.Errorf("no prefix:\n%s", out)
}

// An environment variable that is no setting is named once with the one that is meant; what others set is left alone.
func TestStrayVariables(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, value := range map[string]string{
		"TAKT_WORKR_TTL": "3s", "TAKT_GIZMOS": "1", "TAKT_EMPTY": "", "TAKT_SLOTS": "7",
		"TAKT_TASK_ID": "1", "TAKT_BOARD_UUID": "1", "TAKT_PORT": "tcp://10.0.0.1:9464", "TAKT_PORT_9464_TCP_ADDR": "10.0.0.1", "TAKT_REDIS_SERVICE_HOST": "10.0.0.1", "TAKT_SERVICE_PORT_HTTP": "9464",
	} {
		t.Setenv(name, value)
	}
	code, _, errOut := takt("config")
	if code != exitOK || strings.Count(errOut, "level=WARN") != 2 || strings.Count(errOut, "variable=TAKT_WORKR_TTL did_you_mean=TAKT_WORKER_TTL\n") != 1 || strings.Count(errOut, "variable=TAKT_GIZMOS did_you_mean=\"\"\n") != 1 {
		t.Errorf("exit status %d:\n%s", code, errOut)
	}
}

// The command line asks for near names only.
func TestNearNames(t *testing.T) {
	t.Chdir(t.TempDir())
	for args, want := range map[string]string{
		"foo":               "unexpected argument foo\n",
		"jbo":               "unexpected argument jbo, did you mean \"job\"?\n",
		"serve --redsi x":   "unknown flag --redsi, did you mean \"--redis\"?\n",
		"serve --zzz x":     "unknown flag --zzz\n",
		"serve --mqtt-us x": "unknown flag --mqtt-us, did you mean one of \"--mqtt-username\", \"--mqtt-ca\"?\n",
	} {
		if code, _, errOut := takt(strings.Fields(args)...); code != exitUsage || !strings.Contains(errOut, "takt: "+want) {
			t.Errorf("takt %s: exit status %d, %q, want %q", args, code, errOut, want)
		}
	}
}

// Files as editors and PowerShell of Windows write them: a byte order mark is passed over, UTF-16 is named.
func TestFilesOfWindows(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		text string
		args []string
	}{
		{"prefix: plant", []string{"config", "--config"}},
		{`{"Steps": [{"Name": "A", "Initial": true}], "Transitions": [], "Actions": []}`, []string{"recipe", "draw"}},
		{"common: {x: {enabled: true}}", []string{"task", "config", "set", "--redis", "redis://127.0.0.1:1", "--connect-timeout", "1ms", "--file"}},
		{`{"JobOrderID":"B-1"}`, []string{"job", "store", "--scope", "a", "--mqtt", "mqtt://127.0.0.1:1", "--connect-timeout", "1ms"}},
	} {
		for encoding, content := range map[string]string{"mark": "\xef\xbb\xbf" + tc.text, "UTF-16": strings.Join(strings.Split(tc.text, ""), "\x00") + "\x00"} {
			file := filepath.Join(dir, encoding)
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, errOut := takt(append(slices.Clone(tc.args), file)...)
			if got := strings.Contains(errOut, "UTF-16"); got != (encoding == "UTF-16") || strings.Contains(errOut, "invalid character") || strings.Contains(errOut, "unknown flag") {
				t.Errorf("%s of %q: %s", encoding, tc.args, errOut)
			}
		}
	}
	a := &app{in: strings.NewReader("\xef\xbb\xbf{}")}
	if text, err := a.textOf("-"); err != nil || string(text) != "{}" {
		t.Errorf("%q, %v", text, err)
	}
}
