// Package zones loads time zones by name: from the files of the host first, and from those in the program behind them, so that a static binary in an empty image knows them, too.
package zones

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
	_ "time/tzdata" // behind the files of the host
)

// Embedded is the release of the time zone database in the program: that of the Go toolchain.
const Embedded = "2025c"

// Load returns the zone of a name that every process can find: "" and Local name another zone in each.
func Load(name string) (*time.Location, error) {
	switch name {
	case "", "Local":
		return nil, errors.New("is no name of the time zone database")
	case "UTC":
		return time.UTC, nil
	}
	return time.LoadLocation(name)
}

// Source is where zones come from.
type Source struct {
	Path    string // folder or archive; "" = those in the program
	Release string // such as 2026f; "" = unknown
}

// Older says whether zones of the program would be newer.
func (s Source) Older() bool { return s.Release != "" && s.Release < Embedded }

// Find returns where this process finds most names. A name that the files of the host lack comes from those in the program.
func Find() Source {
	var places []string
	if env := os.Getenv("ZONEINFO"); env != "" {
		places = append(places, env)
	}
	if runtime.GOOS != "windows" {
		places = append(places, "/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/usr/lib/locale/TZ", "/etc/zoneinfo") // as package time
	}
	return find(places)
}

func find(places []string) Source {
	for _, place := range places {
		info, err := os.Stat(place)
		if err != nil {
			continue
		}
		if !info.IsDir() {
			return Source{Path: place}
		}
		for _, name := range []string{"Europe/Berlin", "America/New_York", "Asia/Tokyo", "Etc/UTC"} {
			if _, err := os.Stat(filepath.Join(place, name)); err == nil {
				return Source{Path: place, Release: release(place)}
			}
		}
	}
	return Source{Release: Embedded}
}

var releases = regexp.MustCompile(`^(?:# version )?(\d{4}[a-z]+)`)

// release reads the first line of the files that name it: tzdata.zi on Linux, +VERSION on macOS and BSD.
func release(folder string) string {
	for _, name := range []string{"tzdata.zi", "+VERSION"} {
		f, err := os.Open(filepath.Join(folder, name))
		if err != nil {
			continue
		}
		line, _ := bufio.NewReader(f).ReadString('\n')
		f.Close()
		if m := releases.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			return m[1]
		}
	}
	return ""
}
