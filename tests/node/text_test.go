package node

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestVariablesExpandAsInKubernetes(t *testing.T) {
	variables := map[string]string{"A": "one", "EMPTY": ""}
	for text, want := range map[string]string{
		"$(A)/$(A)":   "one/one",
		"-$(EMPTY)-":  "--",
		"$(UNKNOWN)":  "$(UNKNOWN)",
		"$$(A)":       "$(A)",
		"$$$(A)":      "$one",
		"cost: 5$":    "cost: 5$",
		"$A $( $(A":   "$A $( $(A",
		"$(B $(A))":   "$(B one)",
		"no variable": "no variable",
	} {
		if got := expand(text, variables); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

func TestAnImageIsFoundWithoutItsTagUnlessTheTableHasIt(t *testing.T) {
	table := images{"host:5000/a": {Command: []string{"any"}}, "host:5000/a:2": {Command: []string{"two"}}}
	for name, want := range map[string]string{
		"host:5000/a": "any", "host:5000/a:1": "any", "host:5000/a:2": "two",
		"host:5000/a@sha256:00": "any", "host:5000/a:1@sha256:00": "any", "host": "", "b": "",
	} {
		found, present := table.find(name)
		if present != (want != "") || present && found.Command[0] != want {
			t.Errorf("%s gives %v, want %q", name, found.Command, want)
		}
	}
}

func TestAPodsWordsReplaceTheImages(t *testing.T) {
	found := image{Command: []string{"run"}, Args: []string{"fast"}}
	for _, c := range []struct{ command, args, want []string }{
		{nil, nil, []string{"run", "fast"}},
		{nil, []string{"slow"}, []string{"run", "slow"}},
		{[]string{"walk"}, nil, []string{"walk"}},
		{[]string{"walk"}, []string{"slow"}, []string{"walk", "slow"}},
	} {
		if got := found.arguments(c.command, c.args); !slices.Equal(got, c.want) {
			t.Errorf("%v %v gives %v, want %v", c.command, c.args, got, c.want)
		}
	}
}

func TestPathsOfATableAreBesideIt(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "table.yaml")
	text := "images:\n  a: {command: [python3, ./a.py, ../b.py, -c./d]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	table, err := loadImages(file)
	want := []string{"python3", filepath.Join(folder, "a.py"), filepath.Join(filepath.Dir(folder), "b.py"), "-c./d"}
	if err != nil || !slices.Equal(table["a"].Command, want) {
		t.Fatalf("%v, %v", table["a"].Command, err)
	}
	if err := os.WriteFile(file, []byte("images:\n  a: {comand: [x]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadImages(file); err == nil {
		t.Fatal("a word that the table does not know is an error")
	}
}

func TestACueThatIsMisspelledIsAnError(t *testing.T) {
	for key, value := range map[string]string{
		"crash": "1s", "crash-after": "soon", "ready": "maybe", "image-pull": "never", "exit": "x",
	} {
		if _, err := cuesOf(map[string]string{cuePrefix + key: value}); err == nil {
			t.Errorf("%s: %s is taken", key, value)
		}
	}
}

func TestCuesAreReadAndOnlyReadinessIsQuick(t *testing.T) {
	got, err := cuesOf(map[string]string{
		"other/crash": "1s", cuePrefix + "crash-after": "500ms", cuePrefix + "exit": "3", cuePrefix + "ready": "false",
	})
	want := cues{crashes: true, crashAfter: 500 * time.Millisecond, exit: 3, unready: true}
	if err != nil || got != want || got.quick() {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, _ := cuesOf(map[string]string{cuePrefix + "ready": "false", cuePrefix + "hollow": "true"}); !got.quick() {
		t.Fatalf("%+v needs no runner", got)
	}
}
