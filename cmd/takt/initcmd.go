package main

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/taktworks/takt/isa95"
)

//go:embed project
var projectFiles embed.FS

type initCmd struct {
	Dir        string   `arg:"" type:"path" help:"Folder of the project; made if it is not there. It must hold none of the files that are written."`
	Module     string   `help:"Path of the Go module; the name of DIR if not given." placeholder:"PATH"`
	Scope      string   `short:"s" help:"The station; the name of DIR if not given."`
	WorkMaster string   `help:"Id of the work master; made of the name of DIR if not given." placeholder:"ID"`
	Action     []string `help:"Actions of the recipe, in their order." default:"load,process,unload"`
	TypePrefix string   `help:"What the types of commands and events begin with: your domain, the other way round." default:"com.example" placeholder:"NAME"`
	Replace    string   `type:"path" help:"Folder with the sources of Takt, which the project uses instead of a release." placeholder:"DIR"`
}

// project is what the templates are filled with.
type project struct {
	Name, Module, Scope, WorkMaster, EventType string
	Go, Require, Replace                       string
	Actions                                    []projectAction
}

type projectAction struct {
	Name, Step, Type, Next string
	Last, NextLast         bool
}

var (
	projectName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	modulePath  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~/-]*[A-Za-z0-9]$|^[A-Za-z0-9]$`)
	identifier  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}$`)
	typePrefix  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,99}$`)
	release     = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[a-z]+\.[0-9]+)?$`)
)

// ofGo are the folders of the standard library: a module may not have their names.
var ofGo = func() map[string]bool {
	names := make(map[string]bool)
	for name := range strings.FieldsSeq("all archive arena bufio builtin bytes cmd cmp compress container context crypto database debug embed encoding errors example expvar flag fmt go hash html image index internal io iter " +
		"log maps main math mime net os path plugin reflect regexp runtime slices sort std strconv strings structs sync syscall test testing text time tool unicode unique unsafe vendor weak") {
		names[name] = true
	}
	return names
}()

func (c *initCmd) Run(a *app) error {
	p, err := c.project()
	if err != nil {
		return &exitError{exitUsage, err}
	}
	files, err := p.files()
	if err != nil {
		return err
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
		switch _, err := os.Lstat(filepath.Join(c.Dir, name)); {
		case err == nil:
			return &exitError{exitUsage, fmt.Errorf("%s is there already: choose another folder, or move it away", filepath.Join(c.Dir, name))}
		case !errors.Is(err, fs.ErrNotExist):
			return &exitError{exitUsage, fmt.Errorf("no project can be written to %s: %w", c.Dir, err)}
		}
	}
	slices.Sort(names)
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(c.Dir, name), files[name], 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.out, "%s holds %s\n\nNext:\n  cd %s\n", c.Dir, strings.Join(names, ", "), c.Dir)
	if p.Require == unreleased && p.Replace == "" {
		fmt.Fprint(a.out, "  go mod edit -replace github.com/taktworks/takt=FOLDER    # the sources of Takt: this takt is no release\n")
	}
	fmt.Fprint(a.out, "  go mod tidy\n  go test ./...\n  go run .\n")
	return nil
}

// unreleased is the version that a project of a takt without a release requires.
const unreleased = "v0.0.0"

func (c *initCmd) project() (*project, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	name := strings.ToLower(filepath.Base(dir))
	p := &project{
		Name: name, Module: cmp.Or(c.Module, name), Scope: cmp.Or(c.Scope, name), WorkMaster: cmp.Or(c.WorkMaster, "WM-"+strings.ToUpper(name)),
		EventType: c.TypePrefix + "." + name + ".lot_arrived.v1", Require: unreleased,
		Go: strings.TrimPrefix(strings.SplitN(runtime.Version(), " ", 2)[0], "go"),
	}
	if v := readBuild().Version; release.MatchString(v) {
		p.Require = v
	}
	if c.Replace != "" {
		if p.Replace, err = filepath.Abs(c.Replace); err != nil {
			return nil, err
		}
		if text, err := os.ReadFile(filepath.Join(p.Replace, "go.mod")); err != nil || !bytes.HasPrefix(text, []byte("module github.com/taktworks/takt\n")) {
			return nil, fmt.Errorf("--replace is %s: it must be the folder with the sources of Takt and their go.mod", c.Replace)
		}
	}
	_, scopeErr := isa95.ParseScope(p.Scope)
	_, workMasterErr := isa95.ParseWorkMasterID(p.WorkMaster)
	switch {
	case !projectName.MatchString(p.Name):
		return nil, fmt.Errorf("the folder is called %q: its name becomes that of the processor, and must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'", filepath.Base(dir))
	case !modulePath.MatchString(p.Module) || strings.Contains(p.Module, "..") || strings.Contains(p.Module, "//") || ofGo[p.Module] || strings.HasPrefix(p.Module+"/", "github.com/taktworks/takt/"):
		return nil, fmt.Errorf("--module is %q: must be the path of a Go module, such as example.com/press, and no package of Go's own", p.Module)
	case scopeErr != nil:
		return nil, fmt.Errorf("--scope: %w", scopeErr)
	case workMasterErr != nil:
		return nil, fmt.Errorf("--work-master: %w", workMasterErr)
	case !typePrefix.MatchString(c.TypePrefix):
		return nil, fmt.Errorf("--type-prefix is %q: must be 1 to 100 letters, digits, '.' and '-'", c.TypePrefix)
	case len(c.Action) < 2:
		return nil, fmt.Errorf("--action names %d: must be at least 2", len(c.Action))
	}
	for i, name := range c.Action {
		if !identifier.MatchString(name) || slices.ContainsFunc(p.Actions, func(a projectAction) bool { return strings.EqualFold(a.Step, camel(name)) }) {
			return nil, fmt.Errorf("--action %q: must be a letter with letters, digits and '_' after it, and make another name of a step than those before", name)
		}
		p.Actions = append(p.Actions, projectAction{Name: name, Step: camel(name), Type: c.TypePrefix + "." + p.Name + "." + name + ".v1", Last: i == len(c.Action)-1, NextLast: i == len(c.Action)-2})
		if i > 0 {
			p.Actions[i-1].Next = p.Actions[i].Step
		}
	}
	return p, nil
}

// camel is the name of a step: press_bearings becomes PressBearings.
func camel(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// files are the texts of the project by their names.
func (p *project) files() (map[string][]byte, error) {
	all, err := template.New("").Funcs(template.FuncMap{"quote": strconv.Quote}).ParseFS(projectFiles, "project/*.tmpl")
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, t := range all.Templates() {
		if t.Name() == "" {
			continue
		}
		var b bytes.Buffer
		if err := t.Execute(&b, p); err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(t.Name(), ".tmpl")
		text := b.Bytes()
		if strings.HasSuffix(name, ".go") {
			if text, err = format.Source(text); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		files[strings.Replace(name, "gitignore", ".gitignore", 1)] = text
	}
	return files, nil
}
