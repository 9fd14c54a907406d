package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"strait/cmd/internal/settings"
	"strait/plan/fault"
	"strait/plan/logical"
	"strait/plan/option"
	"strait/plan/physical"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name: "check", Usage: "read a job file, its plugins and options, without a cluster and without touching data",
		ArgsUsage: "FILE",
		Flags: append(jobFlags(), outputFlag(), &cli.BoolFlag{Name: "strict",
			Usage: "plugins and formats that this build does not have are errors, as in run"}),
		Action: check,
	}
}

func check(c *cli.Context) error {
	form, err := output(c)
	if err != nil {
		return err
	}
	j, err := readJobFile(c)
	if err != nil {
		return err
	}
	job, warnings, err := j.parse()
	if err == nil {
		ctx, cancel := context.WithTimeout(c.Context, planWithin)
		defer cancel()
		more, cerr := j.check(ctx, job, c.Bool("strict"))
		warnings, err = append(warnings, more...), cerr
	}
	if !c.Bool("strict") {
		var more []*fault.Mistake
		more, err = j.variableMistakes(err)
		warnings = append(warnings, more...)
	}
	if form == "json" {
		said := struct {
			OK       bool     `json:"ok"`
			Warnings []string `json:"warnings,omitempty"`
			Error    string   `json:"error,omitempty"`
		}{OK: err == nil}
		for _, m := range warnings {
			said.Warnings = append(said.Warnings, m.Error())
		}
		if err != nil {
			said.Error = err.Error()
			_ = writeJSON(c.App.Writer, said)
			return &outcome{code: ExitFailed}
		}
		return writeJSON(c.App.Writer, said)
	}
	warn(c.App.ErrWriter, warnings)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s: ok\n", j.path)
	return err
}

// variableMistakes takes those mistakes out of err that other values of the file's variables would mend: they
// stand on a line with a ${variable} and are not about the name of an option. A check judges the file; run and
// check --strict judge it with the values given.
func (j *jobFile) variableMistakes(err error) ([]*fault.Mistake, error) {
	if err == nil {
		return nil, nil
	}
	lines := bytes.Split(j.text, []byte("\n"))
	var soft []*fault.Mistake
	var hard fault.List
	for _, e := range fault.Split(err) {
		var m *fault.Mistake
		if errors.As(e, &m) && m.Pos.Line > 0 && m.Pos.Line <= len(lines) && bytes.Contains(lines[m.Pos.Line-1], []byte("${")) && !errors.Is(m, option.ErrUnknown) {
			soft = append(soft, m)
			continue
		}
		hard.AddError(e)
	}
	return soft, hard.Err()
}

func planCommand() *cli.Command {
	return &cli.Command{
		Name: "plan", Usage: "show the logical and the physical plan of a job file and the slots it needs",
		ArgsUsage: "FILE", Flags: append(jobFlags(), outputFlag("dot"), settings.Flag("secret.key-file")),
		Action: func(c *cli.Context) error {
			form, err := output(c, "dot")
			if err != nil {
				return err
			}
			j, err := readJobFile(c)
			if err != nil {
				return err
			}
			set, err := load(c, settings.Run)
			if err != nil {
				return err
			}
			if j.keys, err = keyring(c.App.ErrWriter, set); err != nil {
				return err
			}
			_, dag, p, warnings, err := j.plan(c.Context)
			warn(c.App.ErrWriter, warnings)
			if err != nil {
				return err
			}
			switch form {
			case "json":
				return writeJSON(c.App.Writer, struct {
					Logical  *logical.View  `json:"logical"`
					Physical *physical.View `json:"physical"`
				}{logical.Show(dag), physical.Show(p)})
			case "dot":
				_, err = fmt.Fprint(c.App.Writer, physical.Dot(p))
			default:
				_, err = fmt.Fprintf(c.App.Writer, "%s\n%s", logical.Explain(dag), physical.Explain(p))
			}
			return err
		},
	}
}
