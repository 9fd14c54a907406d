package cli

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestCommandsInComments: what the heads of the manifests tell people to type.
func TestCommandsInComments(t *testing.T) {
	for _, name := range []string{"kubernetes/strait.yaml"} {
		for _, m := range regexp.MustCompile(`(?m)^#.*-- stctl (.*)$`).FindAllStringSubmatch(manifest(t, name), -1) {
			app := newApp(io.Discard, io.Discard)
			if _, err := take(app, append([]string{"stctl"}, strings.Fields(m[1])...)); err != nil {
				t.Errorf("%s: %s: %v", name, m[0], err)
			}
		}
	}
}

// kube is a part of a Kubernetes manifest.
type kube map[string]any

func (k kube) at(path ...string) kube {
	for _, p := range path {
		next, _ := k[p].(map[string]any)
		k = next
	}
	return k
}

func (k kube) list(name string) []kube {
	all, _ := k[name].([]any)
	out := make([]kube, len(all))
	for i, x := range all {
		m, _ := x.(map[string]any)
		out[i] = m
	}
	return out
}

func (k kube) text(name string) string { s, _ := k[name].(string); return s }

func TestKubernetesManifest(t *testing.T) {
	var docs []kube
	for _, part := range strings.Split(manifest(t, "kubernetes/strait.yaml"), "\n---\n") {
		var d map[string]any
		if err := yaml.UnmarshalStrict([]byte(part), &d); err != nil {
			t.Fatalf("%v\n%s", err, part)
		}
		docs = append(docs, d)
	}
	versions := map[string]string{"PersistentVolumeClaim": "v1", "Service": "v1", "StatefulSet": "apps/v1", "Deployment": "apps/v1", "PodDisruptionBudget": "policy/v1"}
	kinds, byName := map[string]int{}, map[string]kube{}
	pods := map[string]kube{} // by the label app
	for _, d := range docs {
		kind, name := d.text("kind"), d.at("metadata").text("name")
		if versions[kind] == "" || d.text("apiVersion") != versions[kind] || name == "" {
			t.Errorf("%s %s %s", d.text("apiVersion"), kind, name)
		}
		kinds[kind]++
		byName[kind+"/"+name] = d
		if tpl := d.at("spec", "template"); tpl != nil {
			app := tpl.at("metadata", "labels").text("app")
			if app == "" || d.at("spec", "selector", "matchLabels").text("app") != app {
				t.Errorf("%s %s does not select its pods", kind, name)
			}
			pods[app] = d
			checkPod(t, name, d)
		}
	}
	if kinds["StatefulSet"] != 1 || kinds["Deployment"] != 1 || byName["StatefulSet/strait-coordinator"].at("spec")["replicas"] != float64(3) {
		t.Errorf("%v", kinds)
	}
	for _, d := range docs {
		switch d.text("kind") {
		case "Service":
			pod := pods[d.at("spec", "selector").text("app")]
			if pod == nil {
				t.Errorf("service %s selects nothing", d.at("metadata").text("name"))
				continue
			}
			for _, p := range d.at("spec").list("ports") {
				if !hasPort(pod, p.text("targetPort")) {
					t.Errorf("service %s: no port %s", d.at("metadata").text("name"), p.text("targetPort"))
				}
			}
		case "PodDisruptionBudget":
			if pods[d.at("spec", "selector", "matchLabels").text("app")] == nil {
				t.Error("the budget selects nothing")
			}
		case "StatefulSet":
			if byName["Service/"+d.at("spec").text("serviceName")] == nil {
				t.Error("the stateful set names no service")
			}
		}
	}
	for _, claim := range regexp.MustCompile(`claimName: (\S+)`).FindAllStringSubmatch(manifest(t, "kubernetes/strait.yaml"), -1) {
		if byName["PersistentVolumeClaim/"+claim[1]] == nil {
			t.Errorf("there is no claim %s", claim[1])
		}
	}
}

func hasPort(workload kube, name string) bool {
	for _, c := range workload.at("spec", "template", "spec").list("containers") {
		for _, p := range c.list("ports") {
			if p.text("name") == name {
				return true
			}
		}
	}
	return false
}

func checkPod(t *testing.T, name string, workload kube) {
	t.Helper()
	spec := workload.at("spec", "template", "spec")
	if grace, _ := spec["terminationGracePeriodSeconds"].(float64); grace < 30 {
		t.Errorf("%s: %v s to end in", name, grace)
	}
	volumes := map[string]bool{}
	for _, v := range append(spec.list("volumes"), workload.at("spec").list("volumeClaimTemplates")...) {
		n := v.text("name")
		if n == "" {
			n = v.at("metadata").text("name")
		}
		volumes[n] = true
	}
	for _, c := range spec.list("containers") {
		if c.text("image") == "" {
			t.Errorf("%s: no image", name)
		}
		var words []string
		args, _ := c["args"].([]any)
		for _, a := range args {
			words = append(words, fmt.Sprint(a))
		}
		accepts(t, "strait.yaml: "+name, words)
		for probe, path := range map[string]string{"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"} {
			get := c.at(probe, "httpGet")
			if get.text("path") != path || !hasPort(workload, get.text("port")) {
				t.Errorf("%s: %s asks %s of port %s", name, probe, get.text("path"), get.text("port"))
			}
		}
		for _, p := range c.list("ports") { // each is one that the process listens on
			if !strings.Contains(strings.Join(words, " "), fmt.Sprintf(":%v", p["containerPort"])) {
				t.Errorf("%s: nothing listens on %v", name, p["containerPort"])
			}
		}
		for _, m := range c.list("volumeMounts") {
			if !volumes[m.text("name")] {
				t.Errorf("%s: no volume %s", name, m.text("name"))
			}
			if !strings.Contains(strings.Join(words, " "), m.text("mountPath")) {
				t.Errorf("%s: nothing uses %s", name, m.text("mountPath"))
			}
		}
	}
}
