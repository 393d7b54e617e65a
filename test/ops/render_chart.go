// Renders the templates of a Helm chart with the engine that Helm uses: Go's text/template with Sprig.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
)

func main() {
	var values map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&values); err != nil {
		panic(err)
	}
	root := template.New("chart").Option("missingkey=error")
	functions := sprig.TxtFuncMap()
	functions["include"] = func(name string, data any) (string, error) {
		var text bytes.Buffer
		err := root.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	// JSON is YAML, so that the values keep their types.
	functions["toYaml"] = func(value any) (string, error) {
		text, err := json.Marshal(value)
		return string(text), err
	}
	root.Funcs(functions)
	files, _ := filepath.Glob(filepath.Join(os.Args[1], "templates", "*"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		template.Must(root.New(filepath.Base(file)).Parse(string(text)))
	}
	for _, file := range files {
		if !strings.HasSuffix(file, ".yaml") {
			continue
		}
		var text bytes.Buffer
		if err := root.ExecuteTemplate(&text, filepath.Base(file), values); err != nil {
			panic(err)
		}
		fmt.Printf("---\n%s\n", text.String())
	}
}
