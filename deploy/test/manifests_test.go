package deploy_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"github.com/taktworks/takt/internal/testenv"
)

const port = 9464

// objects are what the manifests hold.
type objects struct {
	deployments map[string]*apps.Deployment
	budgets     map[string]*policy.PodDisruptionBudget
	policies    map[string]*networking.NetworkPolicy
	services    map[string]*core.Service
	namespace   core.Namespace
}

// decode reads all manifests of a folder; a member that its type does not have is an error.
func decode(t *testing.T, dir string) objects {
	t.Helper()
	all := objects{deployments: make(map[string]*apps.Deployment), budgets: make(map[string]*policy.PodDisruptionBudget), policies: make(map[string]*networking.NetworkPolicy), services: make(map[string]*core.Service)}
	var kustomization struct {
		APIVersion, Kind, Namespace string
		Resources                   []string
	}
	strictly(t, read(t, dir+"/kustomization.yaml"), &kustomization)
	files, err := filepath.Glob(dir + "/*.yaml")
	if err != nil || len(files) != len(kustomization.Resources)+1 {
		t.Fatalf("%v, of which kustomization.yaml names %v: %v", files, kustomization.Resources, err)
	}
	for _, name := range kustomization.Resources {
		for _, doc := range bytes.Split(read(t, dir+"/"+name), []byte("\n---\n")) {
			var head struct {
				Kind     string
				Metadata struct{ Name, Namespace string }
			}
			testenv.Must(t, yaml.Unmarshal(doc, &head))
			if head.Kind != "Namespace" && head.Metadata.Namespace != kustomization.Namespace {
				t.Errorf("%s: %s %s is in namespace %q", name, head.Kind, head.Metadata.Name, head.Metadata.Namespace)
			}
			var into any
			switch head.Kind {
			case "Namespace":
				into = &all.namespace
			case "Deployment":
				all.deployments[head.Metadata.Name] = new(apps.Deployment)
				into = all.deployments[head.Metadata.Name]
			case "PodDisruptionBudget":
				all.budgets[head.Metadata.Name] = new(policy.PodDisruptionBudget)
				into = all.budgets[head.Metadata.Name]
			case "NetworkPolicy":
				all.policies[head.Metadata.Name] = new(networking.NetworkPolicy)
				into = all.policies[head.Metadata.Name]
			case "Service":
				all.services[head.Metadata.Name] = new(core.Service)
				into = all.services[head.Metadata.Name]
			default:
				t.Fatalf("%s: kind %q", name, head.Kind)
			}
			strictly(t, doc, into)
		}
	}
	return all
}

func strictly(t *testing.T, doc []byte, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(doc, into); err != nil {
		t.Errorf("%v in\n%.300s", err, doc)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	testenv.Must(t, err)
	return text
}

// settings are the flags of takt serve, from the generated reference: a test of the root module keeps that current.
func settings(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)`").FindAllSubmatch(read(t, "../../docs/reference/config.md"), -1) {
		names = append(names, string(m[1]))
	}
	if len(names) < 40 {
		t.Fatalf("%d settings in config.md: %v", len(names), names)
	}
	return names
}

// knows checks that each flag of a command line and each variable TAKT_... is a setting.
func knows(t *testing.T, where string, args []string, variables []string) {
	t.Helper()
	all := settings(t)
	for _, arg := range args {
		flag, isFlag := strings.CutPrefix(arg, "--")
		flag, _, _ = strings.Cut(flag, "=")
		if isFlag && !slices.Contains(all, flag) {
			t.Errorf("%s: there is no flag --%s", where, flag)
		}
	}
	for _, name := range variables {
		flag, ours := strings.CutPrefix(name, "TAKT_")
		if ours && !slices.Contains(all, strings.ToLower(strings.ReplaceAll(flag, "_", "-"))) {
			t.Errorf("%s: there is no variable %s", where, name)
		}
	}
}

// container is the one of a pod, which has no right that it does not need.
func container(t *testing.T, name string, spec core.PodSpec) core.Container {
	t.Helper()
	if *spec.AutomountServiceAccountToken || *spec.EnableServiceLinks || *spec.TerminationGracePeriodSeconds <= 10 {
		t.Errorf("%s: token %v, service links %v, grace %d s, want above --drain", name, *spec.AutomountServiceAccountToken, *spec.EnableServiceLinks, *spec.TerminationGracePeriodSeconds)
	}
	if s := spec.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser != 65532 || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: %+v", name, s)
	}
	if len(spec.Containers) != 1 {
		t.Fatalf("%s: %d containers", name, len(spec.Containers))
	}
	c := spec.Containers[0]
	if s := c.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("%s: %+v", name, s)
	}
	return c
}

// limits checks memory and variables of a container: no secret is in the open. It returns the names of the variables.
func limits(t *testing.T, name string, c core.Container) []string {
	t.Helper()
	limit, soft := c.Resources.Limits.Memory().Value(), int64(0)
	var variables []string
	for _, e := range c.Env {
		variables = append(variables, e.Name)
		secret := strings.HasSuffix(e.Name, "PASSWORD") || e.Name == "TAKT_REDIS" || e.Name == "TAKT_MQTT"
		if secret && (e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil || e.ValueFrom.SecretKeyRef.Name != "takt") {
			t.Errorf("%s: %s is not of the secret", name, e.Name)
		}
		if e.Name == "GOMEMLIMIT" && e.Value == "400MiB" {
			soft = 400 << 20
		}
	}
	if soft == 0 || soft >= limit || c.Resources.Requests.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		t.Errorf("%s: GOMEMLIMIT %d, resources %+v", name, soft, c.Resources)
	}
	return variables
}

// The manifests are of types that Kubernetes has, and run Takt as its pages say: each role in a Deployment with replicas, probes, limits and a budget, no right that it does not need, and no
// secret in the open.
func TestManifests(t *testing.T) {
	all := decode(t, "../kubernetes")
	roles := map[string]string{"takt": "receiver,engine", "takt-publisher": "publisher"}
	if len(all.deployments) != len(roles) || len(all.budgets) != len(roles) {
		t.Errorf("%d deployments, %d budgets", len(all.deployments), len(all.budgets))
	}
	for name, role := range roles {
		d, budget := all.deployments[name], all.budgets[name]
		if d == nil || budget == nil {
			t.Errorf("%s: no deployment or no budget", name)
			continue
		}
		pod := d.Spec.Template
		if d.Spec.Replicas == nil || *d.Spec.Replicas < 2 || budget.Spec.MinAvailable == nil || budget.Spec.MinAvailable.IntValue() != 1 {
			t.Errorf("%s: replicas %v, budget %+v", name, d.Spec.Replicas, budget.Spec)
		}
		for key, value := range d.Spec.Selector.MatchLabels {
			if pod.Labels[key] != value || budget.Spec.Selector.MatchLabels[key] != value {
				t.Errorf("%s: label %s is %q in the pod and %q in the budget, want %q", name, key, pod.Labels[key], budget.Spec.Selector.MatchLabels[key], value)
			}
		}
		c := container(t, name, pod.Spec)
		if !slices.Equal(c.Args, []string{"serve", "--roles", role, "--http", "0.0.0.0:9464"}) || c.Ports[0].ContainerPort != port {
			t.Errorf("%s: args %q, ports %+v", name, c.Args, c.Ports)
		}
		for path, probe := range map[string]*core.Probe{"/livez": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
			if probe.HTTPGet.Path != path || probe.HTTPGet.Port.String() != c.Ports[0].Name || probe.TimeoutSeconds <= 1 {
				t.Errorf("%s: %+v", name, probe)
			}
		}
		variables := limits(t, name, c)
		knows(t, name, c.Args, variables)
		if !slices.Contains(variables, "TAKT_INSTANCE") || !slices.Contains(variables, "TAKT_DATA") {
			t.Errorf("%s: variables %v", name, variables)
		}
	}
	deny, own := all.policies["default-deny"], all.policies["takt"]
	if deny == nil || len(deny.Spec.PodSelector.MatchLabels) > 0 || len(deny.Spec.Ingress)+len(deny.Spec.Egress) > 0 || len(deny.Spec.PolicyTypes) != 2 {
		t.Errorf("default-deny: %+v", deny)
	}
	if own == nil || own.Spec.Ingress[0].Ports[0].Port.IntValue() != port || len(own.Spec.Egress) != 3 {
		t.Errorf("takt: %+v", own)
	}
	if all.namespace.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("namespace %+v", all.namespace.Labels)
	}
}

// consoleFlags are the flags of takt console in a command line, each of which it has; the values are of the flags that are to be checked.
func consoleFlags(t *testing.T, where string, args []string) map[string]string {
	t.Helper()
	_, section, found := strings.Cut(string(read(t, "../../docs/reference/commands.md")), "## takt console serve\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found || args[0] != "console" {
		t.Fatalf("%s: %q is not takt console, or commands.md lacks it", where, args)
	}
	values := make(map[string]string)
	for i := 1; i+1 < len(args); i += 2 {
		if !strings.Contains(section, "| `"+args[i]+"`") {
			t.Errorf("%s: takt console has no flag %s", where, args[i])
		}
		values[args[i]] = args[i+1]
	}
	return values
}

// guarded says whether a console listens for other machines by TLS, for its users.
func guarded(flags map[string]string) bool {
	return flags["--listen"] == "0.0.0.0:8420" && flags["--tls-cert"] != "" && flags["--tls-key"] != "" && flags["--users"] != ""
}

// The console is applied by itself: one replica, by TLS and for its users, with the rights of the other pods, and reached through the ingress alone.
func TestConsoleManifests(t *testing.T) {
	all := decode(t, "../kubernetes/console")
	d, service, in := all.deployments["takt-console"], all.services["takt-console"], all.policies["takt-console"]
	if d == nil || service == nil || in == nil || *d.Spec.Replicas != 1 {
		t.Fatalf("%+v", all)
	}
	for key, value := range d.Spec.Selector.MatchLabels {
		if d.Spec.Template.Labels[key] != value || service.Spec.Selector[key] != value || in.Spec.PodSelector.MatchLabels[key] != value {
			t.Errorf("label %s is not %q everywhere", key, value)
		}
	}
	c := container(t, "console", d.Spec.Template.Spec)
	if !guarded(consoleFlags(t, "console", c.Args)) || c.Ports[0].ContainerPort != 8420 || service.Spec.Ports[0].TargetPort.String() != c.Ports[0].Name || in.Spec.Ingress[0].Ports[0].Port.IntValue() != 8420 {
		t.Errorf("args %q, ports %+v, service %+v, policy %+v", c.Args, c.Ports, service.Spec, in.Spec)
	}
	for _, probe := range []*core.Probe{c.LivenessProbe, c.ReadinessProbe} {
		if probe.HTTPGet.Scheme != core.URISchemeHTTPS || probe.HTTPGet.HTTPHeaders[0].Value != "localhost" {
			t.Errorf("%+v", probe)
		}
	}
	knows(t, "console", nil, limits(t, "console", c))
}

// The compose file names files that are there, and settings that Takt has; what is Takt's may write to its volume alone.
func TestCompose(t *testing.T) {
	type service struct {
		Build       map[string]string
		Image       string
		Command     []string
		Environment map[string]string
		ReadOnly    bool     `json:"read_only"`
		CapDrop     []string `json:"cap_drop"`
		Volumes     []string
		SecurityOpt []string `json:"security_opt"`
		Ports       []string
		Profiles    []string
	}
	var file struct {
		Services map[string]service
		Volumes  map[string]any
		Secrets  map[string]struct{ File string }
	}
	testenv.Must(t, yaml.Unmarshal(read(t, "../compose/compose.yaml"), &file))
	var served []string
	for name, s := range file.Services {
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, named := file.Volumes[from]; named || from == "./secrets" || from == "./console" { // made by hand: README.md
				continue
			}
			if _, err := os.Stat(filepath.Join("../compose", from)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if s.Image != "takt" {
			continue
		}
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.SecurityOpt) != 1 || len(s.Ports) > 0 != (name == "console") {
			t.Errorf("%s: %+v", name, s)
		}
		if _, err := os.Stat(filepath.Join("../compose", s.Build["context"], s.Build["dockerfile"])); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var variables []string
		for v := range s.Environment {
			variables = append(variables, v)
		}
		if name == "console" {
			if knows(t, name, nil, variables); !guarded(consoleFlags(t, name, s.Command)) || !slices.Equal(s.Profiles, []string{"console"}) {
				t.Errorf("%s: %q, profiles %q", name, s.Command, s.Profiles)
			}
			continue
		}
		knows(t, name, s.Command, variables)
		served = append(served, s.Command[2])
	}
	slices.Sort(served)
	if strings.Join(served, " ") != "publisher receiver,engine" {
		t.Errorf("roles %v", served)
	}
}
