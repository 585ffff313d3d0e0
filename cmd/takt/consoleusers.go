package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/taktworks/takt/internal/users"
)

// usersFile is the file that a command works on.
type usersFile struct {
	Users string `required:"" type:"path" help:"File of users and tokens of the console." placeholder:"FILE"`
}

// refused is an error of the file of users, or of what is to be written there, with its exit status.
func refused(err error) error {
	if err != nil {
		return &exitError{exitUsage, err}
	}
	return nil
}

type consoleUserAddCmd struct {
	usersFile    `embed:""`
	Name         string `arg:"" help:"Name to log in by, or by which a trusted proxy knows the user."`
	Role         string `help:"viewer looks, operator steers, admin takes away for good and reads the audit." enum:"viewer,operator,admin" default:"viewer"`
	PasswordFile string `type:"path" help:"File with the password in its first line; without it the terminal asks for it twice, or it is the first line of the standard input." placeholder:"FILE"`
	NoPassword   bool   `help:"The user has none and comes through a trusted proxy alone."`
}

func (c *consoleUserAddCmd) Run(a *app) error {
	if c.NoPassword && c.PasswordFile != "" {
		return refused(errors.New("--no-password and --password-file: give one of them"))
	}
	password := ""
	if !c.NoPassword {
		var err error
		if password, err = c.password(a); err == nil && password == "" {
			err = fmt.Errorf("the password is empty: must have at least %d bytes, or give --no-password for a user whom a trusted proxy knows", users.MinPassword)
		}
		if err != nil {
			return refused(err)
		}
	}
	u, err := users.NewUser(c.Name, c.Role, password)
	if err == nil {
		err = users.Add(c.Users, u)
	}
	if err != nil {
		return refused(err)
	}
	_, err = printf(a.out, "user %s has the role %s; consoles that use %s know within 1 s\n", c.Name, c.Role, c.Users)
	return err
}

// password reads the new password: from its file, the terminal, or the standard input.
func (c *consoleUserAddCmd) password(a *app) (string, error) {
	in := a.in
	if c.PasswordFile != "" {
		file, err := os.Open(c.PasswordFile)
		if err != nil {
			return "", fmt.Errorf("--password-file: %w", err)
		}
		defer file.Close()
		in = file
	}
	if file, ok := in.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		var typed [2]string
		for i, prompt := range []string{"Password: ", "Again: "} {
			fmt.Fprint(a.err, prompt)
			text, err := term.ReadPassword(int(file.Fd()))
			fmt.Fprintln(a.err)
			if err != nil {
				return "", err
			}
			typed[i] = string(text)
		}
		if typed[0] != typed[1] {
			return "", errors.New("the two passwords differ: nothing was changed")
		}
		return typed[0], nil
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimRight(line, "\r\n"), nil
}

type consoleUserRemoveCmd struct {
	usersFile `embed:""`
	Name      string `arg:"" help:"Name of the user."`
}

func (c *consoleUserRemoveCmd) Run(a *app) error { return remove(a, c.Users, c.Name, false) }

type consoleTokenRemoveCmd struct {
	usersFile `embed:""`
	Name      string `arg:"" help:"Name of the token."`
}

func (c *consoleTokenRemoveCmd) Run(a *app) error { return remove(a, c.Users, c.Name, true) }

func remove(a *app, file, name string, token bool) error {
	if err := users.Remove(file, name, token); err != nil {
		return refused(err)
	}
	_, err := printf(a.out, "%s is removed; consoles that use %s know within 1 s\n", name, file)
	return err
}

type consoleUserListCmd struct {
	usersFile `embed:""`
}

func (c *consoleUserListCmd) Run(a *app) error { return listUsers(a, c.Users, false) }

type consoleTokenListCmd struct {
	usersFile `embed:""`
}

func (c *consoleTokenListCmd) Run(a *app) error { return listUsers(a, c.Users, true) }

func listUsers(a *app, file string, tokens bool) error {
	all, err := users.Read(file)
	if err != nil {
		return refused(err)
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, map[bool]string{false: "NAME\tROLE", true: "NAME\tROLE\tEXPIRES"}[tokens])
	for _, u := range all {
		expires := ""
		if u.Token {
			if expires = "\tnever"; !u.Expires.IsZero() {
				expires = "\t" + u.Expires.Format(time.RFC3339)
			}
		}
		if u.Token == tokens {
			fmt.Fprintf(w, "%s\t%s%s\n", u.Name, u.Role, expires)
		}
	}
	return w.Flush()
}

type consoleTokenAddCmd struct {
	usersFile `embed:""`
	Name      string    `arg:"" help:"Name of the program, for the list and the audit."`
	Role      string    `help:"viewer looks, operator steers, admin takes away for good and reads the audit." enum:"viewer,operator,admin" default:"viewer"`
	Expires   time.Time `help:"When it ends, for example 2027-01-31T00:00:00Z; never if not given." placeholder:"TIME"`
}

func (c *consoleTokenAddCmd) Run(a *app) error {
	if !c.Expires.IsZero() && !c.Expires.After(time.Now()) {
		return refused(fmt.Errorf("--expires is %s: must be later than now", c.Expires.Format(time.RFC3339)))
	}
	u, token := users.NewToken(c.Name, c.Role, c.Expires)
	if err := users.Add(c.Users, u); err != nil {
		return refused(err)
	}
	fmt.Fprintln(a.err, "Keep the token: it is shown this once, and the file has its hash alone. Programs send Authorization: Bearer TOKEN.")
	_, err := fmt.Fprintln(a.out, token)
	return err
}
