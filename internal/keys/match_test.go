package keys

import (
	"strings"
	"testing"
)

// Every pattern has a key that it matches, and no other does.
func TestMatch(t *testing.T) {
	seen := make(map[string]bool)
	for rest, want := range map[string]string{
		"joborder:JO-7":                      "joborder:{id}",
		"joborder:a:list:b":                  "joborder:{id}",
		"joborder:lists":                     "joborder:{id}",
		"joborder:caf\xc3\xa9 1\n2":          "joborder:{id}",
		"joborder:\xff":                      "joborder:{id}",
		"joborder:list:m42":                  "joborder:list:{scope}",
		"joborder:list:a:b":                  "joborder:list:{scope}",
		"joborder:changes:m42":               "joborder:changes:{scope}",
		"joborder:changes:_global2":          "joborder:changes:{scope}",
		"joborder:changes:m42:dead":          "joborder:changes:{scope}",
		"joborder:changes:_global":           "joborder:changes:_global",
		"active-scopes":                      "active-scopes",
		"jobresponse:JO-7-response":          "jobresponse:{id}",
		"jobresponse:list:m42":               "jobresponse:list:{scope}",
		"jrx:bystate:m42:Ended_Completed":    "jrx:bystate:{scope}:{state}",
		"jrx:bystate:a:b:Aborted":            "jrx:bystate:{scope}:{state}",
		"workmaster:WM-1":                    "workmaster:{id}",
		"wmx:delivered:WM-1":                 "wmx:delivered:{id}",
		"wmx:content:10e858cc":               "wmx:content:{sha}",
		"workmaster:list:m42":                "workmaster:list:{scope}",
		"equipment:list:m42":                 "equipment:list:{scope}",
		"materialclass:list:m42":             "materialclass:list:{scope}",
		"materialdefinition:list:m42":        "materialdefinition:list:{scope}",
		"personnel:list:m42":                 "personnel:list:{scope}",
		"physicalasset:list:m42":             "physicalasset:list:{scope}",
		"configured-scopes":                  "configured-scopes",
		"jobacceptance:m42":                  "jobacceptance:{scope}",
		"cededupe:10e858ccd04b929644de16a81": "cededupe:{hash}",
		"transdedupe:5db36c6251983bca5598a2": "transdedupe:{hash}",
		"counter:lots:a":                     "counter:{name}",
		"poststartlock:machinery-jobs":       "poststartlock:{identifier}",
		"program:goods:stock:7":              "program:{program}:{name}",
		"event:receiver:list":                "event:receiver:list",
		"sfc:work":                           "sfc:work",
		"sfc:outbox":                         "sfc:outbox",
		"sfc:timers":                         "sfc:timers",
		"sfc:active-jobs":                    "sfc:active-jobs",
		"sfc:execution:JO-7":                 "sfc:execution:{job}",
		"sfc:execution:sfc:work:dead":        "sfc:execution:{job}",
		"sfc:cmd:1":                          "sfc:cmd:{id}",
		"sfc:corr:1":                         "sfc:corr:{id}",
		"sfc:mailbox:m42:com.acme.part.v1":   "sfc:mailbox:{scope}:{type}",
		"sfc:mailbox:a%3Ab:c:d":              "sfc:mailbox:{scope}:{type}",
		"sfc:recipe:aaaa":                    "sfc:recipe:{sha}",
		"jobhistory:JO-1":                    "jobhistory:{id}",
		"jobhistorystart:JO-1":               "jobhistorystart:{id}",
		"pubidx:m42":                         "pubidx:{scope}",
		"pubdone:m42":                        "pubdone:{scope}",
		"pubseq:m42":                         "pubseq:{scope}",
		"publisher:dirty":                    "publisher:dirty",
		"store-id":                           "store-id",
		"publisher:epoch":                    "publisher:epoch",
		"publisher:stream-cursors":           "publisher:stream-cursors",
		"publisher:lease":                    "publisher:lease",
		"publisher:deadletter":               "publisher:deadletter",
		"tasks:collecting":                   "tasks:collecting",
		"tasks:collected:note%3ASend:ann:1":  "tasks:collected:{name}",
		"worker:line-1":                      "worker:{id}",
		"samples":                            "samples",
		"instances":                          "instances",
		"console:audit":                      "console:audit",
		"lease:engine":                       "lease:{role}",
		"tasks:realtime:small":               "tasks:{priority}:{size}",
		"tasks:normal:line-3":                "tasks:{priority}:{size}",
		"tasks:normal:dead":                  "tasks:{priority}:{size}",
		"tasks:pools":                        "tasks:pools",
		"tasks:delayed":                      "tasks:delayed",
		"results:0123":                       "results:{id}",
		"results:a:b":                        "results:{id}",
		"tasks:awaited":                      "tasks:awaited",
		"tasks:counters":                     "tasks:counters",
		"tasks:dead":                         "tasks:dead",
		"tasks:dead:index":                   "tasks:dead:index",
		"tasks:known:id:a":                   "tasks:known:{key}",
		"tasks:unique:a:b":                   "tasks:unique:{key}",
		"tasks:control":                      "tasks:control",
		"tasks:cancelled":                    "tasks:cancelled",
		"tasks:rate:realtime:small":          "tasks:rate:{queue}",
		"tasks:registry":                     "tasks:registry",
		"tasks:blocked":                      "tasks:blocked",
		"tasks:watched":                      "tasks:watched",
		"tasks:replicated":                   "tasks:replicated",
		"groups:g1:callback":                 "groups:{gid}:callback",
		"groups:g1:remaining":                "groups:{gid}:remaining",
		"groups:g1:results:g1:0":             "groups:{gid}:results:{child}",
		"groups:g1:done":                     "groups:{gid}:done",
		"groups:g1:state":                    "groups:{gid}:state",
		"scheduler:lock":                     "scheduler:lock",
		"scheduler:term":                     "scheduler:term",
		"scheduler:entries":                  "scheduler:entries",
		"workflow:run:order-1:a":             "workflow:run:{id}",
		"workflow:doc:order-1:a:x1":          "workflow:doc:{id}:{x}",
		"workflow:his:order-1:x1":            "workflow:his:{id}:{x}",
		"workflow:in:order-1":                "workflow:in:{id}",
		"workflow:early:order-1:x1":          "workflow:early:{id}:{x}",
		"workflow:last:order-1":              "workflow:last:{id}",
		"workflow:tasks:default":             "workflow:tasks:{queue}",
		"workflow:activities:_system_":       "workflow:activities:{queue}",
		"workflow:held:tasks:default":        "workflow:held:tasks:{queue}",
		"workflow:held:activities:default":   "workflow:held:activities:{queue}",
		"workflow:queues":                    "workflow:queues",
		"workflow:paused":                    "workflow:paused",
		"workflow:timers":                    "workflow:timers",
		"workflow:created":                   "workflow:created",
		"workflow:active":                    "workflow:active",
		"workflow:ended":                     "workflow:ended",
		"workflow:seen":                      "workflow:seen",
		"workflow:out":                       "workflow:out",
		"workflow:out:dead":                  "workflow:out:dead",
		"workflow:gate:customer:7":           "workflow:gate:{key}",
		"workflow:gates":                     "workflow:gates",
		"workflow:counters":                  "workflow:counters",
		"workflow:schedule:nightly":          "workflow:schedule:{name}",
		"workflow:schedules":                 "workflow:schedules",
		"workflow:mended":                    "workflow:mended",
		"workflow:clock":                     "workflow:clock",
		"workflow:shards":                    "workflow:shards",
		"workflow:watched":                   "workflow:watched",
		"sfc:work:dead":                      "{stream}:dead",
		"intake:dead":                        "intake:dead",
		"sfc:clock":                          "sfc:clock",
		"replicated":                         "replicated",
		"sfc:outbox:dead":                    "{stream}:dead",
		"event:receiver:list:dead":           "{stream}:dead",
	} {
		got, ok := Match(rest)
		if !ok || got.Pattern != want {
			t.Errorf("Match(%q) = %q %v, want %s", rest, got.Pattern, ok, want)
		}
		seen[want] = true
	}
	for _, p := range All() {
		if !seen[p.Pattern] {
			t.Errorf("%s is not tested", p.Pattern)
		}
	}
}

func TestMatchRefusesJunk(t *testing.T) {
	for _, rest := range []string{
		"", "junk", ":", "joborder", "joborder:", "Joborder:1", "xjoborder:1", "joborder:list", "joborder:list:", "joborder:changes:", "jobresponse:list:",
		"jrx:bystate:m42", "jrx:bystate:m42:", "jrx:bystate::Aborted", "jrx:m42", "active-scopes:", "active-scopes2", "sfc:work:", "sfc:work2", "sfc:timers:dead",
		"sfc:mailbox:m42", "sfc:mailbox::t", "sfc:", "dead", ":dead", "junk:dead", "sfc:workXdead", "sfc:work:dead:dead", "xsfc:work:dead", "sfc:work:dead\n", "publisher:deadletter:dead",
		"publisher:lease2", "equipment:m42", "equipment:list:", "workmaster:list:", "instances:1", "probe:1:x", "wmx:WM-1",
	} {
		want := rest == "joborder:list" // an id that only looks reserved
		if p, ok := Match(rest); ok != want {
			t.Errorf("Match(%q) = %q %v", rest, p.Pattern, ok)
		}
	}
}

// What the makers make is matched, with the type that the table gives.
func TestMatchOfMadeKeys(t *testing.T) {
	k := New("{p}")
	for key, typ := range map[string]string{
		k.SfcMailbox("a:b", "c:d"): "string", k.Dedupe("m", "s", "1"): "string", k.DeadLetter(k.SfcOutbox()): "stream", k.ResponsesByState("m", "Aborted"): "set",
		k.ResourceList("personnel", "m"): "set", k.JobOrderList("m"): "zset", k.Instances(): "hash",
	} {
		if p, ok := Match(strings.TrimPrefix(key, "{p}:")); !ok || p.Type != typ {
			t.Errorf("%s: %+v %v", key, p, ok)
		}
	}
}
