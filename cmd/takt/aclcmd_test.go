package main

import (
	"strings"
	"testing"
)

// takt acl gives each user its rights, and refuses what would give one those of another.
func TestACL(t *testing.T) {
	t.Chdir(t.TempDir())
	code, out, errOut := takt("acl", "--topic-prefix", "plant", "--mes", "erp:client-1=a,b", "--equipment", "plc=a", "--operator", "ops")
	if code != 0 {
		t.Fatal(errOut)
	}
	for _, want := range []string{
		"user takt\ntopic readwrite plant/#\ntopic write mes/#\n", "user erp\ntopic write plant/a/commands\ntopic write plant/b/commands\ntopic write plant/processors/+/a\ntopic write plant/processors/+/b\ntopic read mes/responses/client-1\n",
		"topic readwrite plant/private/client-1/#\n", "user plc\ntopic write plant/processors/+/a\ntopic read plant/a/replies/plc\ntopic read plant/equipment/a/commands\ntopic write plant/responses/#\n", "user ops\ntopic write plant/+/commands\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	for _, test := range []struct{ flag, value, want string }{
		{"mes", "erp", "want USER=SCOPE"},
		{"mes", "erp=", "want USER=SCOPE"},
		{"mes", "erp=a/b", `"a/b"`},
		{"equipment", "plc=+", `"+"`},
		{"equipment", "plc=#", `"#"`},
		{"mes", "erp=private", `"private"`},
		{"mes", "e rp=a", `"e rp"`},
		{"mes", "erp:#=a", `"#"`},
		{"mes", "takt=a", "named twice"},
		{"reply-topics", "$SYS/#", "$SYS/#"},
		{"reply-topics", "takt/+/answers", "takt/+/answers"},
		{"observer", "a\nuser takt", "white space"},
	} {
		code, out, errOut := takt("acl", "--"+test.flag, test.value)
		if code != 2 || out != "" || !strings.Contains(errOut, "--"+test.flag) || !strings.Contains(errOut, test.want) {
			t.Errorf("--%s %q: %d, %s%s", test.flag, test.value, code, out, errOut)
		}
	}
}

// The configuration that is shipped is the one that the code makes, and takes every party.
func TestShippedACL(t *testing.T) {
	for _, u := range exampleUsers {
		if !strings.Contains(aclFile(), "\nuser "+u.Name+"\n") {
			t.Errorf("%s is missing", u.Name)
		}
	}
}
