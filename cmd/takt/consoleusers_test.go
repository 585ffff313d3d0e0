package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// Users and tokens are added, listed and removed; a token is printed once, a password never; what is refused changes nothing.
func TestConsoleUsers(t *testing.T) {
	t.Chdir(t.TempDir())
	const password = "correct horse battery"
	if err := os.WriteFile("password", []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	do := func(stdin, line string) (int, string, string) {
		t.Helper()
		var out, errOut bytes.Buffer
		code := run(append([]string{"console"}, strings.Fields(line)...), strings.NewReader(stdin), &out, &errOut)
		return code, out.String(), errOut.String()
	}
	for _, c := range []struct {
		stdin, line string
		code        int
		want        string // in the output, or in the error
	}{
		{"", "user list --users users", exitUsage, "cannot be read (no such file or directory): takt console user add makes it"},
		{password + "\n", "user add anna --role operator --users users", exitOK, "user anna has the role operator"},
		{"", "user add bert --users users --password-file password", exitOK, "user bert has the role viewer"},
		{"", "user add carl --users users --no-password --role admin", exitOK, "user carl has the role admin"},
		{"", "user add dora --users users", exitUsage, "the password is empty: must have at least 12 bytes, or give --no-password"},
		{"short\n", "user add dora --users users", exitUsage, "the password has 5 bytes: must have 12 to 72"},
		{password, "user add anna --users users", exitUsage, `has a user "anna" already: remove it first, takt console user remove anna`},
		{password, "user add dora --users users --role boss", exitUsage, "--role must be one of"},
		{password, "user add d/ra --users users", exitUsage, `name "d/ra": must be 1 to 64 letters`},
		{"", "user add dora --users users --password-file none", exitUsage, "--password-file: open"},
		{"", "user add dora", exitUsage, "--users"},
		{"", "token add ci --users users --expires 2001-01-01T00:00:00Z", exitUsage, "--expires is 2001-01-01T00:00:00Z: must be later than now"},
		{"", "token add ci --users users --expires 2099-01-31T00:00:00Z", exitOK, "takt_"},
		{"", "user list --users users", exitOK, "NAME  ROLE\nanna  operator\nbert  viewer\ncarl  admin\n"},
		{"", "token list --users users", exitOK, "NAME  ROLE    EXPIRES\nci    viewer  2099-01-31T00:00:00Z\n"},
		{"", "user remove ci --users users", exitUsage, `has no user "ci"`},
		{"", "token remove ci --users users", exitOK, "ci is removed"},
		{"", "user remove anna --users users", exitOK, "anna is removed"},
		{"", "user list --users users", exitOK, "NAME  ROLE\nbert  viewer\ncarl  admin\n"},
	} {
		before, _ := os.ReadFile("users")
		code, out, errOut := do(c.stdin, c.line)
		said := out
		if c.code != exitOK {
			said = errOut
			if after, _ := os.ReadFile("users"); !bytes.Equal(before, after) {
				t.Errorf("%s changed the file", c.line)
			}
		}
		if code != c.code || !strings.Contains(said, c.want) || strings.Contains(out+errOut, password) {
			t.Errorf("%s: exit status %d, want %d and %q\n%s%s", c.line, code, c.code, c.want, out, errOut)
		}
	}
}

// A console that others would reach unguarded is refused, in the words of its command.
func TestConsoleAccess(t *testing.T) {
	t.Chdir(t.TempDir())
	servers := " --redis redis://127.0.0.1:1 --mqtt mqtt://127.0.0.1:1"
	for line, want := range map[string]string{
		"console --listen 0.0.0.0:0":                                   `--listen is "0.0.0.0:0": must be of this machine (127.0.0.1, [::1] or localhost) without TLS: give --tls-cert FILE`,
		"serve --console 0.0.0.0:0":                                    `--console is "0.0.0.0:0": must be of this machine (127.0.0.1, [::1] or localhost) without TLS: give --console-tls-cert FILE`,
		"console --listen 127.0.0.1:0 --trusted-proxy 10.0.0.5":        `--trusted-proxy is "10.0.0.5": must be the network of a proxy such as 10.0.0.5/32`,
		"console --listen 127.0.0.1:0 --trusted-proxy 10.0.0.5/8":      `without bits behind its length`,
		"console serve --listen 0.0.0.0:0 --trusted-proxy 10.0.0.5/32": `--users is "": must name a file`,
	} {
		if code, _, errOut := takt(strings.Fields(line + servers)...); code != exitUsage || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit status %d, want %q\n%s", line, code, want, errOut)
		}
	}
}
