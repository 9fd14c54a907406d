package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"strait/plan/config"
	"strait/plan/logical"
	"strait/plan/option"
	"strait/worker/connector"
	"strait/worker/transform"
)

// plugin is one plugin of this build for `connector list|show`.
type plugin struct {
	Section config.Section    `json:"section"`
	Name    string            `json:"name"`
	Doc     string            `json:"doc"`
	Claims  []string          `json:"claims,omitempty"`
	Options *option.Reference `json:"options,omitempty"`
}

func plugins() []plugin {
	var out []plugin
	for _, f := range connector.AllSources() {
		out = append(out, plugin{config.Source, f.Name, f.Doc, f.Claims, f.Options.Describe(logical.Common(config.Source)...)})
	}
	for _, f := range transform.All() {
		out = append(out, plugin{config.Transform, f.Name, f.Doc, nil, f.Options.Describe(logical.Common(config.Transform)...)})
	}
	for _, f := range connector.AllSinks() {
		out = append(out, plugin{config.Sink, f.Name, f.Doc, f.Claims, f.Options.Describe(logical.Common(config.Sink)...)})
	}
	return out
}

func connectorCommand() *cli.Command {
	return &cli.Command{
		Name: "connector", Usage: "the plugins of this build and their options",
		Subcommands: []*cli.Command{
			{
				Name: "list", Usage: "sources, transforms and sinks", Flags: []cli.Flag{outputFlag()},
				Action: func(c *cli.Context) error {
					form, err := output(c)
					if err != nil {
						return err
					}
					all := plugins()
					if form == "json" {
						for i := range all {
							all[i].Options = nil
						}
						return writeJSON(c.App.Writer, all)
					}
					rows := [][]string{{"SECTION", "NAME", "WHAT"}}
					for _, p := range all {
						rows = append(rows, []string{string(p.Section), p.Name, firstSentence(p.Doc)})
					}
					return table(c.App.Writer, rows)
				},
			},
			{
				Name: "show", Usage: "options, rules and claims of one plugin", ArgsUsage: "NAME", Flags: []cli.Flag{outputFlag()},
				Action: showConnector,
			},
		},
	}
}

func firstSentence(s string) string {
	if i := strings.Index(s, ". "); i >= 0 {
		return s[:i+1]
	}
	return s
}

func showConnector(c *cli.Context) error {
	form, err := output(c)
	if err != nil {
		return err
	}
	if c.NArg() != 1 {
		return failf("connector show takes one name; `stctl connector list` lists them")
	}
	name := c.Args().First()
	var found []plugin
	var names []string
	for _, p := range plugins() {
		names = append(names, p.Name)
		if strings.EqualFold(p.Name, name) {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		hint := "`stctl connector list` lists them"
		if near := option.Nearest(name, names); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		return failf("no plugin %q in this build; %s", name, hint)
	}
	if form == "json" {
		return writeJSON(c.App.Writer, found)
	}
	for i, p := range found {
		if i > 0 {
			fmt.Fprintln(c.App.Writer)
		}
		if err := showPlugin(c.App.Writer, p); err != nil {
			return err
		}
	}
	return nil
}

func showPlugin(w io.Writer, p plugin) error {
	fmt.Fprintf(w, "%s (%s)\n%s\n", p.Name, p.Section, p.Doc)
	for _, claim := range p.Claims {
		fmt.Fprintf(w, "claim: %s\n", claim)
	}
	fmt.Fprintln(w)
	return showReference(w, p.Options, "")
}

func showReference(w io.Writer, r *option.Reference, indent string) error {
	for _, o := range r.Options {
		head := indent + o.Name + "  " + o.Type
		if o.Required {
			head += "  required"
		}
		if o.Default != "" {
			head += "  default " + o.Default
		}
		if len(o.Aliases) > 0 {
			head += "  also " + strings.Join(o.Aliases, ", ")
		}
		fmt.Fprintln(w, head)
		if o.Doc != "" {
			fmt.Fprintln(w, indent+"    "+o.Doc)
		}
		if len(o.Values) > 0 {
			fmt.Fprintln(w, indent+"    one of "+strings.Join(o.Values, ", "))
		}
		if o.Inside != nil {
			if err := showReference(w, o.Inside, indent+"    "); err != nil {
				return err
			}
		}
	}
	for _, rule := range r.Rules {
		fmt.Fprintln(w, indent+"rule: "+rule)
	}
	for _, i := range r.Ignored {
		fmt.Fprintln(w, indent+"ignored: "+i.Key+" ("+i.Value+")")
	}
	return nil
}
