//go:build browser

package console_test

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
)

const (
	book        = "../../docs/console.md"
	album       = "../../docs/pictures/console"
	largest     = 120 << 10 // bytes of a picture
	tallest     = 1600      // px
	pictureWide = 1280
)

// pictures holds docs/console.md and its pictures to the table of pages: each page that has a picture is there once, in order, and nothing else.
func (p *plant) pictures(t *testing.T, b *browser) {
	if *update {
		for id := isa95.JobOrderID("JO-7713"); id < "JO-7719"; id = id[:6] + isa95.JobOrderID(id[6]+1) {
			p.order(id, id, p.mes.StoreAndStart)
		}
		p.state("JO-7718", "Running")
	}
	var want []string
	for _, page := range pages {
		if page.name == "" {
			continue
		}
		want = append(want, page.name)
		if *update {
			t.Run(page.name, func(t *testing.T) {
				tb := b.open(t, p.base(page.path))
				tb.screen(pictureWide, 900, "light")
				tb.visit(p.address(page.path))
				small := smaller(t, tb.picture(pictureWide, tallest, "light"))
				testenv.Must(t, os.MkdirAll(album, 0o755))
				testenv.Must(t, os.WriteFile(filepath.Join(album, page.name+".png"), small, 0o644))
				t.Logf("%d kB", len(small)>>10)
			})
		}
	}
	text, err := os.ReadFile(book)
	testenv.Must(t, err)
	var named []string
	for _, m := range regexp.MustCompile(`\]\(pictures/console/([^)]*)\.png\)`).FindAllSubmatch(text, -1) {
		named = append(named, string(m[1]))
	}
	if !slices.Equal(named, want) {
		t.Errorf("docs/console.md shows\n%q, the pages are\n%q", named, want)
	}
	files, err := filepath.Glob(filepath.Join(album, "*"))
	testenv.Must(t, err)
	for _, file := range files {
		info, err := os.Stat(file)
		testenv.Must(t, err)
		if name := strings.TrimSuffix(filepath.Base(file), ".png"); !slices.Contains(want, name) {
			t.Errorf("%s is of no page", file)
		} else if info.Size() > largest {
			t.Errorf("%s has %d bytes, at most %d are wanted", file, info.Size(), largest)
		}
	}
	if len(files) < len(want) {
		t.Errorf("%d pictures, want %d: make test-console FLAGS=-update", len(files), len(want))
	}
}

// smaller is a PNG in 255 of its colors: the most frequent ones, but none that is nearly another.
func smaller(t *testing.T, data []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(data))
	testenv.Must(t, err)
	size := from.Bounds()
	count := make(map[color.RGBA]int)
	for y := range size.Dy() {
		for x := range size.Dx() {
			count[color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)]++
		}
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	var palette color.Palette
	for _, c := range all {
		if len(palette) < 255 && (len(palette) == 0 || apart(c, palette.Convert(c).(color.RGBA)) > 10) {
			palette = append(palette, c)
		}
	}
	index := make(map[color.RGBA]uint8)
	for _, c := range all {
		index[c] = uint8(palette.Index(c))
	}
	to := image.NewPaletted(size, palette)
	for y := range size.Dy() {
		for x := range size.Dx() {
			to.SetColorIndex(x, y, index[color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)])
		}
	}
	var out bytes.Buffer
	testenv.Must(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to))
	return out.Bytes()
}

// apart is how far two colors are from each other.
func apart(a, b color.RGBA) int {
	part := func(a, b uint8) int { return max(int(a), int(b)) - min(int(a), int(b)) }
	return part(a.R, b.R) + part(a.G, b.G) + part(a.B, b.B)
}
